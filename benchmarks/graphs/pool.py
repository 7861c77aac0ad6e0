"""Many small jobs in a few processes that stay: each process imports torch and opens the GPU once.

    pool.sweep(jobs, run, results, seconds=560, workers=14)

A worker takes the next job that has no result and is likely to end in time, runs it and writes its JSON file. One that
fails says why in a .log file; after an error of CUDA, which spoils its process, a new worker takes its place.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import harness
from benchmarks.common.sharing import shared_gpu

SPOILED = 3
"""Exit code of a worker whose GPU does not answer any more."""
PAUSE = 0.2


class Task(NamedTuple):
    """A job by name, what is passed to the function that runs it, and the seconds it is likely to take."""

    name: str
    given: Any
    seconds: float


Run = Callable[[Any], dict[str, Any]]


def sweep(tasks: Sequence[Task], run: Run, results: Path, *, seconds: float, workers: int) -> list[str]:
    """Run the tasks without a result, in order, and return the names of those that have none afterwards."""
    results.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    todo = [task for task in tasks if not _path(results, task).exists()]
    context = multiprocessing.get_context("spawn")
    following = context.Value("q", 0)

    def begin() -> BaseProcess:
        process = context.Process(target=_work, args=(todo, run, results, following, deadline), daemon=True)
        process.start()
        return process

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by the workers when they import torch
    with shared_gpu():
        running = [begin() for _ in range(min(workers, len(todo)))]
        while running and time.monotonic() < deadline:
            time.sleep(PAUSE)
            ended = [process for process in running if process.exitcode is not None]
            running = [process for process in running if process.exitcode is None]
            running += [begin() for process in ended if process.exitcode and following.value < len(todo)]
        for process in running:
            process.kill()
            process.join()
    return [task.name for task in todo if not _path(results, task).exists()]


def _work(todo: Sequence[Task], run: Run, results: Path, following: Any, deadline: float) -> None:
    """Take one task after the other, until there is none or the sweep was killed."""
    sweep = multiprocessing.parent_process()
    while sweep is None or sweep.is_alive():
        with following.get_lock():
            place = following.value
            following.value += 1
        if place >= len(todo):
            return
        task = todo[place]
        if time.monotonic() + task.seconds > deadline:
            continue
        began = time.monotonic()
        try:
            harness.write(_path(results, task), run(task.given))
        except Exception as error:  # one job says nothing of the others
            (results / f"{task.name}.log").write_text(traceback.format_exc(), encoding="utf-8")
            print(f"FAILED {task.name}: {str(error)[:200]}", flush=True)
            if "CUDA" in str(error):
                os._exit(SPOILED)
        else:
            print(f"done   {task.name}: {time.monotonic() - began:.0f} s", flush=True)
        _release()


def _release() -> None:
    """Give memory of the GPU back to the other workers."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _path(results: Path, task: Task) -> Path:
    return results / f"{task.name}.json"
