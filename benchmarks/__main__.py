"""Command line of the benchmarks: `python -m benchmarks STUDY run|missing|page`."""

from __future__ import annotations

import argparse
import importlib
import math
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import cast

from benchmarks import ROOT
from benchmarks.common.errors import BenchmarkError
from benchmarks.common.plan import Job, Place, Study, chosen, listing
from benchmarks.common.sharing import shared_gpu
from benchmarks.common.sweep import runnable, sweep

HERE = Path(__file__).parent
EXAMPLES = """\
examples:
  python -m benchmarks vision missing                        jobs without a result, and the seconds they take
  python -m benchmarks vision run --data DATA --seconds 560  as many of them as fit
  python -m benchmarks catalogue run catalogue-clean-scl-0   one job; * and ? match several
  python -m benchmarks vision page                           write the pages again
  python -m benchmarks vision run --data DATA -- --eager     words after -- go to every job
"""


def studies() -> dict[str, str]:
    """Return every study and the first line of its docstring."""
    names = sorted(path.parent.name for path in HERE.glob("*/study.py"))
    return {name: (importlib.import_module(f"benchmarks.{name}").__doc__ or "").splitlines()[0] for name in names}


def load(name: str) -> Study:
    """Return a study by name."""
    if name not in studies():
        raise BenchmarkError(f"There is no study {name!r}: choose one of {', '.join(studies())}.")
    return cast(Study, importlib.import_module(f"benchmarks.{name}.study"))


def results_of(name: str) -> Path:
    """Return the results folder of a study."""
    folder: Path = importlib.import_module(f"benchmarks.{name}").RESULTS
    return folder


def missing(study: Study, given: argparse.Namespace, place: Place) -> int:
    """List jobs without a result, or all."""
    jobs = chosen(study.jobs(place), given.jobs, given.stage)
    print("\n".join(listing((job for job in jobs if given.all or not job.done), place)))
    return 0


def run(study: Study, given: argparse.Namespace, place: Place) -> int:
    """Run the named jobs, or all that are missing."""
    if place.data is not None and not place.data.is_dir():
        raise BenchmarkError(f"--data {place.data} is not a folder.")

    if given.again and not given.jobs:
        raise BenchmarkError("--again needs the names of jobs.")

    def jobs() -> list[Job]:
        some = chosen(study.jobs(place), given.jobs, given.stage)
        return [replace(job, done=False) for job in some] if given.again else some

    if given.jobs:
        _check_named(jobs(), place)
    with shared_gpu() if place.device == "cuda" and place.side_by_side > 1 else nullcontext():
        failed = sweep(jobs, place, given.seconds, given.words, lambda line: print(line, flush=True))
    return 1 if failed else 0


def _check_named(jobs: Sequence[Job], place: Place) -> None:
    """Refuse to start if none of the named jobs can run."""
    done = [job.name for job in jobs if job.done]
    if done:
        has = f"{done[0]} has its result" if len(done) == 1 else f"{len(done)} of the jobs have their results"
        print(f"{has}: --again repeats finished jobs")
    wanted = [job for job in jobs if not job.done]
    if wanted and not any(runnable(job, place) for job in wanted):
        job = wanted[0]
        lacks = ", ".join(job.lacks(place.data))
        why = f"needs {lacks} in the folder --data" if lacks else "needs a GPU" if job.gpu else ""
        raise BenchmarkError(f"{job.name} {why or f'waits for {job.waits_for}'}.")


def page(study: Study, given: argparse.Namespace, place: Place) -> int:
    """Write every page of the study from its results."""
    for path, text in study.pages():
        changed = not path.is_file() or path.read_text(encoding="utf-8") != text
        if changed:
            path.write_text(text, encoding="utf-8")
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        print(f"{shown}: {'written' if changed else 'unchanged'}")
    return 0


VERBS = {"run": run, "missing": missing, "page": page}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; every verb has its own --help."""
    listed = "\n".join(f"  {name:15} {about}" for name, about in studies().items())
    top = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run the missing jobs of a study, list them, or write its pages again.",
        epilog=f"studies:\n{listed}\n\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("study", metavar="STUDY", help="one of the studies below")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="run|missing|page")
    one = verbs.add_parser("run", help="run the missing jobs, or those named; a job with a result is not repeated")
    other = verbs.add_parser("missing", help="list jobs without a result, with the seconds they are likely to take")
    verbs.add_parser("page", help="write the pages of the study from its results")
    for verb in (one, other):
        verb.add_argument("jobs", nargs="*", metavar="JOB", help="names of jobs; * and ? match any (default: all)")
        verb.add_argument("--stage", default="all", help="one stage of the plan (default: all)")
        verb.add_argument("--results", type=Path, help="additional folder of results; new ones are written there")
        verb.add_argument(
            "--device", choices=("cuda", "cpu"), help="device of the jobs (default: a GPU if there is one)"
        )
        verb.add_argument("--side-by-side", type=int, metavar="N", help="jobs at a time (default: the study's own)")
    one.add_argument("--data", type=Path, metavar="FOLDER", help="folder of data, as described in the study's README")
    one.add_argument(
        "--seconds", type=float, default=math.inf, help="start no job that is likely to end later than this"
    )
    one.add_argument("--again", action="store_true", help="repeat named jobs that have a result")
    other.add_argument("--all", action="store_true", help="also list jobs that have a result")
    return top


def _place(study: Study, given: argparse.Namespace) -> Place:
    own = results_of(given.study)
    if given.verb == "page":
        return Place(own)
    place = Place(given.results or own, device=given.device or "cuda", side_by_side=study.SIDE_BY_SIDE)
    if given.side_by_side is not None:
        if given.side_by_side < 1:
            raise BenchmarkError(f"--side-by-side must be at least 1, not {given.side_by_side}.")
        place = replace(place, side_by_side=given.side_by_side)
    if given.verb == "run":
        place = replace(place, data=given.data, device=given.device or _device())
    return place


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 if a job failed, 2 if it was called wrongly."""
    every = list(sys.argv[1:] if words is None else words)
    mine, further = (every[: every.index("--")], every[every.index("--") + 1 :]) if "--" in every else (every, [])
    given = parser().parse_args(mine, argparse.Namespace(words=further))
    try:
        study = load(given.study)
        return VERBS[given.verb](study, given, _place(study, given))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
