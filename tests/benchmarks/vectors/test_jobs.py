"""Every job on a miniature set: rows, scores between 0 and 1, and what is there already is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import harness
from benchmarks.common.errors import BenchmarkError
from benchmarks.vectors import paired, rivals, rows, sets, storage, unlabelled, upgrade
from eigenmap.search import CodeIndex

from .data import pairs, write


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sets"))


def scores(file: Path) -> dict[str, dict[str, dict[str, float]]]:
    found = json.loads(file.read_text())
    assert found["commit"] and found["device"] and found["protocol"]
    told = {row["method"]: row["scores"] for row in found["rows"]}
    assert all(0 <= value <= 1 for of in told.values() for row in of.values() for value in row.values())
    return told


def test_codes_from_pairs(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "MOST_COMPONENTS", 8)
    file = tmp_path / "one.json"
    words = ["--data", str(data), "--json", str(file), "--set", "small", "--model", "minilm", "--test", "100"]
    words += ["--neural", '{"steps": 20, "two_spaces": true}']
    quick = [name for name in paired.METHODS if name not in ("neural", "cca-zoo")]
    paired.main([*words, "--methods", ",".join(quick)])
    found = scores(file)
    assert set(found) == set(quick) and set(found["linear"]) == {"8", "16", "24"}
    assert set(found["cca-sklearn"]) == {"8"}
    assert json.loads(file.read_text())["protocol"]["steps"] == 20
    assert found["linear"]["8"]["ndcg@10"] > found["pca"]["8"]["ndcg@10"] + 0.2
    before = file.read_bytes()
    paired.main([*words, "--methods", "linear"])
    assert file.read_bytes() == before


def test_a_neural_row_of_other_settings_is_measured_again(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    words = ["--data", str(data), "--json", str(file), "--set", "small", "--model", "minilm", "--test", "100"]
    words += ["--methods", "pca,neural", "--neural"]

    def rows(width: int) -> dict[str, dict[str, object]]:
        paired.main([*words, json.dumps({"steps": 20, "batch_size": 64, "width": width})])
        return {row["method"]: row for row in json.loads(file.read_text())["rows"]}

    first, again, wider = rows(16), rows(16), rows(24)
    assert again == first
    assert wider["pca"] == first["pca"] and wider["neural"] != first["neural"]
    assert wider["neural"]["settings"] == {"steps": 20, "batch_size": 64, "width": 24}


def test_settings_are_given_or_those_of_the_best_variant(tmp_path: Path) -> None:
    rows_ = [{"quality": 0.4, "settings": {}}, {"quality": 0.5, "settings": {"steps": 7}}]
    (tmp_path / "variants.json").write_text(json.dumps({"rows": rows_}))
    assert paired.chosen(str(tmp_path / "variants.json")) == {"steps": 7} == paired.chosen('{"steps": 7}')


@pytest.mark.parametrize("name", ["small", "asked"])
def test_codes_without_labels(data: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "one.json"
    words = ["--data", str(data), "--json", str(file), "--set", name, "--model", "minilm", "--test", "100"]
    unlabelled.main(words)
    found = scores(file)
    assert set(found) == set(unlabelled.METHODS)
    assert json.loads(file.read_text())["protocol"]["judged"] is (name == "asked")


def test_new_queries_on_old_documents(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "METHODS", ("old", "ridge", "cca", "two-spaces", "into"))
    file = tmp_path / "one.json"
    upgrade.main(["--data", str(data), "--json", str(file), "--set", "small", "--pairs", "400", "--test", "100"])
    found = scores(file)
    assert found["two-spaces"]["16"]["ndcg@10"] > 0.3 and set(found) == set(upgrade.METHODS)


def test_a_quantiser_of_many_bytes_is_nearly_exact_and_one_of_few_is_not() -> None:
    both = pairs(1500, features=16)
    rows_ = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in both]
    task = storage.Task(rows_[1], rows_[0][:50], rows_[1])
    exact = task.scores(storage.exact(task, 0).documents)
    assert exact["recall of nearest"] == 1.0
    for quantise in (storage.product, storage.bit_allocation):
        many, few = (task.scores(*quantise(task, n)[:2]) for n in (8, 2))
        assert many["recall of nearest"] > few["recall of nearest"] + 0.1, quantise.__name__


def test_settings_of_a_quantiser_fill_its_bytes() -> None:
    assert list(storage.settings("rabitq", 16, 384)) == [(64, 1)]
    assert list(storage.settings("turboquant", 16, 384)) == [(48, 2), (32, 3), (24, 4)]
    both = pairs(300, features=16)
    task = storage.Task(both.right, both.left[:20], both.right)
    stored = storage.rabitq(task, 10, 16, 1)
    assert stored.bytes == 10 and stored.documents.shape == (300, 16)


def test_bits_ranked_by_cosine_are_those_of_an_index_ranked_by_cosine() -> None:
    both = pairs(600, features=16)
    documents, queries = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (both.right, both.left[:20]))
    stored = storage.bit_allocation(storage.Task(documents, queries, documents), 4)
    index = CodeIndex(16, precision="bits", bytes_per_item=4)
    index.add(documents, range(600))
    for ranking, decoded in (("relevance", stored.documents), ("cosine", stored.by_cosine().documents)):
        index.rank_by(ranking)  # type: ignore[arg-type]
        found = [ids[0] for ids in index.search(queries, top=1).ids]
        assert found == (queries @ decoded.T).argmax(1).tolist(), ranking


def test_rows_of_other_texts_are_not_continued(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    (tmp_path / "debian").mkdir()
    assert sets.texts(tmp_path, "debian") is None

    def run(digest: str, *methods: str) -> list[str]:
        harness.write(tmp_path / "debian" / "about.json", {"sides": {"left": {"texts": 9, "sha256": digest}}})
        texts = sets.texts(tmp_path, "debian")
        return [row["method"] for row in rows.measured(file, {}, {}, methods, lambda name: {"value": 1.0}, texts)]

    rows.measured(file, {}, {}, ["old"], lambda name: {"value": 1.0})  # of texts that nobody recorded
    assert run("a", "one") == ["old", "one"]
    with pytest.raises(BenchmarkError, match="different texts"):
        run("b", "two")
    assert run("a", "two") == ["old", "one", "two"]


def test_a_row_that_failed_leaves_those_before_it(tmp_path: Path) -> None:
    def measure(name: str) -> dict[str, float]:
        if name == "bad":
            raise ValueError(name)
        return {"value": 1.0}

    with pytest.raises(ValueError, match="bad"):
        rows.measured(tmp_path / "a.json", {"p": 1}, {"seed": 0}, ["good", "bad"], measure)
    assert [row["method"] for row in json.loads((tmp_path / "a.json").read_text())["rows"]] == ["good"]
    again = rows.measured(tmp_path / "a.json", {"p": 2}, {"seed": 0}, ["good"], measure)
    assert [row["method"] for row in again] == ["good"]
