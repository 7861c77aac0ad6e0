"""Approximate back end: the flat store with a faiss index on a prefix for the first stage.

The faiss index ranks items by their first `about.approximate.dim` features; its best candidates are then compared
exactly, by their stored codes, on as many features as requested. It is built when first needed and, for an index on
disk, stored in the directory for other processes. Once built it never changes, since other threads may be searching it:
newer rows are compared exactly until there are enough of them to replace it by a larger copy.

    hnsw   a navigable graph over the prefixes: fastest to search, slowest to build
    ivf    prefixes in sqrt(n) clusters, a few of which are searched
    sq8    prefixes as one byte per feature, all of them searched
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from eigenmap.search import forking
from eigenmap.search.backend import Approximate, Floats, Hits, IndexSpec, Mask, RankingRule, RowNumbers, Stage
from eigenmap.search.columns import Columns
from eigenmap.search.filters import Condition
from eigenmap.search.flat import FlatBackend
from eigenmap.search.prefix_files import keep_prefix, read_prefix
from eigenmap.search.scan import comparable, nothing, top_scores
from eigenmap.search.shared_cache import SharedCache
from eigenmap.search.snapshot import Snapshot, StoredItems, stores_means

LINKS = 16
"""Neighbours per node in the HNSW graph."""
_BUILD_EFFORT = 80
_ROWS_AT_ONCE = 100_000
_TRAINING_ROWS = 200_000
_RARE = 0.05
"""Share of matching items below which a filtered search is exact, which is faster than skipping the others."""
_GROWTH = 1.1
"""Growth factor at which the faiss index is replaced by a larger copy."""
_MORE_LISTS = 2
"""Growth factor of the suitable number of clusters at which they are computed again."""


class FaissBackend(FlatBackend):
    """Flat back end whose first stage may be answered by faiss."""

    def _over(
        self, about: IndexSpec, ranking: RankingRule, items: StoredItems, before: Snapshot | None
    ) -> ApproximateSnapshot:
        made = before.made if isinstance(before, ApproximateSnapshot) else PrefixIndexes(about)
        return ApproximateSnapshot(about, self.memory_bytes, ranking, items, made)

    def after_fork_in_child(self) -> None:
        """Keep the items and the approximate index, with fresh locks."""
        now = self._snapshot
        assert isinstance(now, ApproximateSnapshot)
        now.made = PrefixIndexes(now.about, now.made.newest)
        super().after_fork_in_child()

    def prefix_index(self) -> Any:
        """Return the faiss index, building it if necessary."""
        now = self.snapshot()
        assert isinstance(now, ApproximateSnapshot)
        return now.made.serving(now.items).index


class ApproximateSnapshot(Snapshot):
    """Snapshot whose first stage may be answered by faiss."""

    def __init__(
        self, about: IndexSpec, memory_bytes: int, ranking: RankingRule, items: StoredItems, made: PrefixIndexes
    ) -> None:
        super().__init__(about, memory_bytes, ranking, items)
        self.made = made
        self._recent: SharedCache[int, Floats] = SharedCache(1)

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Hits:
        """Answer the first stage with the approximate index if it has the right length, all others exactly."""
        how = self.made.how
        first, *rest = stages
        if first.dim > how.dim or not (rest or self._scores_exactly(first.dim)):
            first, rest = Stage(how.dim, max(how.shortlist, first.keep)), list(stages)
        among = self.matching(where)
        matching = self.rows if among is None else np.count_nonzero(among)
        if exact or first.dim < how.dim or matching <= max(first.keep, _RARE * self.rows):
            return super().search(queries, stages, where, exact)
        q = comparable(queries[:, : how.dim], self.about.metric)
        scores, rows = self._nearest(q, first.keep, among)
        if not rest:  # items with equal scores are returned in the order of addition
            scores, rows = top_scores(scores, rows, first.keep)
        return self.refine(queries, scores, rows, rest)

    def _scores_exactly(self, dim: int) -> bool:
        """Tell whether the scores of the approximate index are those of the stored codes at this length.

        `sq8` rounds the codes, and the expected cosines of compact codes (`Scanner`) are not cosines.
        """
        by_means = stores_means(self.about) and self.ranking == "relevance" and dim == self.about.n_components
        return self.made.how.method != "sq8" and not by_means

    def _nearest(self, q: Floats, keep: int, among: Mask | None) -> tuple[Floats, RowNumbers]:
        """Return the best `keep` of the rows `among` (None: of all) found by the approximate index."""
        made = self.made.serving(self.items)
        scores, found = made.index.search(q, keep, params=self._parameters(made, keep, among))
        if made.rows < self.rows:
            scores[found < 0] = -np.inf
            also, rows = self._nearest_recent(q, keep, among, made.rows)
            scores, found = top_scores(np.hstack([scores, also]), np.hstack([found, rows]), keep)
        short = np.flatnonzero((found < 0).any(axis=1))  # a filter can disconnect a graph or empty a list
        if len(short):
            scores[short], found[short] = self.scanner.scan(q[short], keep, among, keepable=False)
        return scores, found

    def _nearest_recent(self, q: Floats, keep: int, among: Mask | None, first: int) -> tuple[Floats, RowNumbers]:
        """Return the best of the rows from `first` onwards, compared exactly."""
        faiss = forking.faiss()
        prefixes = self._recent.get(first, partial(self.made.prefixes, self.scanner.columns, first, self.rows))
        rows = np.arange(first, self.rows)
        if among is not None:
            rows = first + np.flatnonzero(among[first:])
            prefixes = prefixes[rows - first]
        if not len(rows):
            return nothing(len(q))
        scores, found = faiss.knn(q, prefixes, min(keep, len(rows)), metric=faiss.METRIC_INNER_PRODUCT)
        return scores, rows[found]

    def _parameters(self, made: PrefixIndex, keep: int, among: Mask | None) -> Any:
        faiss = forking.faiss()
        chosen: dict[str, Any] = {}
        if among is not None:
            chosen["sel"] = faiss.IDSelectorBitmap(np.packbits(among[: made.rows], bitorder="little"))
        elif made.rows > self.rows:  # built for a later state
            chosen["sel"] = faiss.IDSelectorRange(0, self.rows)
        if self.made.how.method == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=max(self.made.how.effort, keep), **chosen)
        if self.made.how.method == "ivf":
            return faiss.SearchParametersIVF(nprobe=self.made.how.effort, **chosen)
        return faiss.SearchParameters(**chosen)


class PrefixIndex(NamedTuple):
    """An immutable faiss index on a prefix of the first `rows` rows."""

    index: Any
    rows: int


class PrefixIndexes:
    """The newest `PrefixIndex` of a growing store, shared by its snapshots."""

    def __init__(self, about: IndexSpec, newest: PrefixIndex | None = None) -> None:
        assert about.approximate is not None
        self.how = about.approximate
        self.metric = about.metric
        self.newest = newest
        self._making = threading.Lock()

    def serving(self, items: StoredItems) -> PrefixIndex:
        """Return an index of nearly all rows of these items, building it if there is none.

        While one thread builds a larger index, others keep using the previous one.
        """
        made, rows = self.newest, len(items.names)
        if made is not None and (rows <= _GROWTH * made.rows or not self._making.acquire(blocking=False)):
            return made
        if made is None:
            self._making.acquire()
        try:
            made = self.newest or self._read(items)
            if made is None or rows > _GROWTH * made.rows:
                made = self._grown(made, items)
            self.newest = made
            return made
        finally:
            self._making.release()

    def prefixes(self, columns: Columns, start: int, stop: int) -> Floats:
        """Return the values of rows [start, stop) that the index compares."""
        return comparable(columns.read(start, stop, self.how.dim), self.metric)

    def _grown(self, before: PrefixIndex | None, items: StoredItems) -> PrefixIndex:
        """Build an index of all rows."""
        columns = items.columns
        assert columns is not None
        rows = columns.count
        if before is None or self._outgrown(before, rows):
            index, first = _empty(self.how, rows), 0
            drawn = np.random.default_rng(0).permutation(rows)[:_TRAINING_ROWS]
            if not index.is_trained:
                index.train(comparable(columns.take(np.sort(drawn), self.how.dim), self.metric))
        else:
            index, first = forking.faiss().clone_index(before.index), before.rows
        for start in range(first, rows, _ROWS_AT_ONCE):
            index.add(self.prefixes(columns, start, min(start + _ROWS_AT_ONCE, rows)))
        self._keep(index, items)
        return PrefixIndex(index, rows)

    def _outgrown(self, before: PrefixIndex, rows: int) -> bool:
        """Tell whether an index has so few clusters for this many rows that each of them is too large."""
        return self.how.method == "ivf" and _lists(rows) >= _MORE_LISTS * before.index.nlist

    @property
    def _name(self) -> str:
        return f"prefix-{self.how.dim}.{self.how.method}"

    def _read(self, items: StoredItems) -> PrefixIndex | None:
        """Read the approximate index from the directory, if there is a suitable one."""
        rows = len(items.names)
        index = None if items.folder is None else read_prefix(items.folder, self._name)
        if index is None:
            return None
        wanted = _empty(self.how, rows)
        fits = type(index) is type(wanted) and index.d == wanted.d and 0 < index.ntotal <= rows
        return PrefixIndex(index, index.ntotal) if fits else None

    def _keep(self, index: Any, items: StoredItems) -> None:
        """Store the approximate index in the directory for other processes, if possible."""
        if items.folder is not None:
            keep_prefix(items.folder, self._name, index)


def _empty(how: Approximate, rows: int) -> Any:
    faiss = forking.faiss()
    kind = faiss.METRIC_INNER_PRODUCT
    if how.method == "hnsw":
        index = faiss.IndexHNSWFlat(how.dim, LINKS, kind)
        index.hnsw.efConstruction = _BUILD_EFFORT
        return index
    if how.method == "sq8":
        return faiss.IndexScalarQuantizer(how.dim, faiss.ScalarQuantizer.QT_8bit, kind)
    return faiss.IndexIVFFlat(faiss.IndexFlatIP(how.dim), how.dim, _lists(rows), kind)


def _lists(rows: int) -> int:
    """Return the suitable number of clusters."""
    return max(1, min(round(math.sqrt(rows)), rows // 39))  # faiss warns below 39 points per cluster
