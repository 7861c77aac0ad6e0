"""The approximate back end: the flat store, and a faiss index on a prefix that answers the first stage.

The index ranks items by their first `about.approximate.dim` features; its best ones are then compared exactly, by the
stored codes, on as many features as asked for. It is made when first needed and, for an index on disk, kept in the
directory, where other processes find it; rows added later are added to it.

    hnsw   a navigable graph over the prefixes: the fastest, and the slowest to make
    ivf    prefixes in sqrt(n) clusters, a few of which are looked at
    sq8    prefixes as one byte a feature, all of them looked at
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from eigenmap.search.backend import Approximate, Floats, Found, Mask, Rows, Stage
from eigenmap.search.filters import Condition
from eigenmap.search.flat import FlatBackend
from eigenmap.search.scan import comparable

LINKS = 16
"""Neighbours of a node in the graph of HNSW."""
_BUILD_EFFORT = 80
_ROWS_AT_ONCE = 100_000
_TRAINING_ROWS = 200_000
_RARE = 0.05
"""A filter that so few items meet is answered exactly: comparing those is quicker than searching around them."""


class FaissBackend(FlatBackend):
    """A flat index whose first stage may be answered by faiss."""

    _prefix_index: Any = None

    def _load(self) -> None:
        super()._load()
        self._prefix_index = None

    @property
    def approximate(self) -> Approximate:
        """How the first stage is answered."""
        assert self.about.approximate is not None
        return self.about.approximate

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Found:
        """The first stage by the approximate index where that has the right length, all others exactly."""
        self._refresh()
        how = self.approximate
        first, *rest = stages
        if first.dim > how.dim:
            first, rest = Stage(how.dim, max(how.shortlist, first.keep)), list(stages)
        among = self.matching(where)
        matching = self.rows if among is None else np.count_nonzero(among)
        if exact or first.dim < how.dim or matching <= max(first.keep, _RARE * self.rows):
            return super().search(queries, stages, where, exact)
        q = comparable(queries[:, : how.dim], self.about.metric)
        return self.refine(queries, *self._nearest(q, first.keep, among), rest)

    def _nearest(self, q: Floats, keep: int, among: Mask | None) -> tuple[Floats, Rows]:
        """Best `keep` of the rows `among` (None: of all), as the approximate index finds them."""
        scores, found = self._built().search(q, keep, params=self._parameters(keep, among))
        found = found.astype(np.int64, copy=False)
        short = np.flatnonzero((found < 0).any(axis=1))  # a filter can cut a graph or a list in pieces
        if len(short):
            scores[short], found[short] = self._scanner.scan(q[short], keep, among, keepable=False)
        return scores, found

    def _parameters(self, keep: int, among: Mask | None) -> Any:
        faiss = _faiss()
        chosen: dict[str, Any] = {}
        if among is not None:
            chosen["sel"] = faiss.IDSelectorBitmap(np.packbits(among, bitorder="little"))
        if self.approximate.method == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=max(self.approximate.effort, keep), **chosen)
        if self.approximate.method == "ivf":
            return faiss.SearchParametersIVF(nprobe=self.approximate.effort, **chosen)
        return faiss.SearchParameters(**chosen)

    def _built(self) -> Any:
        """The approximate index of all rows: as it was left, and with the rows that came since."""
        if self._prefix_index is None:
            self._prefix_index = self._read()
        index = self._prefix_index
        before = index.ntotal
        if not index.is_trained:
            drawn = np.random.default_rng(0).permutation(self.rows)[:_TRAINING_ROWS]
            index.train(self._comparable_rows(np.sort(drawn)))
        for start in range(before, self.rows, _ROWS_AT_ONCE):
            stop = min(start + _ROWS_AT_ONCE, self.rows)
            index.add(comparable(self.prefix(start, stop, self.approximate.dim), self.about.metric))
        if self.rows > 1.1 * before:
            self._keep(index)
        return index

    def _comparable_rows(self, rows: Rows) -> Floats:
        assert self._columns is not None
        return comparable(self._columns.take(rows, self.approximate.dim), self.about.metric)

    def _file(self) -> Path | None:
        how = self.approximate
        return None if self.directory is None else self.directory.path / f"prefix-{how.dim}.{how.method}"

    def _read(self) -> Any:
        """The approximate index in the directory if there is one that fits, else an empty one."""
        faiss = _faiss()
        fresh, file = _empty(self.approximate, self.rows), self._file()
        if file is None or not file.is_file():
            return fresh
        try:
            index = faiss.read_index(str(file))
        except RuntimeError:  # damaged: it holds nothing that cannot be made again
            return fresh
        fits = type(index) is type(fresh) and index.d == fresh.d and index.ntotal <= self.rows
        return index if fits else fresh

    def _keep(self, index: Any) -> None:
        """Leave the approximate index in the directory for others; no harm if that is not possible."""
        if (file := self._file()) is None:
            return
        partial = file.with_name(f".{file.name}.{uuid4().hex}")
        try:
            _faiss().write_index(index, str(partial))
            partial.replace(file)
        except (RuntimeError, OSError):
            with suppress(OSError):  # where nothing can be written, nothing can be removed
                partial.unlink()


def _faiss() -> Any:
    """Imported when needed; its classes are made at run time, and their type stubs lag behind."""
    return import_module("faiss")


def _empty(how: Approximate, rows: int) -> Any:
    faiss = _faiss()
    kind = faiss.METRIC_INNER_PRODUCT
    if how.method == "hnsw":
        index = faiss.IndexHNSWFlat(how.dim, LINKS, kind)
        index.hnsw.efConstruction = _BUILD_EFFORT
        return index
    if how.method == "sq8":
        return faiss.IndexScalarQuantizer(how.dim, faiss.ScalarQuantizer.QT_8bit, kind)
    lists = max(1, min(round(math.sqrt(rows)), rows // 39))  # 39 points a cluster, or faiss warns
    return faiss.IndexIVFFlat(faiss.IndexFlatIP(how.dim), how.dim, lists, kind)
