"""Generic plan of a study: its jobs, their results, and the cost of those without one."""

from __future__ import annotations

import json
import math
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
    device of the run, `{until}` for the Unix time at which to pause.
    """

    name: str
    """Name for `run`; that of the result file, if the job writes its own."""
    module: str
    words: tuple[str, ...] = ()
    seconds: float = 60.0
    """Estimated duration."""
    stage: str = ""
    needs: tuple[str, ...] = ()
    """Files or folders that must be in the folder of data."""
    gpu: bool = False
    """Whether it needs a GPU."""
    alone: bool = False
    """Whether it must run alone, because it is timed or adds rows to a shared file."""
    pausable: bool = False
    """Whether it pauses by itself at the time `{until}`, and continues when it is run again."""
    done: bool = False
    waits_for: str = ""
    """Result that must exist before it can start; empty if it can start now."""

    def command(self, place: Place, further: Iterable[str] = ()) -> list[str]:
        """Return the command that runs it."""
        names = {"data": place.data, "results": place.results, "device": place.device, "until": place.until}
        words = [word.format(**names) for word in self.words]
        return [sys.executable, "-m", f"benchmarks.{self.module}", *words, *further]

    def lacks(self, data: Path | None) -> list[str]:
        """Return the required files that are missing in the folder of data."""
        return [name for name in self.needs if data is None or not (data / name).exists()]


@dataclass(frozen=True)
class Place:
    """Environment of jobs: folders of data and results, the device, the number of jobs that share it, their end."""

    results: Path
    data: Path | None = None
    device: str = "cuda"
    side_by_side: int = 1
    until: float = math.inf
    """Unix time at which jobs that can pause should do so."""


class Study(Protocol):
    """A module `benchmarks.STUDY.study`."""

    SIDE_BY_SIDE: int
    """Default number of jobs that share the machine."""

    def jobs(self, place: Place) -> Iterable[Job]:
        """Return every job, most valuable first; results in `place.results` count too."""

    def pages(self) -> Iterable[tuple[Path, str]]:
        """Return every page with its new text."""


class Stored:
    """Results by name, in one or several folders; later folders take precedence."""

    def __init__(self, *folders: Path) -> None:
        self.paths = {path.stem: path for folder in folders for path in sorted(folder.glob("*.json"))}

    def has(self, name: str) -> bool:
        return name in self.paths

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a result, or None if there is none of that name."""
        path = self.paths.get(name)
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))

    def rows(self, name: str, key: str = "rows") -> list[dict[str, Any]]:
        """Return the list in a result under a key; empty if there is no such result."""
        found: list[dict[str, Any]] = (self.read(name) or {}).get(key, [])
        return found


S = TypeVar("S")
R = TypeVar("R")


def planned(stages: Mapping[str, Callable[[S], Iterable[R]]], finished: S, stage: str = "all") -> dict[R, str]:
    """Return the runs of one stage or of all, in order, each with the first stage that contains it."""
    found: dict[R, str] = {}
    for name, runs in stages.items():
        if stage in ("all", name):
            for run in runs(finished):
                found.setdefault(run, name)
    return found


def chosen(jobs: Iterable[Job], names: Iterable[str] = (), stage: str = "all") -> list[Job]:
    """Return the jobs of a stage whose names match one of the patterns (`*` and `?`); all if there is no pattern."""
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
    """Return one line per job with its seconds of machine time, and their sum."""
    lines, total = [], 0.0
    for job in jobs:
        needed = job.seconds / (1 if job.alone else place.side_by_side)
        total += 0.0 if job.done else needed
        notes = ["done"] if job.done else [f"waits for {job.waits_for}"] if job.waits_for else []
        lines.append(f"{needed:7.0f} s  {job.stage:15}  {job.name}" + (f"   ({notes[0]})" if notes else ""))
    sharing = f", {place.side_by_side} jobs side by side" if place.side_by_side > 1 else ""
    return [*lines, f"{total:7.0f} s of the machine in all{sharing}"]
