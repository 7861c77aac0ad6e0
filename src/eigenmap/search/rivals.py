"""Comparison of a prefix with other codes of the same length, on one sample of the items.

prefix   the first `dim` features, as in a search by `dim`
random   `dim` random features: the result of cutting an unordered code, mean of three draws
pca      the leading `dim` principal components of the sample's codes
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigenmap.evaluation.retrieval import lengths
from eigenmap.search.backend import Floats, Readable
from eigenmap.search.scan import comparable

SAMPLE = 20_000
_DRAWS = 3


@dataclass(frozen=True)
class PrefixRow:
    """Recall against the full-length results within the sample."""

    dim: int
    prefix: float
    random: float
    pca: float


def compare_prefixes(backend: Readable, top: int, queries: int, seed: int) -> list[PrefixRow]:
    """Return one row per length 4, 8, ... below full length."""
    codes = backend.sample(SAMPLE, seed).codes
    if backend.about.metric == "cosine":
        codes = comparable(codes, "cosine")
    k, n = codes.shape[1], len(codes)
    rng = np.random.default_rng(seed)
    asked = rng.permutation(n)[: min(queries, n)]
    truth = _nearest(codes, asked, top, backend.about.metric)
    centred = codes.astype(np.float64) - codes.mean(axis=0, dtype=np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    projected = (codes @ axes[:, ::-1].astype(np.float32)).astype(np.float32)
    rows = []
    for dim in lengths(k, 4):
        if dim == k:
            break

        def recall(cut: Floats) -> float:
            found = _nearest(cut, asked, top, backend.about.metric)
            return float(np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(truth, found, strict=True)]))

        random = [recall(codes[:, rng.permutation(k)[:dim]]) for _ in range(_DRAWS)]
        rows.append(PrefixRow(dim, recall(codes[:, :dim]), float(np.mean(random)), recall(projected[:, :dim])))
    return rows


def _nearest(codes: Floats, asked: NDArray[np.int64], top: int, metric: str) -> NDArray[np.int64]:
    """Return the `top` nearest other items of each query by brute force."""
    rows = comparable(np.ascontiguousarray(codes), metric)
    scores = rows[asked] @ rows.T
    scores[np.arange(len(asked)), asked] = -np.inf
    top = min(top, len(codes) - 1)
    return np.argpartition(-scores, top - 1, axis=1)[:, :top]
