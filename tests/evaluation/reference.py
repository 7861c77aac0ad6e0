"""Retrieval from its definition, one query and one item at a time, in float64."""

from __future__ import annotations

import numpy as np


def ranking(query, gallery, dim, leave_out=None):
    """Gallery rows by falling cosine of prefixes, equal cosines by row."""
    q = query[:dim].astype(np.float64)
    cosines = {}
    for i in range(len(gallery)):
        g = gallery[i, :dim].astype(np.float64)
        norms = np.linalg.norm(q) * np.linalg.norm(g)
        if i != leave_out:
            cosines[i] = 0.0 if norms == 0 else float(q @ g) / norms
    return sorted(cosines, key=lambda i: (-cosines[i], i)), cosines


def relevant(a, b):
    return bool((a & b).any()) if np.ndim(a) else bool(a == b)


def scores(queries, gallery, query_labels, gallery_labels, dim, top, drop_self=False):
    """The three metrics at every M of `top`, averaged over queries."""
    totals = {f"{name}@{m}": 0.0 for name in ("map_over_found", "map_over_relevant", "precision") for m in top}
    for j in range(len(queries)):
        order, _ = ranking(queries[j], gallery, dim, leave_out=j if drop_self else None)
        all_relevant = sum(relevant(query_labels[j], gallery_labels[i]) for i in order)
        for m in top:
            found, gain = 0, 0.0
            for r, i in enumerate(order[:m], start=1):
                if relevant(query_labels[j], gallery_labels[i]):
                    found += 1
                    gain += found / r
            totals[f"map_over_found@{m}"] += gain / found if found else 0.0
            totals[f"map_over_relevant@{m}"] += gain / all_relevant if all_relevant else 0.0
            totals[f"precision@{m}"] += found / m
    return {name: total / len(queries) for name, total in totals.items()}
