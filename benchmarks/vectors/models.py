r"""Two text models from Python packages, run without the packages' own libraries.

    MiniLM      a BERT of 6 layers, mean of the last hidden states, rows of norm 1         384 numbers
    WordLlama   the mean of the rows of a table of tokens, trained Matryoshka-fashion       256 numbers

Both read the `tokenizers` file of their package. `tests/benchmarks/vectors/test_models.py` compares the forward pass
with a slow one written from the equations.

[1] Devlin et al.: BERT, 2019.  [2] Reimers, Gurevych: Sentence-BERT, 2019.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, gelu, layer_norm, linear, normalize, scaled_dot_product_attention

from benchmarks.common.errors import BenchmarkError

Floats = npt.NDArray[np.float32]
Weights = dict[str, Tensor]
BATCH_TOKENS = 8_192
"""Tokens in a batch, padding included."""


class Rows(Protocol):
    """Lists of tokens -> one row of numbers each."""

    def rows(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Vectors of a batch of token lists."""
        ...


class TextModel(Rows, Protocol):
    """Texts -> one row of numbers each."""

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers of each text, cut at the model's limit."""
        ...


class BertShape(NamedTuple):
    """Sizes from config.json that the forward pass needs."""

    layers: int
    heads: int
    eps: float

    @classmethod
    def of(cls, config: dict[str, Any]) -> BertShape:
        """From the contents of config.json."""
        return cls(config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])


def bert(weights: Weights, shape: BertShape, tokens: Tensor, mask: Tensor) -> Tensor:
    """Last hidden states (B, T, H) of a BERT encoder; `mask` (B, T) is True where there is a token."""

    def dense(name: str, x: Tensor) -> Tensor:
        return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        return layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], shape.eps)

    embedded = weights["embeddings.word_embeddings.weight"][tokens]
    embedded = embedded + weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    x = norm("embeddings.LayerNorm", embedded + weights["embeddings.token_type_embeddings.weight"][0])
    for layer in range(shape.layers):
        name = f"encoder.layer.{layer}"
        q, k, v = (
            dense(f"{name}.attention.self.{part}", x).unflatten(-1, (shape.heads, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        found = scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
        found = dense(f"{name}.attention.output.dense", found.transpose(1, 2).flatten(-2))
        x = norm(f"{name}.attention.output.LayerNorm", x + found)
        found = dense(f"{name}.output.dense", gelu(dense(f"{name}.intermediate.dense", x)))
        x = norm(f"{name}.output.LayerNorm", x + found)
    return x


class Bert:
    """BERT, mean over tokens, rows of norm 1, on the device of its weights."""

    def __init__(self, weights: Weights, shape: BertShape) -> None:
        self.weights, self.shape = weights, shape

    @torch.no_grad()
    def rows(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Vectors of a batch of token lists."""
        device = self.weights["embeddings.word_embeddings.weight"].device
        padded, mask = (part.to(device) for part in _padded(tokens))
        hidden = bert(self.weights, self.shape, padded, mask)
        return normalize((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=1)


class MiniLM(Bert):
    """The sentence model in a sentence-transformers folder."""

    def __init__(self, folder: Path) -> None:
        from safetensors.torch import load_file

        shape = BertShape.of(json.loads((folder / "config.json").read_text()))
        super().__init__(load_file(folder / "model.safetensors"), shape)
        limit = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        self.tokens = _tokenizer(folder / "tokenizer.json", limit, special=True)


class Table:
    """The mean of the rows of a table of tokens; texts without a token it knows become `middle`."""

    def __init__(self, table: Tensor, middle: Tensor) -> None:
        self.table, self.middle = table, middle

    def rows(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Vectors of a batch of token lists."""
        numbers = torch.from_numpy(np.concatenate([np.asarray(each, np.int64) for each in tokens]))
        lengths = torch.tensor([len(each) for each in tokens])
        offsets = lengths.cumsum(0) - lengths
        found = embedding_bag(numbers.to(self.table.device), self.table, offsets.to(self.table.device), mode="mean")
        found[(lengths == 0).to(found.device)] = self.middle
        return found


class WordLlama(Table):
    """The table of tokens of a WordLlama package; texts without a token it knows become the mean of the table."""

    def __init__(self, folder: Path) -> None:
        from safetensors.torch import load_file

        (file,) = folder.glob("weights/*.safetensors")
        (names,) = folder.glob("tokenizers/*.json")
        (table,) = load_file(file).values()
        super().__init__(table.float(), table.float().mean(0))
        self.tokens = _tokenizer(names, None, special=False)


def embed(model: TextModel, texts: Sequence[str], say: Callable[[str], object] = lambda line: None) -> Floats:
    """One row per text."""
    if not len(texts):
        raise BenchmarkError("There are no texts to embed.")
    return embed_tokens(model, model.tokens(texts), say)


def embed_tokens(
    model: Rows,
    tokens: Sequence[Sequence[int]],
    say: Callable[[str], object] = lambda line: None,
    most: int = BATCH_TOKENS,
) -> Floats:
    """One row per list of tokens, the longest first so that batches of at most `most` hold texts of one length."""
    order = sorted(range(len(tokens)), key=lambda k: -len(tokens[k]))
    found: Floats | None = None
    total, done, start = sum(map(len, tokens)), 0, 0
    while start < len(order):
        size = max(1, most // max(1, len(tokens[order[start]])))
        batch = order[start : start + size]
        rows = model.rows([tokens[k] for k in batch]).cpu().numpy()
        found = np.empty((len(tokens), rows.shape[1]), np.float32) if found is None else found
        found[batch] = rows
        start += size
        done += sum(len(tokens[k]) for k in batch)
        say(f"{done:,} of {total:,} tokens")
    assert found is not None
    return found


def _tokenizer(file: Path, limit: int | None, special: bool) -> Callable[[Sequence[str]], list[list[int]]]:
    """Texts -> token numbers, by a file of the `tokenizers` library."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise BenchmarkError("Preparing texts needs the package tokenizers: pip install tokenizers.") from None
    made = Tokenizer.from_file(str(file))
    made.no_padding()
    if limit is None:
        made.no_truncation()
    else:
        made.enable_truncation(limit)

    def tokens(texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in made.encode_batch(list(texts), add_special_tokens=special)]

    return tokens


def _padded(tokens: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token numbers padded with 0, and where there is a token."""
    lengths = np.array([len(each) for each in tokens])
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    padded = np.zeros(mask.shape, np.int64)
    padded[mask] = np.concatenate([np.asarray(each, np.int64) for each in tokens])
    return torch.from_numpy(padded), torch.from_numpy(mask)
