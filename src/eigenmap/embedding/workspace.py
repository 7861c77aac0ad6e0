"""Workspace: a hidden folder beside the output with unfinished work, locked by its owner.

    .codes.parts/
        names                    the images of a folder, as first listed
        3f0c.../                 one plan, named by a digest of everything that determines the result
            finished/00000.json  a durable shard: its files, and the state of its images
            codes/               the shards
            publishing.json      the codes are complete and are being moved to the output path

A process may be killed at any moment. Folders are renamed before they are deleted, so that a half-deleted folder is
never mistaken for a half-built one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import make_folder, read_json, sync_directory, write_json
from eigenmap.core.folders import BusyFolderError, aside, folder_lock
from eigenmap.data.images.rows import ImageStream
from eigenmap.embedding.blocks import Block
from eigenmap.embedding.checksums import Checksum
from eigenmap.embedding.shards import (
    MANIFEST,
    Checksums,
    Codebook,
    Plan,
    checksums_from_json,
    json_integer,
    shard_files,
    write_shard,
)

_VERSION = 2
"""Version of the workspace; work of earlier versions, which did not check image contents, is not continued."""

_PLAN = re.compile("[0-9a-f]{32}")


class Workspace:
    """Hidden folder beside an output."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.path = out.with_name(f".{out.name}.parts")
        self.listing = self.path / "names"
        self._discarded = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Create the folder and keep other processes out of it."""
        with ExitStack() as lock:
            while True:
                make_folder(self.path)
                with suppress(FileNotFoundError):  # its previous owner discarded it: create it again
                    try:
                        lock.enter_context(folder_lock(self.path, blocking=False))
                    except BusyFolderError:
                        raise BusyFolderError(
                            f"another process is writing to {self.out}: wait for it or choose another name"
                        ) from None
                    break
            yield

    def folder(self, plan: Plan) -> ShardFolder:
        """Return the folder in which the shards of a plan are made."""
        text = json.dumps({"version": _VERSION, **asdict(plan)}, sort_keys=True)
        return ShardFolder(self.path / hashlib.sha256(text.encode()).hexdigest()[:32], plan)

    def plans(self) -> list[Path]:
        """Return the folders of all plans that were begun."""
        return [path for path in self.path.iterdir() if _PLAN.fullmatch(path.name) and path.is_dir()]

    def keep_only(self, folder: ShardFolder) -> None:
        """Remove the work of other plans and of earlier versions."""
        for path in self.path.iterdir():
            if path not in (folder.path, self.listing):
                _remove(path, self.path / f"{uuid4().hex}.trash")

    def is_fruitless(self) -> bool:
        """True if no shard of any plan is finished."""
        return next(self.path.glob("*/finished/*.json"), None) is None

    def discard(self) -> None:
        """Remove the folder, once: a folder that appears later belongs to another process."""
        if not self._discarded:
            self._discarded = True
            _remove(self.path, aside(self.out, "new"))


class _Finished(NamedTuple):
    """Record of a finished shard."""

    images: int
    skipped: list[tuple[str, str]]
    source: str
    checksums: Checksums

    @classmethod
    def from_json(cls, about: Any) -> _Finished:
        """Parse the output of `as_json`; raise ValueError, KeyError, TypeError or AttributeError if it is malformed."""
        skipped = [(str(name), str(reason)) for name, reason in about["skipped"]]
        return cls(json_integer(about["images"], 0), skipped, about["source"], checksums_from_json(about["files"]))

    def as_json(self) -> dict[str, Any]:
        """Return the record as written to disk."""
        files = {name: checksum._asdict() for name, checksum in self.checksums.items()}
        return {"images": self.images, "skipped": self.skipped, "source": self.source, "files": files}


class ShardFolder:
    """Shards of one plan; several processes may write different shards.

    A shard is finished once its file in `finished`, which is written last, exists.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.plan = plan
        self.codes = path / "codes"
        self._finished = path / "finished"

    def make(self) -> None:
        """Create the folders."""
        make_folder(self.codes)
        make_folder(self._finished)

    def is_finished(self, number: int) -> bool:
        """Tell whether a shard is complete."""
        return self._marker(number).is_file()

    def write(self, number: int, block: Block, source: str = "") -> None:
        """Write a shard durably. `source` is the stamp of its images."""
        checksums = write_shard(self.codes, self.plan, number, block)
        about = _Finished(len(block.ids), block.skipped, source, checksums)
        write_json(self._marker(number), about.as_json())

    def keep_current(self, stream: ImageStream) -> int:
        """Keep the shards that are intact and whose images have not changed, and return their number."""
        kept = 0
        for shard in stream.shards(self.plan.shard_size):
            if self.is_finished(shard.number):
                if self._is_of(shard.number, shard.rows.stamp()) and self._is_intact(shard.number):
                    kept += 1
                else:
                    self._marker(shard.number).unlink()
        sync_directory(self._finished)
        return kept

    def is_of(self, stream: ImageStream) -> bool:
        """Tell whether all shards exist and their images have not changed."""
        shards = stream.shards(self.plan.shard_size)
        return sum(self._is_of(shard.number, shard.rows.stamp()) for shard in shards) == self.plan.shards

    def summary(self) -> tuple[int, list[tuple[str, str]], Checksums]:
        """Return the number of codes, (name, reason) of unreadable images, and the checksums of all files."""
        images = 0
        skipped: list[tuple[str, str]] = []
        checksums: Checksums = {}
        for number in range(self.plan.shards):
            about = self._about(number)
            if about is None:
                raise EigenmapError(f"shard {number} of {self.path} is missing; run the same command again")
            images += about.images
            skipped += about.skipped
            checksums |= about.checksums
        return images, skipped, checksums

    def complete(self) -> Codebook:
        """Summarise the shards in _embedding.json."""
        images, skipped, checksums = self.summary()
        for path in self.codes.iterdir():  # remove unfinished files of killed processes
            if path.name not in checksums and path.name != MANIFEST:
                path.unlink()
        made = Codebook(self.codes, self.plan, images, skipped, checksums)
        made.write_description()
        return made

    def discard(self) -> None:
        """Remove all shards."""
        with suppress(FileNotFoundError):
            _remove(self.path, self.path.with_name(f"{uuid4().hex}.trash"))

    def _is_of(self, number: int, source: str) -> bool:
        about = self._about(number)
        return about is not None and about.source == source

    def _is_intact(self, number: int) -> bool:
        about = self._about(number)
        assert about is not None
        try:
            for name in shard_files(self.plan, number):
                with (self.codes / name).open("rb") as file:
                    if Checksum.of(file) != about.checksums.get(name):
                        return False
        except OSError:
            return False
        return True

    def _about(self, number: int) -> _Finished | None:
        """Return the record of a finished shard, or None if it is missing or damaged and must be made again."""
        try:
            return _Finished.from_json(read_json(self._marker(number)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _marker(self, number: int) -> Path:
        return self._finished / f"{number:05d}.json"


def _remove(path: Path, aside: Path) -> None:
    """Rename, then delete, so that a half-deleted folder is never found under its name."""
    path.rename(aside)
    sync_directory(path.parent)
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)
