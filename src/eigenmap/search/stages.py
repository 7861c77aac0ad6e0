"""Stages of a search (features compared, items kept), and their recall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.search import checks
from eigenmap.search.backend import Id, Readable, Stage


def search_stages(
    n_components: int,
    top: int | None = None,
    dim: int | None = None,
    shortlist_dim: int | None = None,
    shortlist: int | None = None,
    funnel: Sequence[tuple[int, int]] | None = None,
) -> list[Stage]:
    """Return the stages requested by the arguments of a search, for codes of `n_components` features.

    >>> search_stages(256, top=10, shortlist_dim=16, shortlist=200)
    [Stage(dim=16, keep=200), Stage(dim=256, keep=10)]
    """
    if top is not None:
        top = whole_number(top, "top")
    if funnel is not None:
        if dim is not None or shortlist_dim is not None or shortlist is not None:
            raise EigenmapError("funnel lists all stages; leave dim, shortlist_dim and shortlist out")
        return checks.funnel(funnel, top, n_components)
    top = 10 if top is None else top
    dim = n_components if dim is None else whole_number(dim, "dim", 1, n_components)
    if shortlist_dim is None and shortlist is None:
        return [Stage(dim, top)]
    if shortlist_dim is None or shortlist is None:
        raise EigenmapError("shortlist_dim= and shortlist= must be given together")
    shortlist_dim = whole_number(shortlist_dim, "shortlist_dim", 1, dim)
    return [Stage(shortlist_dim, whole_number(shortlist, "shortlist", top)), Stage(dim, top)]


def measure_recall(items: Readable, stages: Sequence[Stage], queries: int, seed: int) -> float:
    """Return the share of the exact results of the last stage's length that the stages find.

    The queries are a sample of the items; each is excluded from its own results.
    """
    sample = items.sample(queries, seed)
    if not sample.ids:
        raise EigenmapError("the index is empty; add codes before measuring its recall")
    wider = [Stage(stage.dim, stage.keep + 1) for stage in stages]
    found = items.search(sample.codes, wider, [], False)
    truth = items.search(sample.codes, wider[-1:], [], True)
    shares = []
    for own, got, right in zip(sample.ids, found.ids, truth.ids, strict=True):
        wanted = others(right, own, stages[-1].keep)
        hits = set(wanted).intersection(others(got, own, stages[-1].keep))
        shares.append(len(hits) / len(wanted) if wanted else 1.0)  # beside a single item there is nothing to find
    return float(np.mean(shares))


def others(found: Sequence[Id], own: Id, most: int) -> list[Id]:
    """Return the first `most` results of a query that is itself an item, without that item."""
    return [name for name in found if name != own][:most]
