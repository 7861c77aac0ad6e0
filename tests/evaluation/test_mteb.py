"""The encoder for MTEB, behind a stand-in of its interface: batches of texts in, a task that ranks documents.

`mteb` itself is no requirement of the tests. The stand-in gives what version 2 gives: an iterable of batches with a
list under "text", a prompt type with a `value`, and results with `task_results`, `task_name` and `get_score`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eigenmap import EigenmapError
from eigenmap.evaluation.mteb import CodeEncoder, TextCodes, score_lengths
from tests.formats.models import vector_model

DOCUMENTS = [f"a text about subject {i}" for i in range(40)]
QUERIES = [f"subject {i}" for i in range(40)]


class PromptType(str, Enum):
    query = "query"
    document = "document"


class Base:
    """Vectors of texts: the number in a text decides, queries have some noise."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.places = np.random.default_rng(0).normal(size=(40, 12))

    def encode(self, texts: list[str]) -> np.ndarray:
        self.asked.append(texts)
        noise = [0.3 * np.random.default_rng(len(text)).normal(size=12) for text in texts]
        rows = [self.places[int(text.split()[-1])] for text in texts]
        return (np.array(rows) + np.array(noise)).astype(np.float32)


class Task:
    """Finds the document of each query: the share of queries whose document comes first."""

    def run(self, encoder: CodeEncoder) -> float:
        def batches(texts: list[str]) -> Iterator[dict[str, Any]]:
            for start in range(0, len(texts), 16):
                yield {"text": texts[start : start + 16], "id": [], "title": []}

        about: dict[str, Any] = {"task_metadata": None, "hf_split": "test", "hf_subset": "default", "batch_size": 16}
        queries = encoder.encode(batches(QUERIES), prompt_type=PromptType.query, **about)
        documents = encoder.encode(batches(DOCUMENTS), prompt_type=PromptType.document, **about)
        similar = encoder.similarity(queries, documents).numpy()
        return float((similar.argmax(1) == np.arange(40)).mean())


def evaluate(encoder: CodeEncoder, task: Task, *, cache: object, show_progress_bar: bool) -> SimpleNamespace:
    assert cache is None and not show_progress_bar
    score = task.run(encoder)
    return SimpleNamespace(task_results=[SimpleNamespace(task_name="local", get_score=lambda: score)])


def expected(left: np.ndarray, right: np.ndarray) -> float:
    left, right = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (left, right))
    return float(((left @ right.T).argmax(1) == np.arange(40)).mean())


def test_each_length_has_its_score_and_texts_are_encoded_once() -> None:
    base, model = Base(), vector_model(True)
    rows = score_lengths(base, model, [Task()], [1, 3, 7], evaluate=evaluate)
    assert [(row["task"], row["dim"]) for row in rows] == [("local", 1), ("local", 3), ("local", 7)]
    assert len(base.asked) == 2
    queries, documents = Base().encode(QUERIES), Base().encode(DOCUMENTS)
    for row in rows:
        codes = (model.encode(side, row["dim"]) for side in (queries, documents))
        assert row["main_score"] == expected(*codes)
    assert rows[2]["main_score"] > rows[0]["main_score"]


def test_plain_prefixes_are_scored_alike() -> None:
    base = Base()
    rows = score_lengths(base.encode, None, [Task(), Task()], [2, 12], evaluate=evaluate)
    queries, documents = base.encode(QUERIES), base.encode(DOCUMENTS)
    for row in rows:
        assert row["main_score"] == expected(queries[:, : row["dim"]], documents[:, : row["dim"]])
    assert len(rows) == 4 and len(base.asked) == 6  # every task encodes again: codes of earlier ones are dropped


def test_sides_and_prompts_follow_the_kind_of_text() -> None:
    model = vector_model(True)
    model.right = vector_model(True, seed=3)
    base = Base()
    encoder = CodeEncoder(TextCodes(base, model, {"query": "query: "}), 4)
    query = encoder.encode([{"text": ["subject 5"]}], prompt_type=PromptType.query)
    other = encoder.encode([{"text": ["subject 5"]}], prompt_type=None)
    assert base.asked == [["query: subject 5"], ["subject 5"]]
    np.testing.assert_allclose(query, model.encode(Base().encode(base.asked[0]), 4), atol=1e-6)
    np.testing.assert_allclose(other, model.right.encode(Base().encode(base.asked[1]), 4), atol=1e-6)
    cosine = float(encoder.similarity(query[0], other[0])[0, 0])
    assert cosine == pytest.approx(float(encoder.similarity_pairwise(query, other)[0]))
    assert cosine == pytest.approx(float((query * other).sum()))


def test_lists_of_texts_are_told_apart_whatever_is_in_them() -> None:
    codes = TextCodes(lambda texts: np.ones((len(texts), 3)))
    assert [len(codes.of(texts, "query")) for texts in (["a", "b"], ["a\0b"], ["a", "b"])] == [2, 1, 2]


def test_mistakes() -> None:
    from tests.robustness.operation import node_model

    with pytest.raises(EigenmapError, match=r"base .*7"):
        TextCodes(7)
    with pytest.raises(EigenmapError, match="nodes"):
        TextCodes(Base(), node_model(0))
    with pytest.raises(EigenmapError, match=r"dim.*1 to 7.*8"):
        CodeEncoder(TextCodes(Base(), vector_model(True)), 8)
    with pytest.raises(EigenmapError, match=r"dim is 13.*12"):
        CodeEncoder(TextCodes(Base()), 13).encode([{"text": ["subject 1"]}])
