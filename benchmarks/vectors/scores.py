r"""Scores of a search in which each query has one correct answer.

With r the rank of the answer by the cosine of the codes (documents that tie with it come first),

    nDCG@10 = 1 / log2(1 + r) if r <= 10, else 0        recall@10 = [r <= 10]        MRR = 1 / r

averaged over queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import normalize

from benchmarks.vectors.sets import Floats, Pairs

Side = str
Encoder = Callable[[Floats, Side, int], Floats]
"""Function from rows, a side ("left" or "right") and a length to codes."""
Scores = dict[str, float]
BLOCK = 1_000


def ranks(queries: Floats, documents: Floats) -> npt.NDArray[np.int64]:
    """Rank of document k for query k by cosine, counted from 1."""
    left, right = (normalize(torch.from_numpy(np.asarray(side, np.float32)), dim=1) for side in (queries, documents))
    found = []
    for start in range(0, len(left), BLOCK):
        similarity = left[start : start + BLOCK] @ right.T
        own = similarity.gather(1, torch.arange(start, start + len(similarity))[:, None])
        found.append((similarity >= own).sum(1))
    return torch.cat(found).numpy()


def of_ranks(rank: npt.NDArray[np.int64]) -> Scores:
    """Return all scores, given the ranks of the correct answers.

    >>> of_ranks(np.array([1, 3, 11]))["ndcg@10"]
    0.5
    """
    first = rank <= 10
    return {
        "ndcg@10": float(np.where(first, 1 / np.log2(1 + rank), 0.0).mean()),
        "recall@10": float(first.mean()),
        "mrr": float((1 / rank).mean()),
    }


def by_length(encode: Encoder, test: Pairs, lengths: Sequence[int]) -> dict[str, Scores]:
    """Scores of codes of each length on the test pairs."""
    return {
        str(length): of_ranks(ranks(encode(test.left, "left", length), encode(test.right, "right", length)))
        for length in lengths
    }


def ndcg(encode: Encoder, pairs: Pairs, lengths: Sequence[int]) -> float:
    """Return nDCG@10 averaged over lengths, by which settings are chosen on held-out pairs."""
    return float(np.mean([scores["ndcg@10"] for scores in by_length(encode, pairs, lengths).values()]))
