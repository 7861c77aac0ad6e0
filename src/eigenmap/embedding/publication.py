"""Publication of finished codes: an atomic move from the workspace to the output path.

Only an output that existed when the job began may be replaced. If something else appears meanwhile, it is kept, an
error is raised, and the finished codes stay in the workspace. An intent record is written first, so that after a kill
the next process can tell whether the move happened.
"""

from __future__ import annotations

import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import read_json, sync_directory, write_json
from eigenmap.core.folders import exchange, move_new
from eigenmap.embedding.checksums import content_digest
from eigenmap.embedding.files import SUFFIXES, names_file
from eigenmap.embedding.shards import MANIFEST, Codebook

Identity = list[int] | None
"""Identity of a path: inode number, plus size and time for a file; None if nothing is there."""

PublicationState = Literal["waiting", "published", "lost"]
"""State of the codes: not published yet, published, or published and since removed."""


class Replaced(NamedTuple):
    """Output that existed when the job began and may be replaced."""

    out: Identity
    names: Identity


class AppearedError(EigenmapError):
    """Raised when the output path was created or changed during the job."""


@dataclass(frozen=True)
class Publication:
    """Codes (a folder or a file), with a file of names beside them if needed.

    Codes are never beside the names of other codes, not even briefly: old names are removed first, new names come last.
    """

    workspace: Path
    out: Path

    @property
    def names(self) -> Path | None:
        """Path of the names."""
        return names_file(self.out)

    @property
    def staged(self) -> Path:
        """Path of the finished codes in the workspace."""
        return self.workspace / ("codes" if self._is_folder else "joined")

    @property
    def staged_names(self) -> Path:
        """Path of the finished names in the workspace."""
        return self.workspace / "names.json"

    @property
    def _retired_names(self) -> Path:
        return self.workspace / "retired-names.json"

    @property
    def _record(self) -> Path:
        return self.workspace / "publishing.json"

    @property
    def _is_folder(self) -> bool:
        return self.out.suffix not in SUFFIXES

    def require_ours(self) -> None:
        """Refuse to replace anything other than codes, such as a folder of photos."""
        if self._is_folder:
            if path_identity(self.out) is not None and not Codebook.is_at(self.out):
                raise EigenmapError(f"{self.out} exists and is not a folder of codes; choose another name")
            return
        for path in filter(None, (self.out, self.names)):
            if path.is_dir():
                raise EigenmapError(f"{path} is a folder; give a file name for the codes")

    def replaceable(self, overwrite: bool) -> Replaced:
        """Return the identity of the existing output; raise if it may not be replaced."""
        self.require_ours()
        found = Replaced(path_identity(self.out), None if self.names is None else path_identity(self.names))
        for path, there in ((self.out, found.out), (self.names, found.names)):
            if there is not None and not overwrite:
                raise EigenmapError(f"{path} exists; choose another name, or use overwrite=True to replace it")
        return found

    def publish(self, replaced: Replaced) -> None:
        """Move the codes to the output path; raise `AppearedError` if something else is there by now."""
        write_json(self._record, _Record(_digest(self.staged), replaced.out)._asdict())
        if self.names is not None and replaced.names is not None:
            self._retire_names(self.names, replaced.names)
        try:
            self._place(replaced.out)
            if self.names is not None:
                self._place_names(self.names)
        except AppearedError:
            self._restore_names()
            self._record.unlink()
            raise

    def settle(self) -> PublicationState:
        """Complete or undo the publication of a killed process, and return the state of the codes."""
        try:
            record = _Record.read(self._record)
        except FileNotFoundError:
            return "waiting"
        digest, replaces = record
        _finish_move(self.staged, self.out)
        state: PublicationState = "lost"
        if _digest(self.staged) == digest:
            state = "waiting"
            if path_identity(self.out) == replaces:
                self._restore_names()
        elif path_identity(self.staged) not in (None, replaces):  # an unexpected output that was to be moved back
            if _digest(self.out) != digest:
                raise EigenmapError(f"{self.staged} was found at {self.out} and was not made by this job; move it away")
            exchange(self.staged, self.out)
            state = "waiting"
        elif _digest(self.out) == digest:
            if self.names is not None:
                self._place_names(self.names)
            return "published"
        self._record.unlink()
        sync_directory(self.workspace)
        return state

    def _place(self, replaces: Identity) -> None:
        if replaces is not None and path_identity(self.out) == replaces:
            with suppress(FileNotFoundError):  # removed just now: nothing is replaced
                exchange(self.staged, self.out)
                if path_identity(self.staged) == replaces and (not self._is_folder or Codebook.is_at(self.staged)):
                    return
                exchange(self.staged, self.out)
                raise self._appeared(self.out)
        try:
            move_new(self.staged, self.out)
        except FileExistsError:
            raise self._appeared(self.out) from None

    def _place_names(self, names: Path) -> None:
        _finish_move(self.staged_names, names)
        if not self.staged_names.exists():
            return
        try:
            move_new(self.staged_names, names)
        except FileExistsError:
            if self.staged.exists():
                exchange(self.staged, self.out)
            else:
                move_new(self.out, self.staged)
            raise self._appeared(names) from None

    def _retire_names(self, names: Path, replaces: list[int]) -> None:
        self._retired_names.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            move_new(names, self._retired_names)
            if path_identity(self._retired_names) != replaces:
                self._restore_names()
                self._record.unlink()
                raise self._appeared(names)

    def _restore_names(self) -> None:
        if self.names is not None:
            with suppress(FileNotFoundError, FileExistsError):
                move_new(self._retired_names, self.names)

    def _appeared(self, path: Path) -> AppearedError:
        return AppearedError(
            f"{path} appeared or changed while the images were encoded and was not replaced; move it away and run "
            f"the same command again, which publishes the finished codes from {self.workspace.parent}"
        )


class _Record(NamedTuple):
    """Intent record: digest of the codes, and identity of the output to replace."""

    digest: str | None
    replaces: Identity

    @classmethod
    def read(cls, path: Path) -> _Record:
        """Read a record; raise OSError if it cannot be read."""
        try:
            record = cls(**read_json(path))
            if not isinstance(record.digest, str | None) or not isinstance(record.replaces, list | None):
                raise TypeError("its entries have the wrong type")
        except (ValueError, TypeError) as error:
            raise EigenmapError(
                f"{path} is damaged, so it is unknown whether finished codes were published; "
                f"check the output, then remove the folder {path.parent} and run the same command again"
            ) from error
        return record


def _finish_move(source: Path, target: Path) -> None:
    """Complete a `move_new` that was killed between its two renames."""
    there = path_identity(source)
    if there is not None and there == path_identity(target):
        source.unlink()
    elif there is not None and source.is_dir() and target.is_dir() and not any(target.iterdir()):
        target.rmdir()


def path_identity(path: Path) -> Identity:
    """Return the identity of the file or folder at a path, without following links."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(status.st_mode):
        return [status.st_ino]
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _digest(path: Path) -> str | None:
    """Return a digest that identifies codes; for a folder, that of its manifest, which has all checksums."""
    return content_digest(path / MANIFEST if path.is_dir() else path)
