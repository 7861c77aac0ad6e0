"""The exact back end: codes in column blocks, in memory or on disk, every item compared."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from eigenmap.errors import EigenmapError
from eigenmap.search import checks, codecs
from eigenmap.search.backend import About, Batch, Floats, Found, Id, Mask, Metadata, Mode, Ranking, Rows, Stage
from eigenmap.search.columns import Columns, map_file
from eigenmap.search.directory import Directory
from eigenmap.search.filters import Condition, meets
from eigenmap.search.keys import Hashes, hashes_of, rows_with
from eigenmap.search.log import ID_TYPES
from eigenmap.search.scan import Scanner, comparable
from eigenmap.search.texts import Texts, ends_of
from eigenmap.search.verifying import verify


class FlatBackend:
    """Rows of codes with ids and metadata; a row that was deleted or replaced stays, unseen, until the index is saved.

    On disk (`directory`) every change is durable when the call returns, and changes by other processes are seen by
    the next call.
    """

    def __init__(
        self, about: About, memory_bytes: int, directory: Directory | None = None, codec: codecs.Codec | None = None
    ) -> None:
        self.about = about
        self.memory_bytes = memory_bytes
        self.directory = directory
        self.codec = codec
        self.durable = True
        self.ranking: Ranking = "relevance"
        self._notes: dict[str, dict[str, Any]] = {}
        self._lock = threading.RLock()  # threads of a service may search at the same time
        self._load()

    @classmethod
    def create(cls, about: About, path: Path | None, memory_bytes: int) -> FlatBackend:
        """An empty index, in memory or in a new directory."""
        return cls(about, memory_bytes, None if path is None else Directory.create(path, about))

    @classmethod
    def open(cls, path: Path, memory_bytes: int) -> FlatBackend:
        """The index in a directory."""
        directory = Directory.open(path)
        return cls(directory.about, memory_bytes, directory)

    def _load(self) -> None:
        """Begin from what the directory holds, or from nothing."""
        self._id_type: type | None = None
        self._names, self._known = Texts(), Texts()
        self._alive: Mask | None = None  # None: every row
        self._row_of: dict[Id, int] = {}  # of an index in memory
        self._hashes: Hashes | None = None  # of the ids of an index on disk; an earlier version stored none
        self._masks: dict[tuple[tuple[str, str, str], ...], Mask] = {}
        if self.directory is not None:
            self.codec = self.directory.read_codec() or self.codec
        self._columns: Columns | None = None
        if self.codec is not None:
            self.start(self.codec)
        if self.directory is not None and self.directory.state.sizes:
            self._map(self.directory)

    def start(self, codec: codecs.Codec) -> codecs.Codec:
        """Begin an empty store that writes features this way."""
        self.codec = codec
        self._columns = Columns(codec)
        self._scanner = Scanner(self._columns, self.about.metric, self.memory_bytes, self._scores_means())
        return codec

    def _stores_means(self) -> bool:
        return self.about.metric == "cosine" and self.about.precision in ("bits", "signs")

    def _scores_means(self) -> bool:
        return self._stores_means() and self.ranking == "relevance"

    def _map(self, directory: Directory) -> None:
        assert self._columns is not None
        sizes, count, folder = directory.state.sizes, directory.state.rows, directory.folder.descriptor
        self._columns.map([directory.path / name for name in self._files()], count, folder)
        self._names = self._texts(directory, "ids")
        hashed = sizes.get("ids.hash") == 8 * count
        hashes = map_file(directory.path / "ids.hash", count, 8, folder) if hashed else None
        self._hashes = None if hashes is None else hashes.reshape(-1).view("<u8")
        self._known = self._texts(directory, "metadata")
        self._id_type = ID_TYPES[str(directory.state.id_type)]
        rows = np.frombuffer(directory.read("deleted.bin"), "<i8")
        if len(rows):
            self._alive = np.ones(count, bool)
            self._alive[rows] = False

    def _texts(self, directory: Directory, kind: str) -> Texts:
        files = (directory.path / f"{kind}.bin", directory.path / f"{kind}.ends")
        size = directory.state.sizes[f"{kind}.bin"]
        return Texts.mapped(*files, directory.state.rows, size, directory.folder.descriptor)

    def _files(self) -> list[str]:
        assert self.codec is not None
        return [f"features-{first}-{end}.bin" for first, end in self.codec.blocks]

    def _refresh(self) -> None:
        """See what other processes have changed."""
        with self._lock:
            if self.directory is not None and self.directory.refresh():
                self.about = self.directory.about
                self._load()

    @property
    def rows(self) -> int:
        """Rows stored, also those that are deleted."""
        return len(self._names)

    def __len__(self) -> int:
        self._refresh()
        return self.rows if self._alive is None else int(self._alive.sum())

    def ids(self) -> list[Id]:
        """All ids, in the order in which they were added."""
        self._refresh()
        if self._alive is None:
            return [self._as_id(text) for text in self._names]
        return [self._as_id(text) for text, alive in zip(self._names, self._alive.tolist(), strict=True) if alive]

    def _as_id(self, text: bytes) -> Id:
        return int(text) if self._id_type is int else text.decode("utf-8", "surrogatepass")

    def id_of(self, row: int) -> Id:
        """The id in a row."""
        return self._as_id(self._names[row])

    def live_rows(self) -> Rows | None:
        """The rows that are not deleted, None for all."""
        return None if self._alive is None else np.flatnonzero(self._alive)

    # Changes

    def write(self, mode: Mode, codes: Floats, ids: Sequence[Id], metadata: Sequence[Metadata] | None) -> None:
        """Add or replace items, all or none."""
        with self._changing():
            self._check_type(ids)
            if self._stores_means():
                codes = comparable(codes, "cosine")
            old = self._replaced(mode, ids)
            if self.codec is None:
                codec = self.start(codecs.train(self.about, codes))
                if self.directory is not None:
                    self.directory.write_codec(codec)
            if isinstance(self.codec, codecs.GroupCodec):
                self.codec.require_levels(len(self) + old.count(None))
                codes = self.codec.scaled(codes)
            if metadata is None:
                texts = [self._known[row] if row is not None else b"" for row in old]
            else:
                texts = [as_text(item) for item in metadata]
            self.append(codes, ids, texts, [row for row in old if row is not None])

    def delete(self, ids: Sequence[Id]) -> None:
        """Remove items."""
        with self._changing():
            rows = [row for row in self._replaced("update", ids) if row is not None]
            if self.directory is not None:
                id_type = self.directory.state.id_type
                self.directory.append(id_type, {"deleted.bin": np.array(rows, "<i8").tobytes()})
            self._bury(rows)
            for name in ids:
                self._row_of.pop(name, None)
            self._changed()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Nobody else changes the index meanwhile, and all that others did before is seen."""
        with self._lock, nullcontext() if self.directory is None else self.directory.locked():
            self._refresh()
            yield

    def _replaced(self, mode: Mode, ids: Sequence[Id]) -> list[int | None]:
        """The row that each id has now; an error if `mode` does not allow that."""
        row_of = self._rows_of(ids)
        rows = [row_of.get(name) for name in ids]
        for name, row in zip(ids, rows, strict=True):
            if mode == "add" and row is not None:
                checks.refuse_known(name)
            if mode == "update" and row is None:
                checks.refuse_unknown(name)
        return rows

    def _rows_of(self, ids: Sequence[Id]) -> dict[Id, int]:
        """The rows of those ids that are there."""
        if self.directory is None:
            return {name: self._row_of[name] for name in ids if name in self._row_of}
        rows = rows_with(self._all_hashes(), hashes_of([_as_bytes(name) for name in ids])).tolist()
        wanted, alive = set(ids), self._alive
        return {name: row for row in rows if (alive is None or alive[row]) and (name := self.id_of(row)) in wanted}

    def _all_hashes(self) -> Hashes:
        if self._hashes is None:
            self._hashes = hashes_of(list(self._names))
        return self._hashes

    def _check_type(self, ids: Sequence[Id]) -> None:
        if self._id_type is not None and type(ids[0]) is not self._id_type:
            checks.refuse_other_type([self.id_of(0), ids[0]])

    def append(self, codes: Floats, ids: Sequence[Id], metadata: list[bytes], gone: list[int]) -> None:
        """Store new rows, and mark `gone` ones as deleted, in one change."""
        assert self._columns is not None
        encoded = self._columns.encoded(codes)
        names = [_as_bytes(name) for name in ids]
        self._id_type = type(ids[0])
        if self.directory is None:
            self._columns.append(encoded)
            self._names.extend(names)
            self._row_of.update(zip(ids, range(self._columns.count - len(ids), self._columns.count), strict=True))
            self._known.extend(metadata)
            if self._alive is not None:
                self._alive = np.concatenate([self._alive, np.ones(len(ids), bool)])
            self._bury(gone)
        else:
            additions = self._additions(self.directory.state.sizes, encoded, names, metadata, gone)
            unstored = self._all_hashes()[self.directory.state.sizes.get("ids.hash", 0) // 8 :]
            additions["ids.hash"] = np.concatenate([unstored, hashes_of(names)]).tobytes()
            self.directory.append(self._id_type.__name__, additions, durable=self.durable)
            self._map(self.directory)
        self._changed()

    def _additions(
        self,
        sizes: Mapping[str, int],
        encoded: list[codecs.Bytes],
        names: list[bytes],
        known: list[bytes],
        gone: list[int],
    ) -> dict[str, bytes | memoryview]:
        """What each file of the directory grows by."""
        additions: dict[str, bytes | memoryview] = {
            file: np.ascontiguousarray(rows).data.cast("B") if rows.size else b""
            for file, rows in zip(self._files(), encoded, strict=True)
        }
        for kind, texts in (("ids", names), ("metadata", known)):
            additions[f"{kind}.bin"] = b"".join(texts)
            additions[f"{kind}.ends"] = ends_of(texts, sizes.get(f"{kind}.bin", 0)).tobytes()
        if gone:
            additions["deleted.bin"] = np.array(gone, "<i8").tobytes()
        return additions

    def _bury(self, rows: list[int]) -> None:
        if rows:
            if self._alive is None:
                self._alive = np.ones(self.rows, bool)
            self._alive[rows] = False

    def _changed(self) -> None:
        self._masks.clear()
        self._scanner.forget()

    # Search

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Found:
        """Every item that meets the conditions by the first stage, then the best by the others."""
        self._refresh()
        among = self.matching(where)
        if self._columns is None or (among is not None and not among.any()):
            return Found([[] for _ in queries], np.empty((len(queries), 0), np.float32))
        first, *rest = stages
        q = np.ascontiguousarray(queries[:, : first.dim])
        return self.refine(queries, *self._scanner.scan(q, first.keep, among, keepable=not where), rest)

    def rank_by(self, ranking: Ranking) -> None:
        """How a budget of bits ranks at full length; see `CodeIndex.rank_by`."""
        self.ranking = ranking
        if self._columns is not None:
            self._scanner.means = self._scores_means()
            self._scanner.forget()

    def refine(self, queries: Floats, scores: Floats, rows: Rows, stages: Sequence[Stage]) -> Found:
        """The remaining stages of a funnel, from candidates to results."""
        for stage in stages:
            scores, rows = self._scanner.rerank(queries[:, : stage.dim], rows, stage.keep)
        return Found([[self.id_of(row) for row in found] for found in rows.tolist()], scores)

    def matching(self, where: Sequence[Condition]) -> Mask | None:
        """Which rows are there and meet all conditions; None for all rows."""
        if not where:
            return self._alive
        key = tuple(condition.key for condition in where)
        if key not in self._masks:
            answers: dict[bytes, bool] = {}  # many items say the same
            mask = np.zeros(self.rows, bool)
            for row, text in enumerate(self._known):
                if text not in answers:
                    answers[text] = bool(text) and meets(json.loads(text), where)
                mask[row] = answers[text]
            if len(self._masks) > 8:
                self._masks.clear()
            self._masks[key] = mask if self._alive is None else mask & self._alive
        return self._masks[key]

    def prefix(self, start: int, stop: int, dim: int) -> Floats:
        """The first `dim` features of rows [start, stop), also of deleted ones."""
        assert self._columns is not None
        return self._columns.read(start, stop, dim)

    # Reading

    def take(self, ids: Sequence[Id]) -> Batch:
        """These items, in this order."""
        self._refresh()
        rows = [row for row in self._replaced("update", ids) if row is not None]
        return self._batch(np.array(rows, np.int64))

    def sample(self, count: int, seed: int) -> Batch:
        """Up to `count` distinct items at random."""
        self._refresh()
        rows = self.live_rows()
        total = self.rows if rows is None else len(rows)
        drawn = np.sort(np.random.default_rng(seed).choice(total, min(count, total), replace=False))
        return self._batch(drawn if rows is None else rows[drawn])

    def batches(self, rows: int) -> Iterator[Batch]:
        """All items in the order of addition."""
        self._refresh()
        live = self.live_rows()
        total = self.rows if live is None else len(live)
        for start in range(0, total, rows):
            stop = min(start + rows, total)
            yield self._batch(np.arange(start, stop) if live is None else live[start:stop])

    def _batch(self, rows: Rows) -> Batch:
        if self._columns is None:
            return Batch([], np.empty((0, self.about.n_components), np.float32), [])
        numbers = rows.tolist()
        metadata: list[Metadata] = [json.loads(text) if (text := self._known[row]) else {} for row in numbers]
        return Batch([self.id_of(row) for row in numbers], self._columns.take(rows, self.about.n_components), metadata)

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Keep a small JSON object, in the directory if there is one."""
        self._notes[name] = content
        if self.directory is not None:
            with suppress(EigenmapError):  # a directory that cannot be written is left without it
                self.directory.write_note(name, content)

    def read_note(self, name: str) -> dict[str, Any] | None:
        """What `write_note` kept under this name, or None."""
        if name not in self._notes and self.directory is not None:
            return self.directory.read_note(name)
        return self._notes.get(name)

    def stored_bytes(self) -> int:
        """Bytes per item of the stored codes."""
        if self.codec is None:
            raise EigenmapError("the index is empty; add codes first")
        return sum(self.codec.width(b) for b in range(len(self.codec.blocks)))

    def verify(self) -> list[str]:
        """Compare every file with its checksum: one line per part."""
        return [] if self.directory is None else verify(self.directory)

    def close(self) -> None:
        """Nothing is held open but maps of files, which go with this object."""


def _as_bytes(name: Id) -> bytes:
    return str(name).encode("utf-8", "surrogatepass")


def as_text(item: Metadata) -> bytes:
    """What is known of an item, as it is stored."""
    return json.dumps(item, sort_keys=True).encode("ascii") if item else b""
