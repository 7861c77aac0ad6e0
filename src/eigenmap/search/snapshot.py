"""Immutable snapshot of an index: stored items and search.

A change makes a new snapshot, which shares most of its storage with the previous one (files and arrays only grow), and
replaces it. A search uses a single snapshot, so any number of threads may search while others change the index. Values
cached by searches belong to the snapshot and end with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import parse_json
from eigenmap.search import checks
from eigenmap.search.backend import (
    Floats,
    Hits,
    Id,
    IndexSpec,
    ItemBatch,
    Mask,
    Metadata,
    Mode,
    RankingRule,
    RowNumbers,
    Stage,
)
from eigenmap.search.codecs import Codec
from eigenmap.search.columns import Columns
from eigenmap.search.filters import Condition, meets
from eigenmap.search.index_file import RESTORE
from eigenmap.search.keys import Keys, Places, id_bytes
from eigenmap.search.open_folder import OpenFolder
from eigenmap.search.scan import Scanner
from eigenmap.search.shared_cache import SharedCache
from eigenmap.search.text_store import Texts

_FILTERS_KEPT = 8


@dataclass(frozen=True, eq=False)
class StoredItems:
    """Stored items; deleted or replaced rows stay, hidden."""

    columns: Columns | None = None
    """None before the first items, which determine the codec."""
    names: Texts = field(default_factory=Texts)
    known: Texts = field(default_factory=Texts)
    alive: Mask | None = None
    """Mask of existing rows; None for all."""
    id_type: type | None = None
    keys: Keys = field(default_factory=Places)
    folder: OpenFolder | None = None
    """Location of the files."""
    lineage: tuple[int, int] | None = None
    """Identity (device and inode) of the file of ids. Files only grow, and the inode of a mapped file is not reused:
    of two states with the same identity, the longer one begins with the rows of the other."""


class Snapshot:
    """Items ranked exactly; `eigenmap.search.backend.Readable` documents the methods."""

    def __init__(self, about: IndexSpec, memory_bytes: int, ranking: RankingRule, items: StoredItems) -> None:
        self.about = about
        self.memory_bytes = memory_bytes
        self.ranking = ranking
        self.items = items
        means = stores_means(about) and ranking == "relevance"
        columns = items.columns
        self._scanner = None if columns is None else Scanner(columns, about.metric, memory_bytes, means)
        self._count: int | None = None
        self._masks: SharedCache[tuple[tuple[str, str, str], ...], Mask] = SharedCache(_FILTERS_KEPT)

    @property
    def codec(self) -> Codec | None:
        """Codec of the features; None before the first items."""
        return None if self.items.columns is None else self.items.columns.codec

    @property
    def rows(self) -> int:
        """Number of stored rows, including deleted ones."""
        return len(self.items.names)

    def __len__(self) -> int:
        if self._count is None:
            self._count = self.rows if self.items.alive is None else int(np.count_nonzero(self.items.alive))
        return self._count

    def ids(self) -> list[Id]:
        """Return all ids in the order of addition."""
        alive = self.items.alive
        if alive is None:
            return [self._as_id(text) for text in self.items.names]
        return [self._as_id(text) for text, there in zip(self.items.names, alive.tolist(), strict=True) if there]

    def _as_id(self, text: bytes) -> Id:
        try:
            return int(text) if self.items.id_type is int else text.decode("utf-8", "surrogatepass")
        except ValueError as error:
            raise self._damaged("ids.bin", f"{text[:40]!r} is not an id of this index") from error

    def id_of(self, row: int) -> Id:
        """Return the id in a row."""
        return self._as_id(self.items.names[row])

    def metadata_of(self, row: int) -> Metadata:
        """Return the metadata of the item in a row."""
        return self._known_of(self.items.known[row])

    def _known_of(self, text: bytes) -> Metadata:
        if not text:
            return {}
        try:
            known: Metadata = parse_json(text)
            if isinstance(known, dict):
                return known
        except ValueError:
            pass
        raise self._damaged("metadata.bin", f"{text[:40]!r} is not a JSON object")

    def _damaged(self, name: str, why: str) -> EigenmapError:
        where = name if self.items.folder is None else self.items.folder.path / name
        return EigenmapError(f"{where} is damaged: {why}; {RESTORE}")

    def rows_of(self, mode: Mode, ids: Sequence[Id]) -> list[int | None]:
        """Return the row of each id; raise if `mode` does not allow it."""
        row_of = self.items.keys.find(ids, self._holds) if ids and type(ids[0]) is self.items.id_type else {}
        rows = [row_of.get(name) for name in ids]
        for name, row in zip(ids, rows, strict=True):
            if mode == "add" and row is not None:
                checks.refuse_known(name)
            if mode == "update" and row is None:
                checks.refuse_unknown(name)
        return rows

    def _holds(self, row: int, name: Id) -> bool:
        alive = self.items.alive
        if row >= self.rows or not (alive is None or alive[row]):
            return False
        return self.items.names[row] == id_bytes(name)

    # Search

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Hits:
        """Rank every item that meets the conditions by the first stage, then the best by the others."""
        among = self.matching(where)
        if not self.rows or (among is not None and not among.any()):
            return Hits([[] for _ in queries], np.empty((len(queries), 0), np.float32))
        first, *rest = stages
        q = np.ascontiguousarray(queries[:, : first.dim])
        return self.refine(queries, *self.scanner.scan(q, first.keep, among, keepable=not where), rest)

    @property
    def scanner(self) -> Scanner:
        """Scanner of the rows; there must be some."""
        assert self._scanner is not None
        return self._scanner

    def refine(self, queries: Floats, scores: Floats, rows: RowNumbers, stages: Sequence[Stage]) -> Hits:
        """Apply the remaining stages of a funnel to candidates."""
        for stage in stages:
            scores, rows = self.scanner.rerank(queries[:, : stage.dim], rows, stage.keep)
        return Hits([[self.id_of(row) for row in found] for found in rows.tolist()], scores)

    def matching(self, where: Sequence[Condition]) -> Mask | None:
        """Return the mask of existing rows that meet all conditions; None for all rows."""
        if not where:
            return self.items.alive
        return self._masks.get(tuple(condition.key for condition in where), partial(self._mask, where))

    def _mask(self, where: Sequence[Condition]) -> Mask:
        answers: dict[bytes, bool] = {}  # many items have equal metadata
        mask = np.zeros(self.rows, bool)
        for row, text in enumerate(self.items.known):
            if text not in answers:
                answers[text] = bool(text) and meets(self._known_of(text), where)
            mask[row] = answers[text]
        return mask if self.items.alive is None else mask & self.items.alive

    # Reading

    def take(self, ids: Sequence[Id]) -> ItemBatch:
        """Return these items in this order."""
        return self._batch(np.array([row for row in self.rows_of("update", ids) if row is not None], np.int64))

    def sample(self, count: int, seed: int) -> ItemBatch:
        """Return up to `count` distinct random items."""
        live = self._live_rows()
        drawn = np.sort(np.random.default_rng(seed).choice(len(self), min(count, len(self)), replace=False))
        return self._batch(drawn if live is None else live[drawn])

    def batches(self, rows: int) -> Iterator[ItemBatch]:
        """Yield all items in the order of addition."""
        live = self._live_rows()
        for start in range(0, len(self), rows):
            stop = min(start + rows, len(self))
            yield self._batch(np.arange(start, stop) if live is None else live[start:stop])

    def _live_rows(self) -> RowNumbers | None:
        return None if self.items.alive is None else np.flatnonzero(self.items.alive)

    def _batch(self, rows: RowNumbers) -> ItemBatch:
        columns = self.items.columns
        if columns is None:
            return ItemBatch([], np.empty((0, self.about.n_components), np.float32), [])
        numbers = rows.tolist()
        metadata = [self.metadata_of(row) for row in numbers]
        return ItemBatch([self.id_of(row) for row in numbers], columns.take(rows, self.about.n_components), metadata)


def stores_means(about: IndexSpec) -> bool:
    """Tell whether a stored code is the mean of the unit codes that it represents."""
    return about.metric == "cosine" and about.precision in ("bits", "signs")
