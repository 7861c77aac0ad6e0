"""Judged search against a slow loop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eigenmap.data.vectors.qrels import Qrels
from eigenmap.evaluation.vectors import judged_search


def slow(queries: np.ndarray, documents: np.ndarray, grades: np.ndarray, dim: int, cut: int) -> dict[str, float]:
    """nDCG@10, recall and MRR from their definitions, over queries with something relevant."""
    ndcg, recall, mrr = [], [], []
    for query, wanted in zip(queries, grades, strict=True):
        if not wanted.any():
            continue
        cosine = [d[:dim] @ query[:dim] / np.linalg.norm(d[:dim]) / np.linalg.norm(query[:dim]) for d in documents]
        order = np.argsort(-np.array(cosine))
        gain = sum(wanted[d] / math.log2(r + 2) for r, d in enumerate(order[:10]))
        best = sum(g / math.log2(r + 2) for r, g in enumerate(sorted(wanted, reverse=True)[:10]))
        ndcg.append(gain / best)
        recall.append(sum(wanted[d] > 0 for d in order[:cut]) / (wanted > 0).sum())
        mrr.append(1 / (1 + next(r for r, d in enumerate(order) if wanted[d])))
    return {"ndcg@10": float(np.mean(ndcg)), f"recall@{cut}": float(np.mean(recall)), "mrr": float(np.mean(mrr))}


def test_scores_are_those_of_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    queries, documents = rng.normal(size=(20, 12)), rng.normal(size=(90, 12))
    grades = rng.integers(1, 4, (20, 90)) * (rng.random((20, 90)) < 0.06)
    grades[3] = 0
    q, d = np.nonzero(grades)
    rows = judged_search(queries, documents, Qrels(q, d, grades[q, d].astype(float), 0), [2, 12], [5])
    for row, dim in zip(rows, (2, 12), strict=True):
        assert row == pytest.approx({"dim": dim, **slow(queries, documents, grades, dim, 5)}, abs=1e-9)
