"""Judged search against a slow loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenmap.data.vectors.qrels import Qrels
from eigenmap.evaluation.vectors import judged_search


def slow(queries: np.ndarray, documents: np.ndarray, grades: np.ndarray, dim: int, cut: int) -> dict[str, float]:
    """nDCG@10, recall and MRR from their definitions, over queries with something relevant."""
    ndcg, recall, mrr = [], [], []
    for query, wanted in zip(queries, grades, strict=True):
        if not wanted.any():
            continue
        norms = [(np.linalg.norm(d[:dim]) * np.linalg.norm(query[:dim])) or 1.0 for d in documents]
        cosine = [d[:dim] @ query[:dim] / norm for d, norm in zip(documents, norms, strict=True)]
        order = np.argsort(-np.array(cosine), kind="stable")
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


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_ties_zero_vectors_and_few_documents(data: st.DataObject) -> None:
    """Rows of 0 and +-1 in half precision: equal cosines are exactly equal at lengths 1 and 4 if no entry is 0."""
    n, n_queries, cut = (data.draw(st.integers(1, most)) for most in (25, 6, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    queries, documents = (rng.choice([-1.0, 1.0], (count, 4)).astype(np.float16) for count in (n_queries, n))
    documents[rng.random(n) < 0.2] = 0
    grades = rng.integers(1, 4, (n_queries, n)) * (rng.random((n_queries, n)) < 0.3)
    grades[0, 0] = 2
    q, d = np.nonzero(grades)
    for row in judged_search(queries, documents, Qrels(q, d, grades[q, d].astype(float), 0), [1, 4], [cut]):
        wanted = slow(queries.astype(float), documents.astype(float), grades, int(row["dim"]), cut)
        assert row == pytest.approx({"dim": row["dim"], **wanted})
