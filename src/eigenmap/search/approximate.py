"""The approximate back end: the flat store, and a faiss index on a prefix that answers the first stage.

The index ranks items by their first `about.approximate.dim` features; its best ones are then compared exactly, by the
stored codes, on as many features as asked for. It is made when first needed and, for an index on disk, kept in the
directory, where other processes find it. Once made it is never changed, since other threads may be searching it: rows
that came since are compared exactly, until they are so many that a copy with them takes its place.

    hnsw   a navigable graph over the prefixes: the fastest, and the slowest to make
    ivf    prefixes in sqrt(n) clusters, a few of which are looked at
    sq8    prefixes as one byte a feature, all of them looked at
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
from eigenmap.search.snapshot import Snapshot, StoredItems

LINKS = 16
"""Neighbours of a node in the graph of HNSW."""
_BUILD_EFFORT = 80
_ROWS_AT_ONCE = 100_000
_TRAINING_ROWS = 200_000
_RARE = 0.05
"""A filter that so few items meet is answered exactly: comparing those is quicker than searching around them."""
_GROWTH = 1.1
"""The index is made anew when there are so many times the rows that it has."""


class FaissBackend(FlatBackend):
    """A flat index whose first stage may be answered by faiss."""

    def _over(
        self, about: IndexSpec, ranking: RankingRule, items: StoredItems, before: Snapshot | None
    ) -> ApproximateSnapshot:
        made = before.made if isinstance(before, ApproximateSnapshot) else PrefixIndexes(about)
        return ApproximateSnapshot(about, self.memory_bytes, ranking, items, made)

    def after_fork_in_child(self) -> None:
        """The same items and approximate index, with locks that no thread of the parent holds."""
        now = self._snapshot
        assert isinstance(now, ApproximateSnapshot)
        now.made = PrefixIndexes(now.about, now.made.newest)
        super().after_fork_in_child()

    def prefix_index(self) -> Any:
        """The faiss index, made now if there is none yet."""
        now = self.snapshot()
        assert isinstance(now, ApproximateSnapshot)
        return now.made.serving(now.items).index


class ApproximateSnapshot(Snapshot):
    """Items of which the first stage may be answered by faiss."""

    def __init__(
        self, about: IndexSpec, memory_bytes: int, ranking: RankingRule, items: StoredItems, made: PrefixIndexes
    ) -> None:
        super().__init__(about, memory_bytes, ranking, items)
        self.made = made
        self._recent: SharedCache[int, Floats] = SharedCache(1)

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Hits:
        """The first stage by the approximate index where that has the right length, all others exactly."""
        how = self.made.how
        first, *rest = stages
        if first.dim > how.dim:
            first, rest = Stage(how.dim, max(how.shortlist, first.keep)), list(stages)
        among = self.matching(where)
        matching = self.rows if among is None else np.count_nonzero(among)
        if exact or first.dim < how.dim or matching <= max(first.keep, _RARE * self.rows):
            return super().search(queries, stages, where, exact)
        q = comparable(queries[:, : how.dim], self.about.metric)
        scores, rows = self._nearest(q, first.keep, among)
        if not rest:  # equal scores come in the order of addition
            scores, rows = top_scores(scores, rows, first.keep)
        return self.refine(queries, scores, rows, rest)

    def _nearest(self, q: Floats, keep: int, among: Mask | None) -> tuple[Floats, RowNumbers]:
        """Best `keep` of the rows `among` (None: of all), as the approximate index finds them."""
        made = self.made.serving(self.items)
        scores, found = made.index.search(q, keep, params=self._parameters(made, keep, among))
        if made.rows < self.rows:
            scores[found < 0] = -np.inf
            also, rows = self._nearest_recent(q, keep, among, made.rows)
            scores, found = top_scores(np.hstack([scores, also]), np.hstack([found, rows]), keep)
        short = np.flatnonzero((found < 0).any(axis=1))  # a filter can cut a graph or a list in pieces
        if len(short):
            scores[short], found[short] = self.scanner.scan(q[short], keep, among, keepable=False)
        return scores, found

    def _nearest_recent(self, q: Floats, keep: int, among: Mask | None, first: int) -> tuple[Floats, RowNumbers]:
        """Exactly the best of the rows from `first` on."""
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
        elif made.rows > self.rows:  # made for a later state
            chosen["sel"] = faiss.IDSelectorRange(0, self.rows)
        if self.made.how.method == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=max(self.made.how.effort, keep), **chosen)
        if self.made.how.method == "ivf":
            return faiss.SearchParametersIVF(nprobe=self.made.how.effort, **chosen)
        return faiss.SearchParameters(**chosen)


class PrefixIndex(NamedTuple):
    """A faiss index on a prefix of the first `rows` rows; nobody changes it any more."""

    index: Any
    rows: int


class PrefixIndexes:
    """The newest `PrefixIndex` of a store that only grows, shared by its states."""

    def __init__(self, about: IndexSpec, newest: PrefixIndex | None = None) -> None:
        assert about.approximate is not None
        self.how = about.approximate
        self.metric = about.metric
        self.newest = newest
        self._making = threading.Lock()

    def serving(self, items: StoredItems) -> PrefixIndex:
        """One that has all rows of these items but a few, made now if there is none.

        While a thread makes a larger one, others go on with the one before.
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
        """What the index compares of rows [start, stop)."""
        return comparable(columns.read(start, stop, self.how.dim), self.metric)

    def _grown(self, before: PrefixIndex | None, items: StoredItems) -> PrefixIndex:
        """An index of all rows."""
        columns = items.columns
        assert columns is not None
        rows = columns.count
        if before is None:
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

    @property
    def _name(self) -> str:
        return f"prefix-{self.how.dim}.{self.how.method}"

    def _read(self, items: StoredItems) -> PrefixIndex | None:
        """The approximate index in the directory if there is one that fits."""
        rows = len(items.names)
        index = None if items.folder is None else read_prefix(items.folder, self._name)
        if index is None:
            return None
        wanted = _empty(self.how, rows)
        fits = type(index) is type(wanted) and index.d == wanted.d and 0 < index.ntotal <= rows
        return PrefixIndex(index, index.ntotal) if fits else None

    def _keep(self, index: Any, items: StoredItems) -> None:
        """Leave the approximate index in the directory for others; no harm if that is not possible."""
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
    lists = max(1, min(round(math.sqrt(rows)), rows // 39))  # 39 points a cluster, or faiss warns
    return faiss.IndexIVFFlat(faiss.IndexFlatIP(how.dim), how.dim, lists, kind)
