"""One state of an index: what is stored, and how it is searched. Nothing of it ever changes.

A change makes a new snapshot, which shares most of what is stored with the one before (files and arrays only grow), and
puts it in the place of the other. A search takes one snapshot and keeps to it, so that any number of threads may search
while others change the index. What searches keep for later ones belongs to the snapshot and goes with it.
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
    """What is stored: a row that was deleted or replaced stays, unseen."""

    columns: Columns | None = None
    """None until the first items say how features are written."""
    names: Texts = field(default_factory=Texts)
    known: Texts = field(default_factory=Texts)
    alive: Mask | None = None
    """Which rows are there; None for all."""
    id_type: type | None = None
    keys: Keys = field(default_factory=Places)
    folder: OpenFolder | None = None
    """Where the files lie."""
    lineage: tuple[int, int] | None = None
    """Which file the ids are mapped from. Files only grow, and no other file gets the number of one that is mapped: of
    two states with the same, the longer begins with the rows of the other."""


class Snapshot:
    """Items, ranked exactly; see `eigenmap.search.backend.Readable` for what its methods do."""

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
        """How features are written; None before the first items."""
        return None if self.items.columns is None else self.items.columns.codec

    @property
    def rows(self) -> int:
        """Rows stored, also those that are deleted."""
        return len(self.items.names)

    def __len__(self) -> int:
        if self._count is None:
            self._count = self.rows if self.items.alive is None else int(np.count_nonzero(self.items.alive))
        return self._count

    def ids(self) -> list[Id]:
        """All ids, in the order in which they were added."""
        alive = self.items.alive
        if alive is None:
            return [self._as_id(text) for text in self.items.names]
        return [self._as_id(text) for text, there in zip(self.items.names, alive.tolist(), strict=True) if there]

    def _as_id(self, text: bytes) -> Id:
        try:
            return int(text) if self.items.id_type is int else text.decode("utf-8", "surrogatepass")
        except ValueError as error:
            raise self._damaged("ids.bin", f"{text[:40]!r} is no id of this index") from error

    def id_of(self, row: int) -> Id:
        """The id in a row."""
        return self._as_id(self.items.names[row])

    def metadata_of(self, row: int) -> Metadata:
        """What is known of the item in a row."""
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
        raise self._damaged("metadata.bin", f"{text[:40]!r} is no JSON object")

    def _damaged(self, name: str, why: str) -> EigenmapError:
        where = name if self.items.folder is None else self.items.folder.path / name
        return EigenmapError(f"{where} is damaged: {why}; {RESTORE}")

    def rows_of(self, mode: Mode, ids: Sequence[Id]) -> list[int | None]:
        """The row that each id has; an error if `mode` does not allow that."""
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
        """Every item that meets the conditions by the first stage, then the best by the others."""
        among = self.matching(where)
        if not self.rows or (among is not None and not among.any()):
            return Hits([[] for _ in queries], np.empty((len(queries), 0), np.float32))
        first, *rest = stages
        q = np.ascontiguousarray(queries[:, : first.dim])
        return self.refine(queries, *self.scanner.scan(q, first.keep, among, keepable=not where), rest)

    @property
    def scanner(self) -> Scanner:
        """Ranks the rows, of which there are some."""
        assert self._scanner is not None
        return self._scanner

    def refine(self, queries: Floats, scores: Floats, rows: RowNumbers, stages: Sequence[Stage]) -> Hits:
        """The remaining stages of a funnel, from candidates to results."""
        for stage in stages:
            scores, rows = self.scanner.rerank(queries[:, : stage.dim], rows, stage.keep)
        return Hits([[self.id_of(row) for row in found] for found in rows.tolist()], scores)

    def matching(self, where: Sequence[Condition]) -> Mask | None:
        """Which rows are there and meet all conditions; None for all rows."""
        if not where:
            return self.items.alive
        return self._masks.get(tuple(condition.key for condition in where), partial(self._mask, where))

    def _mask(self, where: Sequence[Condition]) -> Mask:
        answers: dict[bytes, bool] = {}  # many items say the same
        mask = np.zeros(self.rows, bool)
        for row, text in enumerate(self.items.known):
            if text not in answers:
                answers[text] = bool(text) and meets(self._known_of(text), where)
            mask[row] = answers[text]
        return mask if self.items.alive is None else mask & self.items.alive

    # Reading

    def take(self, ids: Sequence[Id]) -> ItemBatch:
        """These items, in this order."""
        return self._batch(np.array([row for row in self.rows_of("update", ids) if row is not None], np.int64))

    def sample(self, count: int, seed: int) -> ItemBatch:
        """Up to `count` distinct items at random."""
        live = self._live_rows()
        drawn = np.sort(np.random.default_rng(seed).choice(len(self), min(count, len(self)), replace=False))
        return self._batch(drawn if live is None else live[drawn])

    def batches(self, rows: int) -> Iterator[ItemBatch]:
        """All items in the order of addition."""
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
    """Whether what is stored of a unit code is the mean of those it may stand for."""
    return about.metric == "cosine" and about.precision in ("bits", "signs")
