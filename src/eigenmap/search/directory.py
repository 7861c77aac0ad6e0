"""Index on disk: a directory of append-only files, and a log of their valid sizes.

    index.json           format, version, and the description of the index (`backend.IndexSpec`)
    codec.json           codec of the features (`codecs`); written with the first items
    features-0-8.bin     features 0-8 of all rows, then one file per further column block
    ids.bin, ids.ends    the ids joined, and the end of each (int64)
    ids.hash             a hash of each id (`keys`), by which a change finds the rows of its ids
    metadata.bin, .ends  the same for the metadata of each item, as JSON or empty
    deleted.bin          numbers of the deleted rows (int64)
    ids.bin.crc, ...     running checksums of a file at every mebibyte (`checksums`); none for smaller files
    log                  one line per change: sizes and checksums of all files after it (`log`)
    sources.json         sources of the images (`sources`), if `eigenmap index` made the index
    parts.json           list of the parts besides the items (`parts`); this and others are `notes`
    model/               a copy of the model that made the codes, if one was given

A change appends to the files, flushes them to disk, and only then appends its line to the log. A process killed in
between leaves bytes beyond the sizes in the log; they are never read, and the next change overwrites them. Nothing in
the directory is unpickled, no symbolic link in it is followed, and other files are left alone.

Indexes of format version 2, whose logs are not chained, can be read; the first change upgrades them to version 3.
"""

from __future__ import annotations

import errno
import json
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from eigenmap.core.errors import EigenmapError, ReplacedError
from eigenmap.core.files import parse_json
from eigenmap.core.folders import BusyFolderError, folder_lock, is_empty_folder, remove_leftovers, staged_folder
from eigenmap.search import checksums, codecs, notes
from eigenmap.search.backend import IndexSpec
from eigenmap.search.index_file import RESTORE, is_replaced, open_index_folder, read_spec, spec_bytes, use_at
from eigenmap.search.log import DamagedLogError, IndexState, Log, read_log
from eigenmap.search.open_folder import OpenFolder, require_folders

T = TypeVar("T")

_LONGEST_LOG = 64
"""Number of lines after which a log is rewritten as one line."""
_LEFTOVER = re.compile(r"\.((log|[a-z_]+\.json|prefix-\d+\.[a-z0-9]+)\.partial|codec\.json|[a-z_]+\.[0-9a-f]{32})")
"""Files left only by a killed process; the last two are names of format version 2."""


class Directory:
    """An index on disk, in one state of its log.

    It keeps the directory open. If another index replaces it, `refresh` switches to that if it has the same model and
    shape, and raises `ReplacedError` otherwise.
    """

    def __init__(self, folder: OpenFolder, *, private: bool = False) -> None:
        self.path = folder.path.absolute()  # independent of later changes of the working directory
        self._private = private  # nobody else knows the directory yet, so no lock is needed
        self._turn = threading.RLock()
        self._held = 0
        self._tidied = False
        self._changed = False
        self._adopt(folder)

    @classmethod
    def create(cls, path: Path, about: IndexSpec) -> Directory:
        """Create an empty index in a new directory, atomically."""
        with staged_index(path, about, overwrite=False):
            pass
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Directory:
        """Open the index in a directory."""
        while True:
            folder = open_index_folder(path)
            try:
                return cls(folder)
            except EigenmapError:
                if not is_replaced(folder, path):  # while it was being read
                    raise

    def __copy__(self) -> Directory:
        """Return an independent copy of this state; it holds no lock."""
        made = object.__new__(Directory)
        made.__dict__.update(self.__dict__, _turn=threading.RLock(), _held=0, _changed=False)
        return made

    # State

    def refresh(self) -> bool:
        """Look for changes by other processes; return True if there are any since the last call."""
        self.update()
        changed, self._changed = self._changed, False
        return changed

    def update(self) -> None:
        """Load the current state from disk; the next `refresh` tells whether it differs."""
        while True:
            here = self._folder.is_at(self.path)
            if here is False:
                self._switch()
                continue
            try:
                if self._stamp(self._folder) == self._seen:
                    return
            except OSError as error:
                if here is None:
                    return  # removed meanwhile: mapped files can still be read
                if is_replaced(self._folder, self.path):
                    continue
                raise EigenmapError(f"{self.path / 'log'} is missing; {RESTORE}") from error
            try:
                self._adopt(self._folder)
            except EigenmapError:
                if not is_replaced(self._folder, self.path):
                    raise

    def _adopt(self, folder: OpenFolder) -> None:
        """Load the state of an open folder."""
        about = read_spec(folder)
        try:
            seen = self._stamp(folder)  # before reading: changes in between are noticed the next time
        except OSError as error:
            raise EigenmapError(f"{self.path / 'log'} is missing; {RESTORE}") from error
        log = self.read_log(folder)
        self._check_sizes(folder, log.state)
        self._changed = True
        self._folder, self.about, self._log, self._seen = folder, about, log, seen

    def _switch(self) -> None:
        """Switch to the index that replaced this one."""
        folder = open_index_folder(self.path)
        try:
            about, state = read_spec(folder), self.read_log(folder).state
            ids = {self.state.id_type, state.id_type} - {None}
            if not about.can_replace(self.about) or len(ids) > 1:
                raise ReplacedError(
                    f"{self.path} was replaced by an index of another model or shape; open it again to use it"
                )
            self._adopt(folder)
        except ReplacedError:
            raise
        except EigenmapError:
            if not is_replaced(folder, self.path):
                raise

    def settled(self, load: Callable[[], T]) -> T:
        """Return the result of `load`, repeated if the directory is replaced meanwhile."""
        while True:
            try:
                return load()
            except (EigenmapError, OSError, ValueError) as error:  # noqa: PERF203 - rarely more than once
                if is_replaced(self._folder, self.path):
                    self.update()
                elif isinstance(error, EigenmapError):
                    raise
                else:
                    raise EigenmapError(f"{self.path} is damaged or cannot be read: {error}; {RESTORE}") from error

    @property
    def state(self) -> IndexState:
        """Current state."""
        return self._log.state

    @property
    def folder(self) -> OpenFolder:
        """The open directory."""
        return self._folder

    def _stamp(self, folder: OpenFolder) -> tuple[int, int, int]:
        now = folder.stat("log")
        return now.st_ino, now.st_size, now.st_mtime_ns

    def read_log(self, folder: OpenFolder | None = None) -> Log:
        """Read the log from disk."""
        file = self.path / "log"
        try:
            return read_log((folder or self._folder).read("log"))
        except OSError as error:
            raise EigenmapError(f"{file} is missing or cannot be read: {error.strerror}; {RESTORE}") from error
        except DamagedLogError as error:
            raise EigenmapError(f"{file} is damaged: {error}; {RESTORE}") from error

    def _check_sizes(self, folder: OpenFolder, state: IndexState) -> None:
        for name, size in state.sizes.items():
            try:
                there = folder.stat(name).st_size
            except OSError as error:
                what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
                raise EigenmapError(f"{self.path / name} {what}; {RESTORE}") from error
            if there < size:
                raise EigenmapError(f"{self.path / name} is truncated: it has {there:,} of {size:,} bytes; {RESTORE}")

    # Reading files

    def read(self, name: str) -> bytes:
        """Return the valid part of a file."""
        size = self.state.sizes.get(name, 0)
        with self._reading(name):
            return self._folder.read(name, size) if size else b""

    def read_codec(self) -> codecs.Codec | None:
        """Return the codec of the features; None before the first items."""
        if not self.state.sizes:
            return None
        file = self.path / "codec.json"
        try:
            content = self._folder.read("codec.json")
            if zlib.crc32(content) != self.state.fixed.get("codec.json", zlib.crc32(content)):
                raise ValueError("its checksum differs from the log")
            codec = codecs.from_json(parse_json(content), self.about.n_components)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise EigenmapError(f"{file} is missing, truncated or damaged; {RESTORE}") from error
        if not codecs.fits(codec, self.about):
            raise EigenmapError(f"{file} contradicts the precision {self.about.precision} in index.json; {RESTORE}")
        return codec

    def check_rows(self, codec: codecs.Codec) -> None:
        """Refuse files with different numbers of rows."""
        sizes, rows = self.state.sizes, self.state.rows
        expected = {file: rows * codec.width(b) for b, file in enumerate(codecs.feature_files(codec))}
        expected |= {"ids.ends": 8 * rows, "metadata.ends": 8 * rows, "ids.bin": -1, "metadata.bin": -1}
        for name, size in expected.items():
            if name not in sizes or size not in (-1, sizes[name]):
                raise EigenmapError(f"{self.path / 'log'} contradicts codec.json in the size of {name}; {RESTORE}")

    def read_note(self, name: str, required: bool = False) -> dict[str, Any] | None:
        """Return a note; None if there is none, or if it is damaged and not `required`."""
        try:
            return notes.parse_note(self._folder.read(f"{name}.json"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if required:
                raise EigenmapError(
                    f"{self.path / name}.json is damaged; restore it from a copy, or remove it"
                ) from error
            return None

    # Changes

    @contextmanager
    def locked(self, wait: bool = True) -> Iterator[None]:
        """Keep others from changing the index until the block, or this process, ends. Blocks may be nested.

        Without `wait`, raise `BusyFolderError` if somebody else is changing it.
        """
        if not self._turn.acquire(blocking=wait):
            raise BusyFolderError(f"{self.path} is being changed by another thread")
        try:
            if self._private or self._held:
                yield
                return
            with self._locked_path(wait):
                self._held += 1
                try:
                    self.update()
                    self._tidy()
                    yield
                finally:
                    self._held -= 1
        finally:
            self._turn.release()

    @contextmanager
    def _locked_path(self, wait: bool) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                use_at(self.path, lambda: stack.enter_context(folder_lock(self.path, blocking=wait)))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise EigenmapError(f"{self.path} was removed and cannot be changed") from error
            except OSError as error:
                raise EigenmapError(f"{self.path} cannot be changed: {error.strerror}") from error
            yield

    def _tidy(self) -> None:
        """Remove leftovers of killed processes."""
        with suppress(OSError):
            for name in self._folder.names():
                if _LEFTOVER.fullmatch(name):
                    self._folder.remove(name)
            if not self._tidied:
                remove_leftovers(self.path.resolve())
                self._tidied = True

    def write_codec(self, codec: codecs.Codec) -> None:
        """Write the codec, before the first items."""
        with self._writing("codec.json"):
            self._folder.replace("codec.json", json.dumps(codec.as_json()).encode("ascii"), not self._private)

    def write_note(self, name: str, content: Mapping[str, Any]) -> None:
        """Store a JSON object beside the index."""
        with self.locked(), self._writing(f"{name}.json"):
            self._folder.replace(f"{name}.json", notes.note_bytes(content), not self._private)

    def append(self, id_type: str | None, additions: Mapping[str, bytes | memoryview], durable: bool = True) -> None:
        """Append to files; durable when this returns, and without effect if it fails."""
        with self.locked():
            if not self._private and self.read_log() != self._log:  # checked before anything beyond it is truncated
                raise EigenmapError(f"{self.path / 'log'} was changed by a process that did not hold the lock")
            if not self._log.chained:
                self._upgrade()
            self._append_line(IndexState(id_type, *self._grown(additions, durable), self._fixed()), durable)
            if self._log.lines > _LONGEST_LOG:
                with suppress(OSError):  # the change is complete; the next one tries again
                    self._compact(durable)

    def _grown(
        self, additions: Mapping[str, bytes | memoryview], durable: bool
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Write the additions to disk and return the new sizes and checksums."""
        sizes, crc32 = dict(self.state.sizes), dict(self.state.crc32)
        created = False

        def grow(name: str, content: bytes | memoryview, crc: int) -> None:
            nonlocal created
            with self._writing(name):
                self._folder.append(name, sizes.get(name, 0), content, durable)
            created |= name not in sizes
            sizes[name], crc32[name] = sizes.get(name, 0) + len(content), crc

        for name, content in additions.items():
            if not len(content) and name in sizes:
                continue  # nothing to write
            size, notes_name = sizes.get(name, 0), f"{name}.crc"
            ends, crc = checksums.extended(content, size, crc32.get(name, 0))
            noted = sizes.get(notes_name, 0) // 4 == size // checksums.BLOCK  # false for a large file of version 2
            grow(name, content, crc)
            if ends and noted:
                grow(notes_name, ends, checksums.extended(ends, 0, crc32.get(notes_name, 0))[1])
        if created and durable:
            with self._writing("log"):
                self._folder.sync()
        return sizes, crc32

    def _fixed(self) -> dict[str, int]:
        """Return checksums of the files that are written once."""
        fixed = dict(self.state.fixed)
        for name in ("index.json", "codec.json"):
            if name not in fixed:
                with self._reading(name), suppress(FileNotFoundError):
                    fixed[name] = zlib.crc32(self._folder.read(name))
        return fixed

    def _append_line(self, state: IndexState, durable: bool) -> None:
        line, log = self._log.next(state)
        with self._writing("log"):
            try:
                self._folder.append("log", self._log.end, line, durable)
            except OSError:
                with suppress(OSError):  # a line that may not be durable must not be read either
                    self._folder.truncate("log", self._log.end)
                raise
            self._written(log)

    def _written(self, log: Log) -> None:
        self._log, self._seen = log, self._stamp(self._folder)

    def _upgrade(self) -> None:
        """Upgrade an index of version 2 to version 3, without changing its items."""
        with self._writing("log"):
            self._folder.replace("index.json", spec_bytes(self.about))
            self._compact(durable=True)

    def _compact(self, durable: bool) -> None:
        content, log = self._log.compacted()
        self._folder.replace("log", content, durable)
        self._written(log)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or error
            raise EigenmapError(f"{self.path / name} cannot be written: {why}") from error

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise EigenmapError(f"{self.path / name} cannot be read: {why}; {RESTORE}") from error


def require_index(target: Path) -> None:
    """Refuse to replace anything but an index or an empty folder."""
    if not (target / "index.json").is_file() and not is_empty_folder(target):
        raise EigenmapError(f"{target} exists and is not an index, so it is not overwritten; choose another name")


@contextmanager
def staged_index(path: Path, about: IndexSpec, overwrite: bool, held: bool = False) -> Iterator[Directory]:
    """Yield an empty index to fill; it becomes `path` if the block succeeds.

    Without `overwrite` nothing is ever replaced, and with it only an index. `held` means that the caller has locked the
    index to be replaced.
    """
    require_folders(path)
    target = path.resolve()
    if target.exists() and not is_empty_folder(target):
        if not overwrite:
            raise EigenmapError(f"{target} exists; choose another name, or use overwrite=True")
        require_index(target)
    with staged_folder(path, replace=overwrite, check=require_index, held=held) as staging:
        folder = OpenFolder(staging)
        folder.replace("index.json", content := spec_bytes(about), durable=False)
        folder.replace("log", Log(IndexState(fixed={"index.json": zlib.crc32(content)})).compacted()[0], durable=False)
        try:
            yield Directory(folder, private=True)
        except EigenmapError as error:  # about a full disk, for example
            if str(staging) not in str(error):
                raise
            raise EigenmapError(str(error).replace(str(staging), str(target))) from error
