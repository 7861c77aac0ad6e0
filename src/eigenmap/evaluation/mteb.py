"""MTEB: tasks of the Massive Text Embedding Benchmark, scored with codes of each length.

    from sentence_transformers import SentenceTransformer

    base = SentenceTransformer("all-MiniLM-L6-v2")
    score_lengths(base, Eigenmap.load("runs/text"), mteb.get_tasks(tasks=["SciFact"]), dims=[16, 32, 64])

The base model encodes each text once, for any number of lengths. `mteb` is needed to run tasks, not to import this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.model import Eigenmap

Rows = npt.NDArray[np.float32]
Encode = Callable[[list[str]], Any]


class TextCodes:
    """Full-length codes of texts, each list of texts encoded once.

    Args:
        base: an object with `encode(texts)`, such as a SentenceTransformer, or a function from texts to vectors.
        model: a model of these vectors; None for the vectors as they are. A model of two spaces encodes queries with
            its left side and everything else with its right side.
        prompts: text to put before each text, by kind: "query" or "document".

    """

    def __init__(self, base: object, model: Eigenmap | None = None, prompts: Mapping[str, str] | None = None) -> None:
        encode = getattr(base, "encode", base)
        if not callable(encode):
            raise EigenmapError(f"base must have a method encode(texts), or be a function, not {base!r}.")
        if model is not None and model.kind != "vectors":
            raise EigenmapError(f"MTEB needs a model of vectors, but this one takes {model.kind}.")
        self._encode: Encode = encode
        self.model, self.prompts = model, dict(prompts or {})
        self._known: dict[tuple[str, str], Rows] = {}

    def of(self, texts: list[str], kind: str) -> Rows:
        """Return the codes of texts of this kind, "query" or "document"."""
        key = hashlib.sha256(json.dumps(texts).encode("ascii")).hexdigest(), kind
        if key not in self._known:
            vectors = np.asarray(self._encode([self.prompts.get(kind, "") + text for text in texts]))
            self._known[key] = self._coded(vectors, kind)
        return self._known[key]

    def forget(self) -> None:
        """Drop the codes of earlier tasks."""
        self._known.clear()

    def _coded(self, vectors: npt.NDArray[Any], kind: str) -> Rows:
        if self.model is None:
            return vectors.astype(np.float32)
        side = self.model if self.model.right is None else self.model.side("left" if kind == "query" else "right")
        return side.encode(vectors)


class CodeEncoder:
    """An MTEB encoder whose codes are cut at one length.

    Args:
        codes: source of full-length codes, shared by encoders of several lengths.
        dim: code length; None for all features.
        name: model name under which MTEB files the results.

    """

    def __init__(self, codes: TextCodes, dim: int | None = None, name: str = "eigenmap/codes") -> None:
        most = None if codes.model is None else codes.model.n_components
        self.codes, self.dim = codes, None if dim is None else whole_number(dim, "dim", 1, most)
        self.name = name if dim is None else f"{name}-{dim}"

    def encode(self, inputs: Iterable[Mapping[str, Any]], *, prompt_type: object = None, **about: Any) -> Rows:
        """Return one unit row per text of MTEB's batches."""
        texts = [str(text) for batch in inputs for text in batch["text"]]
        kind = "query" if str(getattr(prompt_type, "value", prompt_type)) == "query" else "document"
        rows = self.codes.of(texts, kind)
        if self.dim is not None and self.dim > rows.shape[1]:
            raise EigenmapError(f"dim is {self.dim}, but the vectors have only {rows.shape[1]} numbers.")
        return _unit(rows[:, : self.dim])

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the cosines of all pairs."""
        import torch

        left, right = (_unit(np.atleast_2d(np.asarray(each, np.float32))) for each in (embeddings1, embeddings2))
        return torch.from_numpy(left @ right.T)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the cosines row by row."""
        import torch

        left, right = (_unit(np.atleast_2d(np.asarray(each, np.float32))) for each in (embeddings1, embeddings2))
        return torch.from_numpy((left * right).sum(axis=1))

    @property
    def mteb_model_meta(self) -> Any:
        """Metadata under which MTEB files the results."""
        from mteb.models import ModelMeta

        model = self.codes.model
        revision = "plain" if model is None else (model.weights_sha256 or "unsaved")[:12]
        return ModelMeta.create_empty({"name": self.name, "revision": revision, "embed_dim": self.dim})


def score_lengths(
    base: object,
    model: Eigenmap | None,
    tasks: Iterable[Any],
    dims: Sequence[int],
    *,
    prompts: Mapping[str, str] | None = None,
    evaluate: Callable[..., Any] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Run tasks of MTEB with codes of each length: one row per task and length, with its main score.

    Args:
        base: text encoder, as for `TextCodes`.
        model: a model of these vectors; None for prefixes of the vectors.
        tasks: tasks of MTEB.
        dims: lengths of the codes.
        prompts: text to put before each text, by kind.
        evaluate: function that runs a task; default `mteb.evaluate`.
        options: passed to `evaluate`; results are cached only if `cache` is given.

    """
    codes = TextCodes(base, model, prompts)
    encoders = [CodeEncoder(codes, dim) for dim in dims]
    run = _mteb_evaluate() if evaluate is None else evaluate
    rows = []
    for task in tasks:
        for encoder in encoders:
            (result,) = run(encoder, task, **{"cache": None, "show_progress_bar": False, **options}).task_results
            rows.append({"task": result.task_name, "dim": encoder.dim, "main_score": float(result.get_score())})
        codes.forget()
    return rows


def _mteb_evaluate() -> Callable[..., Any]:
    try:
        import mteb
    except ImportError:
        raise EigenmapError("running MTEB needs mteb (Python 3.11 or later): pip install mteb") from None
    evaluate: Callable[..., Any] = mteb.evaluate
    return evaluate


def _unit(rows: npt.NDArray[Any]) -> Rows:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1), np.float32)
