"""Verification of an index on disk: every byte of log, items, notes, thumbnails and model."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.search import checksums, notes, prefix_files
from eigenmap.search.directory import Directory
from eigenmap.search.index_file import RESTORE, is_replaced
from eigenmap.search.log import IndexState
from eigenmap.search.open_folder import OpenFolder
from eigenmap.search.parts import PICTURES, model_in, noted_parts, require_own


def verify(directory: Directory) -> list[str]:
    """Return one line per part of the index; raise `EigenmapError` at the first damaged part."""
    while True:
        try:
            return list(_parts(directory))
        except EigenmapError:  # noqa: PERF203 - rarely more than once
            if not is_replaced(directory.folder, directory.path):
                raise
            directory.update()  # it was replaced while being read


def _parts(directory: Directory) -> Iterator[str]:
    folder, path = directory.folder, directory.path
    log = directory.read_log()
    yield f"log: {log.lines:,} lines, chained" if log.chained else f"log: {log.lines:,} lines, not chained (version 2)"
    for name in ("index.json", "codec.json"):
        if name in log.state.fixed:
            _check_fixed(folder, name, log.state.fixed[name])
            yield f"{name}: intact"
    directory.read_codec()
    for name in sorted(log.state.sizes):
        yield _check_file(folder, name, log.state)
    _check_items(directory, log.state)
    yield f"items: {log.state.rows:,} rows, {log.state.sizes.get('deleted.bin', 0) // 8:,} of them deleted"
    for name in folder.names():
        if name.endswith(".json") and name not in ("index.json", "codec.json"):
            yield _check_note(folder, name)
        elif prefix_files.NAME.fullmatch(name):
            noted = prefix_files.check_prefix(folder, name)
            yield f"{name}: intact" if noted else f"{name}: not checked, an earlier version wrote it without a checksum"
    if PICTURES in folder.names():
        yield _check_pictures(path / PICTURES)
    if (model := model_in(path)) is not None:
        yield _check_model(model, directory.about.fingerprint)
    for name in sorted(noted_parts(directory).difference(folder.names())):
        again = "; index the images again to store the thumbnails" if name == PICTURES else ""
        raise EigenmapError(f"{path / name} is missing; restore it from a copy{again}")


def _check_fixed(folder: OpenFolder, name: str, crc32: int) -> None:
    try:
        found = zlib.crc32(folder.read(name))
    except OSError as error:
        raise EigenmapError(f"{folder.path / name} cannot be read: {error.strerror}; {RESTORE}") from error
    if found != crc32:
        raise EigenmapError(f"{folder.path / name} is damaged: its checksum differs from the log; {RESTORE}")


def _check_file(folder: OpenFolder, name: str, state: IndexState) -> str:
    """Verify the checksum of a file and locate damage."""
    file, size = folder.path / name, state.sizes[name]
    try:
        notes = _notes(folder, name, state)
        damaged = checksums.damaged_part(_blocks(folder, name, size), size, state.crc32[name], notes)
        more = folder.stat(name).st_size - size
    except OSError as error:
        raise EigenmapError(f"{file} cannot be read: {error.strerror or error}; {RESTORE}") from error
    if damaged is not None:
        start, end = damaged
        where = "" if (start, end) == (0, size) else f" between bytes {start:,} and {end:,}"
        raise EigenmapError(f"{file} is damaged{where}: its checksum differs from the log; {RESTORE}")
    unseen = f", and {more:,} of an interrupted change" if more > 0 else ""
    return f"{name}: {size:,} bytes{unseen}"


def _notes(folder: OpenFolder, name: str, state: IndexState) -> list[int]:
    """Return the running checksums of a file, if they were stored and are intact themselves."""
    stored = f"{name}.crc"
    if stored not in state.sizes:
        return []
    content = folder.read(stored, state.sizes[stored])
    if zlib.crc32(content) != state.crc32[stored]:
        return []  # reported when that file is verified
    notes: list[int] = np.frombuffer(content, "<u4").tolist()
    return notes


def _blocks(folder: OpenFolder, name: str, size: int) -> Iterator[bytes]:
    left = size
    with os.fdopen(folder.open(name), "rb") as stream:
        while left and (chunk := stream.read(min(left, checksums.BLOCK))):
            left -= len(chunk)
            yield chunk
    if left:
        raise OSError(f"it is truncated: {left:,} of {size:,} bytes are missing")


def _check_items(directory: Directory, state: IndexState) -> None:
    """Check that strings end at possible positions and only existing rows are deleted."""
    for kind in ("ids", "metadata"):
        ends = np.frombuffer(directory.folder.read(f"{kind}.ends", 8 * state.rows) if state.rows else b"", "<i8")
        last = int(ends[-1]) if len(ends) else 0
        if last != state.sizes.get(f"{kind}.bin", 0) or (np.diff(ends, prepend=0) < 0).any():
            raise EigenmapError(f"{directory.path / f'{kind}.ends'} is damaged: impossible positions; {RESTORE}")
    size = state.sizes.get("deleted.bin", 0)
    gone = np.frombuffer(directory.folder.read("deleted.bin", size) if size else b"", "<i8")
    if len(gone) and not (gone.min() >= 0 and gone.max() < state.rows):
        raise EigenmapError(f"{directory.path / 'deleted.bin'} is damaged: it lists rows that do not exist; {RESTORE}")


def _check_note(folder: OpenFolder, name: str) -> str:
    try:
        content = folder.read(name)
        notes.parse_note(content)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise EigenmapError(f"{folder.path / name} is damaged: {why}; restore it from a copy, or remove it") from error
    checked = notes.is_checked(content)
    return f"{name}: intact" if checked else f"{name}: not checked, an earlier version wrote it without a checksum"


def _check_pictures(file: Path) -> str:
    """Run SQLite's integrity check and compare every thumbnail with its checksum."""
    require_own(file)
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)) as connection:
            (answer,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if answer != "ok":
                raise sqlite3.DatabaseError(answer)
            (count,) = connection.execute("SELECT count(*) FROM thumbnails").fetchone()
            tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'checksums'").fetchone()
            if tables is not None:
                query = "SELECT id, image, crc32 FROM thumbnails JOIN checksums USING (id)"
                for name, image, crc32 in connection.execute(query):
                    if not isinstance(image, bytes) or zlib.crc32(image) != crc32:
                        raise sqlite3.DatabaseError(f"the checksum of the thumbnail of {name} does not match")
    except (sqlite3.Error, UnicodeDecodeError) as error:  # damaged text may not be UTF-8
        raise EigenmapError(
            f"{file} is damaged: {error}; restore it from a copy, or remove it and index the images again"
        ) from error
    return f"{file.name}: {count:,} pictures"


def _check_model(folder: Path, fingerprint: str | None) -> str:
    from eigenmap.model import Eigenmap

    Eigenmap.verify(folder)
    if fingerprint not in (None, Eigenmap.fingerprint(folder)):
        raise EigenmapError(f"{folder} is not the model that made the codes; {RESTORE}")
    return "model: intact"
