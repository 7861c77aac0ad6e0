"""The generic plan: jobs of a study, which of them have a result, and what the others cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.common.errors import BenchmarkError


@dataclass(frozen=True)
class Job:
    """One run of a study: a module of the package, called with these words.

    `{data}`, `{results}` and `{device}` in the words stand for the folder of data, the folder for results and the
    device of the run.
    """

    name: str
    """What `run` calls it; a job that writes a file of its own is called as the file."""
    module: str
    words: tuple[str, ...] = ()
    seconds: float = 60.0
    """How long it is likely to take."""
    stage: str = ""
    needs: tuple[str, ...] = ()
    """Files or folders that have to be in the folder of data."""
    gpu: bool = False
    """Whether it needs a GPU."""
    alone: bool = False
    """Whether nothing may run beside it: it is timed, or adds rows to a file that others write too."""
    done: bool = False
    waits_for: str = ""
    """What has to be known before it can begin; empty if it can begin now."""

    def command(self, place: Place, further: Iterable[str] = ()) -> list[str]:
        """The command that runs it."""
        names = {"data": place.data, "results": place.results, "device": place.device}
        words = [word.format(**names) for word in self.words]
        return [sys.executable, "-m", f"benchmarks.{self.module}", *words, *further]

    def lacks(self, data: Path | None) -> list[str]:
        """Of what it needs, what the folder of data does not have."""
        return [name for name in self.needs if data is None or not (data / name).exists()]


@dataclass(frozen=True)
class Place:
    """Environment of jobs: folders of data and results, the device, and the number of jobs that share it."""

    results: Path
    data: Path | None = None
    device: str = "cuda"
    side_by_side: int = 1


class Study(Protocol):
    """A module `benchmarks.STUDY.study`."""

    SIDE_BY_SIDE: int
    """How many jobs usually share the machine."""

    def jobs(self, place: Place) -> Iterable[Job]:
        """Every job, in the order in which they are worth running; results in `place.results` count too."""

    def pages(self) -> Iterable[tuple[Path, str]]:
        """Every page with its new text."""


class Stored:
    """Results by name, in one or several folders; of two with the same name the last counts."""

    def __init__(self, *folders: Path) -> None:
        self.paths = {path.stem: path for folder in folders for path in sorted(folder.glob("*.json"))}

    def has(self, name: str) -> bool:
        return name in self.paths

    def read(self, name: str) -> dict[str, Any] | None:
        """A result, or None if there is none of that name."""
        path = self.paths.get(name)
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))

    def rows(self, name: str, key: str = "rows") -> list[dict[str, Any]]:
        """The list in a result under a key; empty if there is no such result."""
        found: list[dict[str, Any]] = (self.read(name) or {}).get(key, [])
        return found


S = TypeVar("S")
R = TypeVar("R")


def planned(stages: Mapping[str, Callable[[S], Iterable[R]]], finished: S, stage: str = "all") -> dict[R, str]:
    """The runs of one stage or of all, in order, each with the first stage that has it."""
    found: dict[R, str] = {}
    for name, runs in stages.items():
        if stage in ("all", name):
            for run in runs(finished):
                found.setdefault(run, name)
    return found


def chosen(jobs: Iterable[Job], names: Iterable[str] = (), stage: str = "all") -> list[Job]:
    """Jobs of a stage whose names match one of the patterns (`*` and `?`); all of them if there is no pattern."""
    from difflib import get_close_matches
    from fnmatch import fnmatchcase

    every = list(jobs)
    stages = list(dict.fromkeys(job.stage for job in every if job.stage))
    if stage != "all" and stage not in stages:
        raise BenchmarkError(f"There is no stage {stage!r}: choose one of {', '.join(['all', *stages])}.")
    some = [job for job in every if stage in ("all", job.stage)]
    patterns = list(names)
    for pattern in patterns:
        if not any(fnmatchcase(job.name, pattern) for job in some):
            close = get_close_matches(pattern, [job.name for job in some], n=3)
            hint = f" Did you mean {' or '.join(close)}?" if close else " `missing --all` lists every job."
            raise BenchmarkError(f"There is no job {pattern!r}.{hint}")
    return [job for job in some if not patterns or any(fnmatchcase(job.name, pattern) for pattern in patterns)]


def listing(jobs: Iterable[Job], place: Place) -> list[str]:
    """One line per job with its seconds of the machine, and their sum."""
    lines, total = [], 0.0
    for job in jobs:
        needed = job.seconds / (1 if job.alone else place.side_by_side)
        total += 0.0 if job.done else needed
        notes = ["done"] if job.done else [f"waits for {job.waits_for}"] if job.waits_for else []
        lines.append(f"{needed:7.0f} s  {job.stage:15}  {job.name}" + (f"   ({notes[0]})" if notes else ""))
    sharing = f", {place.side_by_side} jobs side by side" if place.side_by_side > 1 else ""
    return [*lines, f"{total:7.0f} s of the machine in all{sharing}"]
