"""Several benchmarks in one command, one after another, in limited time on a borrowed GPU.

    python -m benchmarks.common.gpu_run check profile vision:all --data FOLDER --out FOLDER --seconds 560
    python -m benchmarks.common.gpu_run --list

Parts run in the given order. `vision:STAGE` and `graphs:STAGE` are sweeps over the missing jobs of the two studies;
they take all remaining time, or a share of it if other parts follow; so does `edges`, many small jobs in processes that
stay. The other parts take the time they need, and are left out if that is not available. Sweeps of the two studies do
not run at the same time: every process gets the same slice of the GPU, so many small jobs would leave little for a few
large ones. The jobs of a sweep share the GPU by NVIDIA's service where it works (`sharing`), timed parts do not.

Results are written to FOLDER (`--out`) as JSON, and the output of the parts as .txt; the last lines are a summary.
`--archive FILE.tar.gz` has all of them so far, at any time: what a machine returns, even if it is taken away.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.archive import archived
from benchmarks.common.sharing import shared_gpu
from benchmarks.vision.summary import summary as summary_of_run


@dataclass(frozen=True)
class Part:
    """A benchmark: its words after `python -m`, with {data}, {out} and {seconds} as placeholders, and its seconds."""

    command: str
    seconds: float
    sweeps: bool = False
    lines: int = 25
    """Number of last lines of its output to show."""


SWEEP = "--data {data} --stage {stage} --seconds {seconds} --side-by-side"
PARTS = {
    "check": Part("benchmarks.vision.gpu_check", 160),
    "objectives": Part("benchmarks.vision.gpu_check --objectives", 60),
    "profile": Part("benchmarks.vision.speed --modes compiled --profile", 80, lines=28),
    "speed": Part("benchmarks vision run speed-resnet18-32 --again --results {out}/vision", 150),
    "speed-224": Part("benchmarks vision run speed-resnet50-224 --again --results {out}/vision", 210),
    "evaluation": Part("benchmarks vision run evaluation-cost-cuda --again --results {out}/vision", 60),
    "kernels": Part("benchmarks eigenfunctions run kernel-cost-cuda --again --results {out}/eigenfunctions", 90),
    "scale": Part("benchmarks graphs run graphs-scale --again --results {out}/graphs", 200, lines=40),
    "costs": Part("benchmarks graphs run --data {data} --stage cost --results {out}/graphs --seconds 100", 60),
    "vision": Part(f"benchmarks vision run {SWEEP} 4 --results {{out}}/vision", 60, sweeps=True),
    "graphs": Part(f"benchmarks graphs run {SWEEP} 8 --results {{out}}/graphs", 40, sweeps=True),
    "edges": Part(
        "benchmarks.graphs.edges sweep --data {data} --results {out}/graphs --seconds {seconds} --workers 13",
        60,
        sweeps=True,
    ),
}
"""Parts by name; results of a study go into a folder of its own."""


@dataclass(frozen=True)
class Done:
    """Outcome of a part."""

    name: str
    seconds: float
    code: int | None
    """Exit code of the command; None if there was no time for it."""

    def __str__(self) -> str:
        if self.code is None:
            return f"{self.name}: left out, no time"
        return f"{self.name}: {self.seconds:.0f} s" + (f", ended with {self.code}" if self.code else "")


def run(names: Sequence[str], data: Path, out: Path, seconds: float) -> Iterator[Done]:
    """Run parts one after another; yield the outcome of each."""
    out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    for place, name in enumerate(names):
        part = PARTS[name.partition(":")[0]]
        later = [PARTS[other.partition(":")[0]] for other in names[place + 1 :]]
        left = deadline - time.monotonic()
        given = share(part, later, left)
        if given < part.seconds:
            yield Done(name, 0.0, None)
            continue
        words = words_of(name, data, out, given)
        began = time.monotonic()
        with shared_gpu() if part.sweeps else nullcontext():
            code = finished(words, out / f"{name.replace(':', '-')}.txt", left)
        yield Done(name, time.monotonic() - began, code)


def finished(words: Sequence[str], output: Path, seconds: float) -> int:
    """Run a command and return its exit code; with 124 if it ran out of time and was killed, its own processes too."""
    with output.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            words, stdout=log, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def share(part: Part, later: Sequence[Part], left: float) -> float:
    """Return the seconds a part may take; sweeps share the time that the later parts do not need."""
    if not part.sweeps:
        return left
    free = left - sum(other.seconds for other in later if not other.sweeps)
    return free / (1 + sum(other.sweeps for other in later))


def words_of(name: str, data: Path, out: Path, seconds: float) -> list[str]:
    """Return the command of a part; a sweep must end a little before its time is over."""
    kind, _, stage = name.partition(":")
    filled = {"data": data, "out": out, "seconds": f"{max(1.0, seconds - 10):.0f}", "stage": stage or "all"}
    return [sys.executable, "-m", *(word.format(**filled) for word in PARTS[kind].command.split())]


def environment() -> dict[str, str]:
    """Return an environment with few threads per process, since several processes share the host."""
    return {"OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"} | os.environ


def told(path: Path, lines: int) -> list[str]:
    """Return the last lines of an output, without warnings."""
    said = [line[:170] for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return [line for line in said if "warn" not in line.lower()][-lines:]


def summary(out: Path, since: float) -> Iterator[str]:
    """Yield one line per run of the vision study written since then."""
    for path in sorted(out.glob("vision/*.json"), key=lambda path: path.stat().st_mtime):
        result = json.loads(path.read_text(encoding="utf-8"))
        if path.stat().st_mtime >= since and "job" in result:
            yield line(result)


def line(result: dict[str, Any]) -> str:
    """Return the summary of a run by `vision.summary`, with only the chosen code."""
    head, *codes = summary_of_run(result).splitlines()
    return "".join([head, *(code for code in codes if f" {result.get('chosen_source')} aligned " in code)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="name, or name:stage for a sweep")
    parser.add_argument("--data", type=Path, help="folder with the .npz files of images and graphs")
    parser.add_argument("--out", type=Path, help="folder for results")
    parser.add_argument("--seconds", type=float, default=560.0)
    parser.add_argument("--archive", type=Path, help="file with all results and outputs so far (default: none)")
    parser.add_argument("--list", action="store_true", help="list the parts and exit")
    given = parser.parse_args()
    if given.list:
        for name, part in PARTS.items():
            print(f"{name:10} {part.seconds:4.0f} s{' or more' if part.sweeps else '        '}  {part.command}")
        return
    unknown = [name for name in given.parts if name.partition(":")[0] not in PARTS]
    if unknown or not given.parts or given.data is None or given.out is None:
        parser.error(f"unknown part {unknown[0]!r}" if unknown else "give parts, --data and --out")
    began = time.time()
    done = []
    with archived(given.out, given.archive) if given.archive else nullcontext():
        for each in run(given.parts, given.data, given.out, given.seconds):
            done.append(each)
            print(f"== {each}", flush=True)
            part = PARTS[each.name.partition(":")[0]]
            if each.code is not None:
                print("\n".join(told(given.out / f"{each.name.replace(':', '-')}.txt", part.lines)), flush=True)
    print("\n".join(summary(given.out, began)))
    print("; ".join(map(str, done)))
    sys.exit(any(each.code for each in done))


if __name__ == "__main__":
    main()
