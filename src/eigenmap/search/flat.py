"""Exact back end: codes in column blocks, in memory or on disk; every search compares all items.

This file implements changes; `eigenmap.search.snapshot` implements one state of the index and its search.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.search import checks, codecs, forking
from eigenmap.search.backend import Floats, Hits, Id, IndexSpec, ItemBatch, Mask, Metadata, Mode, RankingRule, Stage
from eigenmap.search.columns import Columns, appended, map_file
from eigenmap.search.directory import Directory
from eigenmap.search.filters import Condition
from eigenmap.search.index_file import RESTORE
from eigenmap.search.keys import Hashes, Places, StoredHashes, hashes_of, id_bytes
from eigenmap.search.log import ID_TYPES
from eigenmap.search.scan import comparable
from eigenmap.search.snapshot import Snapshot, StoredItems, stores_means
from eigenmap.search.text_store import Texts, ends_of
from eigenmap.search.verifying import verify


class FlatBackend:
    """Rows of codes with ids and metadata; deleted or replaced rows stay, hidden, until the index is saved.

    On disk (`directory`), every change is durable when the call returns, and changes by other processes are visible to
    the next call.

    Any number of threads may search and read while others change the index: each call uses one snapshot. Changes take
    turns, and searches never wait for them.
    """

    def __init__(
        self, about: IndexSpec, memory_bytes: int, directory: Directory | None = None, codec: codecs.Codec | None = None
    ) -> None:
        self.memory_bytes = memory_bytes
        self.durable = True
        self._notes: dict[str, dict[str, Any]] = {}
        self._turn = threading.RLock()  # serialises changes
        self.directory = directory  # as the last change left it; used under `_turn`
        # Held only briefly, never while a change is written or waits for other processes.
        self._publishing = threading.Lock()
        items = StoredItems(None if codec is None else Columns(codec))
        self._snapshot = self._over(about, "relevance", items, None)
        if directory is not None and directory.state.sizes:
            self._snapshot = directory.settled(lambda: self._read(directory, None))
        self._seen = copy(directory)  # the state of the current snapshot
        forking.watch(self)

    @classmethod
    def create(cls, about: IndexSpec, path: Path | None, memory_bytes: int) -> FlatBackend:
        """Create an empty index, in memory or in a new directory."""
        return cls(about, memory_bytes, None if path is None else Directory.create(path, about))

    @classmethod
    def open(cls, path: Path, memory_bytes: int) -> FlatBackend:
        """Open the index in a directory."""
        directory = Directory.open(path)
        return cls(directory.about, memory_bytes, directory)

    def _over(self, about: IndexSpec, ranking: RankingRule, items: StoredItems, before: Snapshot | None) -> Snapshot:
        """Return a snapshot of items; `before` is a snapshot whose rows are their beginning, or None."""
        return Snapshot(about, self.memory_bytes, ranking, items)

    # States

    def snapshot(self, ranking: RankingRule | None = None) -> Snapshot:
        """Return the current items, including changes by other processes."""
        if self._seen is not None:
            with self._publishing:
                seen = copy(self._seen)
                if seen.refresh():
                    self._snapshot = seen.settled(lambda: self._read(seen, self._snapshot))
                if seen.folder is not self._seen.folder:
                    self._notes.clear()
                self._seen = seen
        now = self._snapshot
        if ranking is None or ranking == now.ranking:
            return now
        return self._over(now.about, ranking, now.items, now)

    def _publish(self, items: StoredItems, before: Snapshot) -> None:
        """Make the items visible to searches; the caller holds `_turn`."""
        with self._publishing:
            self._seen = copy(self.directory)
            self._snapshot = self._over(before.about, self._snapshot.ranking, items, before)

    def _read(self, directory: Directory, before: Snapshot | None) -> Snapshot:
        """Read a directory; `before` is its previous state, which may have been replaced entirely."""
        ranking: RankingRule = "relevance" if before is None else before.ranking
        sizes = directory.state.sizes
        if not sizes:
            return self._over(directory.about, ranking, StoredItems(), None)
        codec = directory.read_codec()
        assert codec is not None  # because there are sizes
        try:
            items = mapped(directory, codec)
        except OSError as error:
            raise EigenmapError(f"{error.filename} cannot be read: {error.strerror}") from error
        begins = before is not None and before.items.lineage == items.lineage and before.rows <= len(items.names)
        return self._over(directory.about, ranking, items, before if begins else None)

    def rank_by(self, ranking: RankingRule) -> None:
        """Set the ranking of compact codes at full length; see `CodeIndex.rank_by`."""
        with self._publishing:
            now = self._snapshot
            self._snapshot = self._over(now.about, ranking, now.items, now)

    @property
    def generation(self) -> object:
        """An object that changes identity when another index replaces this one."""
        return None if self._seen is None else self._seen.folder

    @property
    def about(self) -> IndexSpec:
        """Description of the index."""
        return self._snapshot.about

    @property
    def codec(self) -> codecs.Codec | None:
        """Codec of the features; None before the first items."""
        return self._snapshot.codec

    @property
    def ranking(self) -> RankingRule:
        """Current ranking."""
        return self._snapshot.ranking

    @property
    def rows(self) -> int:
        """Number of stored rows, including deleted ones."""
        return self._snapshot.rows

    # Changes

    def start(self, codec: codecs.Codec) -> codecs.Codec:
        """Initialise an empty store with this codec."""
        self._publish(StoredItems(Columns(codec)), self._snapshot)
        return codec

    def write(self, mode: Mode, codes: Floats, ids: Sequence[Id], metadata: Sequence[Metadata] | None) -> None:
        """Add or replace items, all or none."""
        with self._changing() as before:
            id_type = before.items.id_type
            if id_type is not None and type(ids[0]) is not id_type:
                checks.refuse_other_type([before.id_of(0), ids[0]])
            if stores_means(before.about):
                codes = comparable(codes, "cosine")
            old = before.rows_of(mode, ids)
            codec = before.codec or codecs.train_codec(before.about, codes)
            if isinstance(codec, codecs.GroupCodec):
                codec.require_levels(len(before) + old.count(None))
                codes = codec.scaled(codes)
            if before.about.precision == "float16" and before.about.metric == "cosine":
                codes = codecs.scaled_into(codes, *codecs.HALF_RANGE)
            if isinstance(codec, codecs.Int8Codec):
                codes = codec.fitted(codes, ids, before.about.metric)
            if metadata is None:
                texts = [before.items.known[row] if row is not None else b"" for row in old]
            else:
                texts = [metadata_text(item) for item in metadata]
            self._append(before, codec, codes, ids, texts, [row for row in old if row is not None])

    def append(self, codes: Floats, ids: Sequence[Id], metadata: list[bytes], gone: list[int]) -> None:
        """Store new rows and mark `gone` ones as deleted, in one change of a store that nobody else changes."""
        before = self.snapshot()
        assert before.codec is not None
        self._append(before, before.codec, codes, ids, metadata, gone)

    def delete(self, ids: Sequence[Id]) -> None:
        """Remove items."""
        with self._changing() as before:
            rows = [row for row in before.rows_of("update", ids) if row is not None]
            if self.directory is not None:
                id_type = self.directory.state.id_type
                self.directory.append(id_type, {"deleted.bin": np.array(rows, "<i8").tobytes()})
            self._publish(replace(before.items, alive=_alive(before, 0, rows)), before)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others from changing the index during several related changes."""
        with self._turn, nullcontext() if self.directory is None else self.directory.locked():
            yield

    @contextmanager
    def _changing(self) -> Iterator[Snapshot]:
        """Exclude other changes, and yield a snapshot with all earlier ones."""
        with self.alone():
            if self.directory is not None:
                self.directory.refresh()
            yield self.snapshot()

    def _append(
        self,
        before: Snapshot,
        codec: codecs.Codec,
        codes: Floats,
        ids: Sequence[Id],
        metadata: list[bytes],
        gone: list[int],
    ) -> None:
        columns = before.items.columns or Columns(codec)
        encoded = columns.encoded(codes)
        names = [id_bytes(name) for name in ids]
        alive = _alive(before, len(ids), gone)
        if self.directory is None:
            keys = before.items.keys
            assert isinstance(keys, Places)
            keys.extend(ids, before.rows)
            known, more = before.items.known.grown(metadata), before.items.names.grown(names)
            items = StoredItems(columns.grown(encoded), more, known, alive, type(ids[0]), keys)
        else:
            if not self.directory.state.sizes:
                self.directory.write_codec(codec)
            sizes = self.directory.state.sizes
            additions = _additions(sizes, codecs.feature_files(codec), encoded, names, metadata, gone)
            additions["ids.hash"] = _unstored_hashes(before, sizes).tobytes() + hashes_of(names).tobytes()
            self.directory.append(type(ids[0]).__name__, additions, durable=self.durable)
            try:
                items = replace(mapped(self.directory, codec, read_deleted=False), alive=alive)
            except (EigenmapError, OSError, ValueError):
                return  # the change is complete; the next call reads it or reports an error
        self._publish(items, before)

    # Searching and reading, each on one snapshot

    def __len__(self) -> int:
        return len(self.snapshot())

    def ids(self) -> list[Id]:
        """Return all ids in the order of addition."""
        return self.snapshot().ids()

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Hits:
        """Rank every item that meets the conditions by the first stage, then the best by the others."""
        return self.snapshot().search(queries, stages, where, exact)

    def take(self, ids: Sequence[Id]) -> ItemBatch:
        """Return these items in this order."""
        return self.snapshot().take(ids)

    def known(self, ids: Sequence[Id]) -> dict[Id, Metadata]:
        """Return the metadata of those ids that exist."""
        now = self.snapshot()
        rows = now.rows_of("upsert", ids)
        return {name: now.metadata_of(row) for name, row in zip(ids, rows, strict=True) if row is not None}

    def sample(self, count: int, seed: int) -> ItemBatch:
        """Return up to `count` distinct random items."""
        return self.snapshot().sample(count, seed)

    def batches(self, rows: int) -> Iterator[ItemBatch]:
        """Yield all current items in the order of addition."""
        return self.snapshot().batches(rows)

    # Notes, verification and closing

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Store a small JSON object, in the directory if there is one."""
        self._notes[name] = content
        if self.directory is not None:
            with suppress(EigenmapError):  # the directory may be read-only
                self.directory.write_note(name, content)

    def read_note(self, name: str, required: bool = False) -> dict[str, Any] | None:
        """Return the note of this name, or None; a damaged one is None or, if `required`, an error."""
        self.snapshot()  # another index may have replaced this one
        if name not in self._notes and self._seen is not None:
            return self._seen.read_note(name, required)
        return self._notes.get(name)

    def stored_bytes(self) -> int:
        """Return the number of bytes per item of the stored codes."""
        codec = self.codec
        if codec is None:
            raise EigenmapError("the index is empty; add codes first")
        return sum(codec.width(b) for b in range(len(codec.blocks)))

    def verify(self) -> list[str]:
        """Compare every file with its checksum and return one line per part."""
        self.snapshot()
        return [] if self._seen is None else verify(copy(self._seen))

    def close(self) -> None:
        """Do nothing: files are only memory-mapped, and the maps end with this object."""

    # Forks (`eigenmap.search.forking`)

    def locks(self) -> forking.Locks:
        """Return the locks that other threads may hold while changing the index."""
        return forking.Locks(self._turn, self._publishing)

    def after_fork_in_child(self) -> None:
        """Keep the items, with fresh locks."""
        self._turn, self._publishing = threading.RLock(), threading.Lock()
        self.directory, self._seen = copy(self.directory), copy(self._seen)
        now = self._snapshot
        self._snapshot = self._over(now.about, now.ranking, now.items, now)


def mapped(directory: Directory, codec: codecs.Codec, read_deleted: bool = True) -> StoredItems:
    """Map the items of a directory."""
    path, folder, state = directory.path, directory.folder, directory.state
    directory.check_rows(codec)
    texts = []
    for kind in ("ids", "metadata"):
        files, size = (path / f"{kind}.bin", path / f"{kind}.ends"), state.sizes[f"{kind}.bin"]
        texts.append(Texts.mapped(*files, state.rows, size, folder.descriptor))
    names, known = texts
    hashed = state.sizes.get("ids.hash") == 8 * state.rows
    hashes = map_file(path / "ids.hash", state.rows, 8, folder.descriptor) if hashed else None
    keys = StoredHashes(names, None if hashes is None else hashes.reshape(-1).view("<u8"))
    alive = _read_deleted(directory) if read_deleted else None
    columns = Columns.mapped(
        codec, [path / file for file in codecs.feature_files(codec)], state.rows, folder.descriptor
    )
    lineage = folder.stat("ids.ends")
    id_type = ID_TYPES[str(state.id_type)]
    return StoredItems(columns, names, known, alive, id_type, keys, folder, (lineage.st_dev, lineage.st_ino))


def _read_deleted(directory: Directory) -> Mask | None:
    content, count = directory.read("deleted.bin"), directory.state.rows
    if not content:
        return None
    rows = np.frombuffer(content[: len(content) // 8 * 8], "<i8")
    if ((rows < 0) | (rows >= count)).any():
        raise EigenmapError(f"{directory.path / 'deleted.bin'} is damaged: it lists rows that do not exist; {RESTORE}")
    alive = np.ones(count, bool)
    alive[rows] = False
    return alive


def _additions(
    sizes: Mapping[str, int],
    files: list[str],
    encoded: list[codecs.Bytes],
    names: list[bytes],
    known: list[bytes],
    gone: list[int],
) -> dict[str, bytes | memoryview]:
    """Return the bytes to append to each file of the directory."""
    additions: dict[str, bytes | memoryview] = {
        file: np.ascontiguousarray(rows).data.cast("B") if rows.size else b""
        for file, rows in zip(files, encoded, strict=True)
    }
    for kind, texts in (("ids", names), ("metadata", known)):
        additions[f"{kind}.bin"] = b"".join(texts)
        additions[f"{kind}.ends"] = ends_of(texts, sizes.get(f"{kind}.bin", 0)).tobytes()
    if gone:
        additions["deleted.bin"] = np.array(gone, "<i8").tobytes()
    return additions


def _unstored_hashes(before: Snapshot, sizes: Mapping[str, int]) -> Hashes:
    """Return hashes of existing ids that have none on disk because an earlier version wrote them."""
    if not before.rows:
        return hashes_of([])
    assert isinstance(before.items.keys, StoredHashes)
    return before.items.keys.hashes[sizes.get("ids.hash", 0) // 8 :]


def _alive(before: Snapshot, added: int, gone: list[int]) -> Mask | None:
    """Return the mask of rows after a change; the mask of the previous state stays unchanged."""
    alive = before.items.alive
    if alive is None and not gone:
        return None
    count = before.rows + added
    if alive is None:
        alive = np.ones(count, bool)
    elif not gone:  # grows in place, beyond the part that other snapshots see
        storage = alive.base if isinstance(alive.base, np.ndarray) and alive.base.flags.writeable else alive
        return appended(storage, before.rows, np.ones(added, bool))[:count]
    else:
        alive = np.concatenate([alive, np.ones(added, bool)])
    alive[gone] = False
    return alive


def metadata_text(item: Metadata) -> bytes:
    """Serialise the metadata of an item for storage."""
    return json.dumps(item, sort_keys=True).encode("ascii") if item else b""
