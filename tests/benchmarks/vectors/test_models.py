"""The forward pass of BERT against a slow one, one token at a time, in float64."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.common.errors import BenchmarkError
from benchmarks.vectors import models
from benchmarks.vectors.models import BertShape, bert, embed

SHAPE = BertShape(layers=2, heads=3, eps=1e-12)
HIDDEN, INNER, WORDS = 12, 20, 50


def weights(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)

    def matrix(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw).mul(0.3).to(dtype)

    made = {
        "embeddings.word_embeddings.weight": matrix(WORDS, HIDDEN),
        "embeddings.position_embeddings.weight": matrix(16, HIDDEN),
        "embeddings.token_type_embeddings.weight": matrix(2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    dense = {}
    for layer in range(SHAPE.layers):
        name = f"encoder.layer.{layer}"
        dense |= {f"{name}.attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        dense |= {f"{name}.attention.output.dense": (HIDDEN, HIDDEN), f"{name}.intermediate.dense": (INNER, HIDDEN)}
        dense |= {f"{name}.output.dense": (HIDDEN, INNER)}
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
    for name, shape in dense.items():
        made |= {f"{name}.weight": matrix(*shape), f"{name}.bias": matrix(shape[0])}
    for name in norms:
        made |= {f"{name}.weight": 1 + matrix(HIDDEN), f"{name}.bias": matrix(HIDDEN)}
    return made


def slow(found: dict[str, Tensor], tokens: list[int]) -> np.ndarray:
    """Hidden states of one text, without batches, masks or padding."""
    w = {name: value.double().numpy() for name, value in found.items()}

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        scaled = (x - x.mean()) / np.sqrt(x.var() + SHAPE.eps)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        from scipy.special import erf

        return x * (1 + erf(x / np.sqrt(2))) / 2

    word, place, kind = (w[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type"))
    rows = [norm("embeddings.LayerNorm", word[t] + place[k] + kind[0]) for k, t in enumerate(tokens)]
    size = HIDDEN // SHAPE.heads
    for layer in range(SHAPE.layers):
        name = f"encoder.layer.{layer}"
        q, k, v = ([dense(f"{name}.attention.self.{p}", x) for x in rows] for p in ("query", "key", "value"))
        following = []
        for at, x in enumerate(rows):
            heads = []
            for head in range(SHAPE.heads):
                part = slice(head * size, (head + 1) * size)
                score = np.array([q[at][part] @ other[part] for other in k]) / np.sqrt(size)
                share = np.exp(score - score.max())
                share /= share.sum()
                heads.append(sum(s * other[part] for s, other in zip(share, v, strict=True)))
            x = norm(
                f"{name}.attention.output.LayerNorm", x + dense(f"{name}.attention.output.dense", np.concatenate(heads))
            )
            inner = gelu(dense(f"{name}.intermediate.dense", x))
            following.append(norm(f"{name}.output.LayerNorm", x + dense(f"{name}.output.dense", inner)))
        rows = following
    return np.array(rows)


def test_hidden_states_are_those_of_a_loop_whatever_is_padded() -> None:
    found = weights(torch.float64)
    texts = [[4, 9, 1, 30, 7], [11, 2]]
    padded, mask = models._padded(texts)
    hidden = bert(found, SHAPE, padded, mask)
    for row, tokens in enumerate(texts):
        np.testing.assert_allclose(hidden[row, : len(tokens)].numpy(), slow(found, tokens), rtol=1e-9, atol=1e-11)


class Words:
    """Stands in for a tokenizer: the length of each word."""

    def __call__(self, texts: list[str]) -> list[list[int]]:
        return [[len(word) for word in text.split()] for text in texts]


def minilm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> models.MiniLM:
    from safetensors.torch import save_file

    save_file(weights(), folder / "model.safetensors")
    config = {"num_hidden_layers": 2, "num_attention_heads": 3, "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    monkeypatch.setattr(models, "_tokenizer", lambda file, limit, special: Words())
    return models.MiniLM(folder)


def test_rows_are_mean_states_of_norm_one_in_the_order_of_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a bb ccc", "dddd", "ee f ggggg hh i"]
    model = minilm(tmp_path, monkeypatch)
    rows = embed(model, texts)
    for row, tokens in zip(rows, Words()(texts), strict=True):
        mean = slow(weights(), tokens).mean(0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-5)


def test_a_table_of_tokens_gives_the_mean_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import save_file

    for folder in ("weights", "tokenizers"):
        (tmp_path / folder).mkdir()
    table = torch.arange(20.0).reshape(10, 2)
    save_file({"embedding.weight": table.half()}, tmp_path / "weights" / "small.safetensors")
    (tmp_path / "tokenizers" / "small.json").write_text("{}")
    monkeypatch.setattr(models, "_tokenizer", lambda file, limit, special: Words())
    rows = embed(models.WordLlama(tmp_path), ["a ccc", ""])
    np.testing.assert_allclose(rows, [[4.0, 5.0], [9.0, 10.0]])


def test_no_texts_are_refused() -> None:
    with pytest.raises(BenchmarkError, match="no texts"):
        embed(None, [])  # type: ignore[arg-type]
