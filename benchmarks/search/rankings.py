"""The two rankings of compact codes: by relevance (expected cosine times reliability) and by cosine.

The same stored bytes are ranked both ways. Each query is scored by three measures, and the difference of the two
rankings has its standard error over the queries.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.common.codes import Codes
from benchmarks.search.ways import TOP, Ids
from eigenmap.evaluation.relevance import Relevance
from eigenmap.search import CodeIndex
from eigenmap.search.backend import RANKINGS

BYTES = (8, 16, 32, 64)
MOST = 1000
Scores = dict[str, NDArray[np.float64]]
"""One number per query, for each measure."""


def ranked(codes: Codes, n_bytes: int | None) -> dict[str, Ids]:
    """The first items of every query by both rankings; of the codes as they are without a number of bytes."""
    options = {} if n_bytes is None else {"precision": "bits", "bytes_per_item": n_bytes}
    index = CodeIndex(codes.gallery.shape[1], **options)  # type: ignore[arg-type]
    index.add(codes.gallery, range(len(codes.gallery)))
    found = {}
    for ranking in RANKINGS if n_bytes else ("cosine",):
        index.rank_by(ranking)  # type: ignore[arg-type]
        found[ranking] = np.array(index.search(codes.queries, top=MOST).ids, np.int64)
    return found


def scores(codes: Codes, found: Ids, truth: Ids) -> Scores:
    """Score each query; `truth` are the nearest items by the full codes."""
    relevance = Relevance(codes.query_labels, codes.gallery_labels, torch.device("cpu"))
    hits = relevance.hits(0, torch.from_numpy(found)).numpy()
    right = hits.cumsum(axis=1)
    precision = right / np.arange(1, hits.shape[1] + 1)
    shared = [np.isin(one[:TOP], other).mean() for one, other in zip(found, truth, strict=True)]
    return {
        "map_over_found@1000": (precision * hits).sum(axis=1) / np.maximum(right[:, -1], 1),
        "precision@10": precision[:, TOP - 1],
        "recall@10": np.array(shared),
    }


def compared(codes: Codes, n_bytes: int, truth: Ids) -> dict[str, dict[str, float]]:
    """For each measure: both rankings, what cosine gains, and the standard error of this gain over the queries."""
    by = {ranking: scores(codes, found, truth) for ranking, found in ranked(codes, n_bytes).items()}
    row = {}
    for name, right in by["cosine"].items():
        gain = right - by["relevance"][name]
        error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
        row[name] = {ranking: float(one[name].mean()) for ranking, one in by.items()}
        row[name] |= {"gain": float(gain.mean()), "error": error}
    return row
