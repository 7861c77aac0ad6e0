r"""Search by codes of every length, scored by relevance judgements: nDCG@10, recall@k and MRR.

With g_r the grade of the document at rank r (0 if it is not relevant),

    nDCG@10    sum_{r<=10} g_r / log2(1 + r), divided by the same sum for the best ranking
    recall@k   relevant documents among the first k / all relevant documents
    MRR        1 / rank of the first relevant document (0 if it is ranked too low)

each averaged over the queries that have a relevant document, as in trec_eval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.data.vectors.qrels import Qrels
from eigenmap.evaluation.ranking import CodesLike, check_codes, nearest
from eigenmap.evaluation.retrieval import ScoreRow

NDCG_AT = 10
DEPTH = 1_000
"""Lowest rank at which the first relevant document counts for MRR."""


def judged_search(
    queries: CodesLike,
    documents: CodesLike,
    qrels: Qrels,
    dims: Sequence[int],
    top: Sequence[int] = (10, 100),
    device: torch.device | str | None = None,
) -> list[ScoreRow]:
    """Score the ranking of the documents by the cosine of code prefixes, at each length of `dims`."""
    width = check_codes(queries, documents)
    lengths = [whole_number(dim, "dim", 1, width) for dim in dims]
    cuts = [whole_number(cut, "top") for cut in top]
    asked = np.unique(qrels.queries)
    judged = queries[torch.from_numpy(asked)] if isinstance(queries, Tensor) else queries[asked]
    truth = _Truth(qrels, asked)
    rows = []
    for dim in lengths:
        ranked = nearest(judged, documents, max(DEPTH, *cuts), dim, device=device).indices.cpu().numpy()
        rows.append({"dim": float(dim), **truth.scores(ranked, cuts)})
    return rows


class _Truth:
    """Grades of each judged query, by document."""

    def __init__(self, qrels: Qrels, asked: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        place = {int(query): k for k, query in enumerate(asked)}
        self.grades: list[dict[int, float]] = [{} for _ in asked]
        for query, document, grade in zip(qrels.queries, qrels.documents, qrels.grades, strict=True):
            self.grades[place[int(query)]][int(document)] = float(grade)

    def scores(self, ranked: np.ndarray[tuple[int, int], np.dtype[np.int64]], cuts: Sequence[int]) -> ScoreRow:
        """Return the mean of each metric over the queries."""
        ndcg, first = [], []
        recall: dict[int, list[float]] = {cut: [] for cut in cuts}
        discount = 1 / np.log2(np.arange(2, NDCG_AT + 2))
        for wanted, row in zip(self.grades, ranked, strict=True):
            gains = np.array([wanted.get(int(document), 0.0) for document in row])
            best = np.sort(np.array(list(wanted.values())))[::-1][:NDCG_AT]
            top = gains[:NDCG_AT]
            ndcg.append(float(top @ discount[: len(top)] / (best @ discount[: len(best)])))
            hits = np.flatnonzero(gains)
            first.append(1 / (1 + int(hits[0])) if len(hits) else 0.0)
            for cut in cuts:
                recall[cut].append(float((gains[:cut] > 0).sum() / len(wanted)))
        means = {f"recall@{cut}": float(np.mean(values)) for cut, values in recall.items()}
        return {f"ndcg@{NDCG_AT}": float(np.mean(ndcg)), **means, "mrr": float(np.mean(first))}
