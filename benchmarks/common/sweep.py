"""Generic sweep: runs the jobs of a plan as processes, several side by side, while there is time."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import ROOT
from benchmarks.common.plan import Job, Place
from benchmarks.common.sharing import without_sharing

PAUSE = 0.5
"""Seconds between two checks of the processes."""
PACKING = 20.0
"""Seconds before the end of a sweep at which jobs that can pause should do so."""
PAUSED = 75
"""Exit code of a job that has paused; the next sweep continues it."""


def sweep(
    jobs: Callable[[], Iterable[Job]],
    place: Place,
    seconds: float,
    further: Sequence[str] = (),
    say: Callable[[str], object] = print,
) -> list[str]:
    """Run jobs in order and return the names of those that failed.

    `jobs` is called again whenever a job has ended, since its result may determine the next ones. A job that is done,
    waits for something, lacks data or a GPU, or would take too long is left out; one that can pause may take long. The
    output of jobs that run side by side is written to .log files beside their results.
    """
    place.results.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    place = replace(place, until=time.time() + seconds - PACKING)
    for line in left_out(jobs(), place):
        say(line)
    running: dict[Job, subprocess.Popen[bytes]] = {}
    started: set[str] = set()
    failed: list[str] = []
    changed = True
    while True:
        for job in [job for job, process in running.items() if process.poll() is not None]:
            code = running.pop(job).returncode
            said = {0: "done  ", PAUSED: "paused"}.get(code, "FAILED")
            say(f"{said} {job.name}" + (_see(job, place) if said == "FAILED" else ""))
            failed += [job.name] if said == "FAILED" else []
            changed = True
        left = deadline - time.monotonic()
        for job in fitting(jobs(), running, started, place, left) if changed else ():
            started.add(job.name)
            say(f"start  {job.name}")
            running[job] = begin(job, place, further)
        changed = False
        if not running:
            return failed
        if left < 0:
            for process in running.values():
                process.kill()
                process.wait()
            say(f"out of time: {', '.join(job.name for job in running)}")
            return failed
        time.sleep(PAUSE)


def begin(job: Job, place: Place, further: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start the process of a job; a job that runs alone shares our output."""
    command, variables = job.command(place, further), environment(place.side_by_side)
    if job.alone:
        variables = without_sharing(variables)
    if prints(job, place):
        return subprocess.Popen(command, env=variables)
    with log_of(job, place).open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=variables)


def prints(job: Job, place: Place) -> bool:
    """Tell whether the job's output is shown, since nothing else runs at the same time."""
    return job.alone or place.side_by_side == 1


def _see(job: Job, place: Place) -> str:
    return "" if prints(job, place) else f": see {log_of(job, place)}"


def fitting(jobs: Iterable[Job], running: Iterable[Job], started: set[str], place: Place, left: float) -> Iterator[Job]:
    """Return the jobs that may start now, beside those that run."""
    beside = list(running)
    for job in jobs:
        if any(other.alone for other in beside) or len(beside) >= place.side_by_side:
            return
        too_long = job.seconds > left and not (job.pausable and left > PACKING)
        if job.name in started or too_long or not runnable(job, place) or (job.alone and beside):
            continue
        beside.append(job)
        yield job


def runnable(job: Job, place: Place) -> bool:
    """Tell whether a job has no result yet and has everything that it needs."""
    return not (job.done or job.waits_for or job.lacks(place.data) or (job.gpu and place.device == "cpu"))


def left_out(jobs: Iterable[Job], place: Place) -> Iterator[str]:
    """Count jobs by what they lack."""
    missing = [job for job in jobs if not job.done]
    counts = Counter(name for job in missing for name in job.lacks(place.data))
    for name, count in counts.items():
        place_of = "no --data FOLDER was given" if place.data is None else f"{place.data / name} does not exist"
        yield f"{_jobs(count)} left out for lack of {name}: {place_of}"
    if place.device == "cpu" and (count := sum(job.gpu for job in missing)):
        yield f"{_jobs(count)} left out for lack of a GPU"


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count} jobs are"


def log_of(job: Job, place: Place) -> Path:
    return place.results / f"{job.name}.log"


def environment(side_by_side: int) -> dict[str, str]:
    """Return the environment of jobs: the path of the benchmarks, and a share of the cores."""
    threads = str(max(1, (os.cpu_count() or 1) // side_by_side))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {"OMP_NUM_THREADS": threads, **os.environ, "PYTHONPATH": path}
