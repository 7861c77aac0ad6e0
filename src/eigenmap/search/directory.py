"""An index on disk: a directory of files that only grow, and a log that says how much of them counts.

    index.json           format, version, and what the index is (`backend.About`)
    codec.json           how features are written (`codecs`); appears with the first items
    features-0-8.bin     features 0-8 of all rows, then one file for each further column block
    ids.bin, ids.ends    the ids joined, and where each of them ends (int64)
    ids.hash             a hash of each (`keys`), by which a change finds the rows of its ids
    metadata.bin, .ends  the same for what is known of each item, as JSON, or nothing
    deleted.bin          numbers of the rows that are gone (int64)
    log                  one line for each change: sizes and checksums of all files when it was complete
    model/               a copy of the model that made the codes, if one was given

A change appends to the files, makes sure that they are on disk, and only then appends its line to the log. A process
that is killed in between leaves bytes that no line counts; they are never read, and the next change overwrites them.
Nothing in the directory is unpickled, and other files are left alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from eigenmap.errors import EigenmapError
from eigenmap.search import codecs
from eigenmap.search.backend import About

FORMAT = "eigenmap-index"
FORMAT_VERSION = 2
ID_TYPES: dict[str, type] = {"str": str, "int": int}

_LOG_TAIL = 1 << 20
"""Bytes of the log that are looked at: its last line counts, and that is far shorter."""


@dataclass(frozen=True)
class State:
    """What one line of the log says."""

    id_type: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    crc32: Mapping[str, int] = field(default_factory=dict)

    def line(self) -> bytes:
        """The line, with a checksum of its own at the end."""
        text = json.dumps(asdict(self)).encode("ascii")
        return text + b" %08x\n" % zlib.crc32(text)

    @classmethod
    def from_line(cls, line: bytes) -> State | None:
        """What `line` wrote, or None if it is not whole."""
        text, _, check = line.rpartition(b" ")
        if check != b"%08x" % zlib.crc32(text):
            return None
        return cls(**json.loads(text))


class Directory:
    """An index on disk, at one state of its log."""

    def __init__(self, path: Path, about: About) -> None:
        self.path = path
        self.about = about
        self.state = State()
        self._seen: tuple[int, int, int] = (0, 0, 0)
        self._log_size = 0
        self.refresh()

    @classmethod
    def create(cls, path: Path, about: About) -> Directory:
        """An empty index in a new directory, which appears whole or not at all."""
        refuse_existing(path.resolve(), overwrite=False)
        with _staged(path, overwrite=False) as staging:
            _write_new(staging, about)
        return cls(path, about)

    @classmethod
    def open(cls, path: Path) -> Directory:
        """The index in a directory."""
        return cls(path, about_of(path))

    def refresh(self) -> bool:
        """Look for changes by other processes; True if there are any."""
        log = self.path / "log"
        try:
            now = log.stat()
        except OSError as error:
            if self._seen[0]:
                return False  # removed under us: what is mapped can still be read
            raise EigenmapError(f"{log} is missing; {_AGAIN}") from error
        seen = (now.st_ino, now.st_size, now.st_mtime_ns)
        if seen == self._seen:
            return False
        state, self._log_size = _last_state(log)
        changed = state != self.state or (bool(self._seen[0]) and now.st_ino != self._seen[0])
        if changed:
            self._check_sizes(state)
        self.state, self._seen = state, seen
        return changed

    def read_codec(self) -> codecs.Codec | None:
        """How features are written; None before the first items."""
        file = self.path / "codec.json"
        if not file.exists() and not self.state.sizes:
            return None
        try:
            return codecs.from_json(_read_json(file), self.about.n_components)
        except (KeyError, TypeError, ValueError) as error:
            raise EigenmapError(f"{file} is missing, truncated or damaged; {_AGAIN}") from error

    def write_codec(self, codec: codecs.Codec) -> None:
        """Say how features are written, before the first items are."""
        partial = self.path / ".codec.json"
        with self._writing(partial), partial.open("wb") as stream:
            stream.write(json.dumps(codec.as_json()).encode("ascii"))
            stream.flush()
            os.fsync(stream.fileno())
            partial.replace(self.path / "codec.json")

    def write_note(self, name: str, content: Mapping[str, Any]) -> None:
        """Keep a JSON object beside the index; a directory that cannot be written is left without it."""
        partial = self.path / f".{name}.{uuid4().hex}"
        try:
            partial.write_text(json.dumps(content), encoding="ascii")
            partial.replace(self.path / f"{name}.json")
        except OSError:
            with suppress(OSError):  # where nothing can be written, nothing can be removed
                partial.unlink()

    def read_note(self, name: str) -> dict[str, Any] | None:
        """What `write_note` kept, or None if there is nothing whole."""
        try:
            content = json.loads((self.path / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from changing the index; ends with the block, or with this process."""
        descriptor = -1
        try:
            while descriptor < 0:
                descriptor = os.open(self.path, os.O_RDONLY)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.fstat(descriptor).st_ino != self.path.stat().st_ino:  # replaced while we waited
                    os.close(descriptor)
                    descriptor = -1
        except OSError as error:
            raise EigenmapError(f"{self.path} cannot be changed: {error.strerror}") from error
        try:
            yield
        finally:
            os.close(descriptor)

    def append(self, id_type: str | None, additions: Mapping[str, bytes | memoryview], durable: bool = True) -> None:
        """Append to files; when this returns it is done for good, and if it fails nothing of it counts."""
        sizes, crc32 = dict(self.state.sizes), dict(self.state.crc32)
        for name, content in additions.items():
            if not len(content) and name in sizes:
                continue  # nothing to put on disk
            with self._writing(self.path / name):
                _append(self.path / name, sizes.get(name, 0), content, durable)
            sizes[name] = sizes.get(name, 0) + len(content)
            crc32[name] = zlib.crc32(content, crc32.get(name, 0))
        state = State(id_type, sizes, crc32)
        log = self.path / "log"
        with self._writing(log):
            try:
                _append(log, self._log_size, state.line(), durable)
            except OSError:
                os.truncate(log, self._log_size)  # a line that may not be on disk must not be read either
                raise
        self.state = state
        self._log_size += len(state.line())
        now = log.stat()
        self._seen = (now.st_ino, now.st_size, now.st_mtime_ns)

    def verify(self) -> None:
        """Read every file and compare checksums; raises for the first that is damaged."""
        for name, size in self.state.sizes.items():
            found, left = 0, size
            with (self.path / name).open("rb") as stream:
                while left and (chunk := stream.read(min(left, 1 << 22))):
                    found, left = zlib.crc32(chunk, found), left - len(chunk)
            if left or found != self.state.crc32[name]:
                raise EigenmapError(f"{self.path / name} is damaged: its checksum is not that of the log; {_AGAIN}")

    def _check_sizes(self, state: State) -> None:
        for name, size in state.sizes.items():
            file = self.path / name
            there = file.stat().st_size if file.is_file() else None
            if there is None or there < size:
                what = "is missing" if there is None else f"is truncated: it has {there:,} of {size:,} bytes"
                raise EigenmapError(f"{file} {what}; {_AGAIN}")

    @contextmanager
    def _writing(self, file: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EigenmapError(f"{file} cannot be written: {error.strerror or error}") from error


_AGAIN = "make the index again with `eigenmap index`"


def _append(file: Path, size: int, content: bytes | memoryview, durable: bool) -> None:
    """Write at `size`, dropping what a killed process may have left behind it."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        if os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, size)
        left, place = memoryview(content).cast("B"), size
        while left:
            written = os.pwrite(descriptor, left[: 1 << 30], place)
            left, place = left[written:], place + written
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_new(path: Path, about: About) -> None:
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **about.as_json()}
    for name, data in (("index.json", json.dumps(content).encode("ascii")), ("log", State().line())):
        with (path / name).open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())


def _last_state(log: Path) -> tuple[State, int]:
    """The last whole line of the log, and where it ends."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            start = stream.seek(max(0, size - _LOG_TAIL))
            tail = stream.read()
        while True:
            end = tail.rfind(b"\n")
            if end < 0:
                raise EigenmapError(f"{log} is truncated or damaged; {_AGAIN}")
            state = State.from_line(tail[:end].rpartition(b"\n")[2])
            if state is not None:
                return state, start + end + 1
            tail = tail[:end]
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, EigenmapError):
            raise
        raise EigenmapError(f"{log} is truncated or damaged; {_AGAIN}") from error


def about_of(path: Path) -> About:
    """What the index in a directory is."""
    file = path / "index.json"
    if not file.is_file():
        missing = "it is a file" if path.exists() else "there is no such directory"
        what = "it has no index.json" if path.is_dir() else missing
        raise EigenmapError(f"{path} is not an index ({what}); make one with `eigenmap index`")
    entries = _read_json(file)
    if not isinstance(entries, dict) or entries.pop("format", None) != FORMAT:
        raise EigenmapError(f"{path} is not an index (its index.json describes something else)")
    version = entries.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise EigenmapError(
            f"{path} has index format version {version!r}, but this eigenmap reads version {FORMAT_VERSION}; {_AGAIN}"
        )
    try:
        return About.from_json(entries)
    except (TypeError, ValueError) as error:
        raise EigenmapError(f"{file} is damaged; {_AGAIN}") from error


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise EigenmapError(f"{file} is missing, truncated or damaged") from error


def refuse_existing(target: Path, overwrite: bool) -> None:
    """Never overwrite anything but an index, and that only if asked to."""
    if not target.exists():
        return
    if not overwrite:
        raise EigenmapError(f"{target} exists already; choose another place or ask to overwrite it")
    if not (target / "index.json").is_file():
        raise EigenmapError(f"{target} exists and is not an index, so it is not overwritten; choose another place")


@contextmanager
def replaced(path: Path, about: About, overwrite: bool) -> Iterator[Directory]:
    """An empty index to fill; it takes its place at `path` when the block has ended well."""
    refuse_existing(path.resolve(), overwrite)
    with _staged(path, overwrite) as staging:
        _write_new(staging, about)
        yield Directory(staging, about)
        for file in staging.iterdir():
            if file.is_file():
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())


@contextmanager
def _staged(path: Path, overwrite: bool) -> Iterator[Path]:
    """A hidden sibling that is renamed to `path` when the block has ended well."""
    target = path.resolve()
    staging = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        staging.mkdir(parents=True)
        yield staging
        _swap(staging, target)
    except OSError as error:
        raise EigenmapError(f"cannot write the index {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _swap(staging: Path, target: Path) -> None:
    """Put the finished directory in its place; an index that was there survives unless this succeeds."""
    retired = target.parent / f"{staging.name}.old"
    if target.exists():
        target.replace(retired)
    try:
        staging.replace(target)
    except OSError:
        if retired.exists():
            retired.replace(target)
        raise
    shutil.rmtree(retired, ignore_errors=True)
