"""Near-duplicates: items whose codes have nearly the same direction.

for group in duplicates(index, threshold=0.98):
    print(group.ids, group.lowest)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.search.backend import Hits, Id, ItemBatch, RanksTwoWays, still
from eigenmap.search.index import CodeIndex

_QUERIES_AT_ONCE = 1024
_ROUNDING = 1e-6
"""Amount by which the cosine similarity of equal codes, computed in float32, may fall short of 1."""


class Group(NamedTuple):
    """Items linked by pairs of near-duplicates, in the order of addition."""

    ids: list[Id]
    lowest: float
    """Lowest cosine similarity among the pairs that link them."""


def duplicates(
    index: CodeIndex,
    threshold: float = 0.98,
    dim: int | None = None,
    neighbours: int = 10,
    progress: Callable[[int, int], object] | None = None,
) -> list[Group]:
    """Return groups of items whose cosine similarity at `dim` features is at least `threshold`, largest groups first.

    Each item is compared with its nearest `neighbours`. Pairs that share an item join their groups, so larger groups
    are found as well.
    """
    if index.metric != "cosine":
        raise EigenmapError("duplicates are found by cosine similarity, but this index ranks by inner product")
    if not 0 < threshold <= 1:
        raise EigenmapError(f"threshold must be a cosine similarity above 0 and at most 1, not {threshold!r}")
    neighbours = whole_number(neighbours, "neighbours")
    parent: dict[Id, Id] = {}
    links: list[tuple[Id, Id, float]] = []

    def root(name: Id) -> Id:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]  # path halving
            name = parent[name]
        return name

    order: dict[Id, int] = {}
    for done, total, batch, found in _neighbourhoods(index, neighbours + 1, dim):
        for own, ids, scores in zip(batch.ids, found.ids, found.scores.tolist(), strict=True):
            order[own] = len(order)
            for name, score in zip(ids, scores, strict=True):
                if score < threshold - _ROUNDING:
                    break
                if name != own:
                    links.append((own, name, min(score, 1.0)))
                    parent[root(own)] = root(name)
        if progress is not None:
            progress(done, total)

    members: dict[Id, list[Id]] = {}
    for name in sorted(parent, key=lambda name: order.get(name, len(order))):  # a database may have grown meanwhile
        members.setdefault(root(name), []).append(name)
    lowest: dict[Id, float] = {}
    for own, _, score in links:
        lowest[root(own)] = min(score, lowest.get(root(own), 1.0))
    groups = [Group(ids, lowest[first]) for first, ids in members.items()]
    return sorted(groups, key=lambda group: -len(group.ids))


def _neighbourhoods(index: CodeIndex, top: int, dim: int | None) -> Iterator[tuple[int, int, ItemBatch, Hits]]:
    """Yield (items done, total, items, neighbours of each) in batches, all from one state of the index.

    Compact codes are ranked by plain cosine, under which equal bytes score 1; their expected cosine would be lower.
    """
    backend = index.backend
    items = backend.snapshot("cosine") if isinstance(backend, RanksTwoWays) else still(backend)
    stages = index.stages(top, dim, None, None, None)
    done, total = 0, len(items)
    for batch in items.batches(_QUERIES_AT_ONCE):
        done += len(batch.ids)
        yield done, total, batch, items.search(batch.codes, stages, [], exact=False)
