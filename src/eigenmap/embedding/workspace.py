"""Unfinished work: a hidden folder beside the output, locked by whoever works there.

    .codes.parts/
        names                    the images of a folder, as the survey found them
        3f0c.../                 one plan: its name is a digest of all that decides what is made
            finished/00000.json  a shard that is there for good: its files, and what its images looked like
            codes/               the shards
            publishing.json      the codes are complete and on their way to their name

A process may be killed at any moment. Nothing is deleted under its name: folders are renamed first, so that one that is
half gone is never taken for one that is half made.
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
"""Work of earlier versions, which did not look at the content of the images, is not continued."""

_PLAN = re.compile("[0-9a-f]{32}")


class Workspace:
    """The hidden folder beside an output."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.path = out.with_name(f".{out.name}.parts")
        self.listing = self.path / "names"
        self._discarded = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and keep other processes out of it."""
        with ExitStack() as lock:
            while True:
                make_folder(self.path)
                with suppress(FileNotFoundError):  # discarded by the one who had it: make it anew
                    try:
                        lock.enter_context(folder_lock(self.path, blocking=False))
                    except BusyFolderError:
                        raise BusyFolderError(
                            f"another process is writing to {self.out}: wait for it, or choose another name"
                        ) from None
                    break
            yield

    def folder(self, plan: Plan) -> ShardFolder:
        """Where the shards of a plan are made."""
        text = json.dumps({"version": _VERSION, **asdict(plan)}, sort_keys=True)
        return ShardFolder(self.path / hashlib.sha256(text.encode()).hexdigest()[:32], plan)

    def plans(self) -> list[Path]:
        """The folders of all plans that were begun."""
        return [path for path in self.path.iterdir() if _PLAN.fullmatch(path.name) and path.is_dir()]

    def keep_only(self, folder: ShardFolder) -> None:
        """Remove the work of other plans, and of earlier versions."""
        for path in self.path.iterdir():
            if path not in (folder.path, self.listing):
                _remove(path, self.path / f"{uuid4().hex}.trash")

    def is_fruitless(self) -> bool:
        """Whether no shard of any plan is finished."""
        return next(self.path.glob("*/finished/*.json"), None) is None

    def discard(self) -> None:
        """Remove the folder, once: what is there later is another's. From the moment this begins, the work is over."""
        if not self._discarded:
            self._discarded = True
            _remove(self.path, aside(self.out, "new"))


class _Finished(NamedTuple):
    """What is known of a finished shard."""

    images: int
    skipped: list[tuple[str, str]]
    source: str
    checksums: Checksums

    @classmethod
    def from_json(cls, about: Any) -> _Finished:
        """The inverse of `as_json`; ValueError, KeyError, TypeError or AttributeError where it makes no sense."""
        skipped = [(str(name), str(reason)) for name, reason in about["skipped"]]
        return cls(json_integer(about["images"], 0), skipped, about["source"], checksums_from_json(about["files"]))

    def as_json(self) -> dict[str, Any]:
        """What is written to disk."""
        files = {name: checksum._asdict() for name, checksum in self.checksums.items()}
        return {"images": self.images, "skipped": self.skipped, "source": self.source, "files": files}


class ShardFolder:
    """The shards of one plan, which several processes may write, each with shards of its own.

    A shard counts when its file in `finished` is there, and that is written last.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.plan = plan
        self.codes = path / "codes"
        self._finished = path / "finished"

    def make(self) -> None:
        """Make the folders."""
        make_folder(self.codes)
        make_folder(self._finished)

    def is_finished(self, number: int) -> bool:
        """Whether a shard is there, whole."""
        return self._marker(number).is_file()

    def write(self, number: int, block: Block, source: str = "") -> None:
        """Write a shard; it is there for good when this returns. `source` is the stamp of its images."""
        checksums = write_shard(self.codes, self.plan, number, block)
        about = _Finished(len(block.ids), block.skipped, source, checksums)
        write_json(self._marker(number), about.as_json())

    def keep_current(self, stream: ImageStream) -> int:
        """Keep the shards that are whole and whose images are what they were: how many these are."""
        kept = 0
        for shard in stream.shards(self.plan.shard_size):
            if self.is_finished(shard.number):
                if self._is_of(shard.number, shard.rows.stamp()) and self._is_whole(shard.number):
                    kept += 1
                else:
                    self._marker(shard.number).unlink()
        sync_directory(self._finished)
        return kept

    def is_of(self, stream: ImageStream) -> bool:
        """Whether all shards were made, of images that are what they were."""
        shards = stream.shards(self.plan.shard_size)
        return sum(self._is_of(shard.number, shard.rows.stamp()) for shard in shards) == self.plan.shards

    def summary(self) -> tuple[int, list[tuple[str, str]], Checksums]:
        """The number of codes, (name, reason) of what could not be read, and the checksums of all files."""
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
        """Sum up the shards in _embedding.json."""
        images, skipped, checksums = self.summary()
        for path in self.codes.iterdir():  # what a killed process left half written
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

    def _is_whole(self, number: int) -> bool:
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
        """What is known of a finished shard; None if it is not there, or damaged: then it is made again."""
        try:
            return _Finished.from_json(read_json(self._marker(number)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _marker(self, number: int) -> Path:
        return self._finished / f"{number:05d}.json"


def _remove(path: Path, aside: Path) -> None:
    """Rename, then delete: what is half deleted is never found under its name."""
    path.rename(aside)
    sync_directory(path.parent)
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)
