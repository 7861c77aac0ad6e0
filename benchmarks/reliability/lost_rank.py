"""Loss of a process in a distributed run: the others end within a minute and name the cause.

    python -m benchmarks.reliability.lost_rank --rounds 4

Two processes train on the CPU, started by torchrun or by eigenmap itself (`--devices 2`). One of them is killed in the
middle of training: the first or the second. The run must end within a minute with an exit code other than 0, leave no
process behind, name the cause, and be resumed by the same command with --resume.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from benchmarks.reliability import outcome
from benchmarks.reliability.outcome import Outcome

MOST_SECONDS = 60.0
PROGRAM = "from eigenmap.cli import main; main()"
CAUSES = ("another process of the run", "SIGKILL", "Signal 9", "exitcode  : -9", "exitcode: -9")
"""Messages of which one must appear: our own, or torchrun's."""


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    from tests.end_to_end.photos import pictures

    with tempfile.TemporaryDirectory(prefix="rank") as name:
        folder = Path(name)
        np.save(folder / "pictures.npy", pictures(120))
        for number in range(given.rounds):
            launcher, lost = ("torchrun", "eigenmap")[number % 2], number // 2 % 2
            _round(folder, launcher, lost, folder / f"run {number}", found)


def command(folder: Path, launcher: str, out: Path, steps: int) -> list[str]:
    words = ["fit", "images", str(folder / "pictures.npy"), "--out", str(out), "--steps", str(steps)]
    words += ["-k", "8", "--batch-size", "16", "--image-size", "16", "--device", "cpu", "--quiet"]
    words += ["--set", "hidden=32"]
    script = folder / "program.py"
    script.write_text(PROGRAM)
    if launcher == "eigenmap":
        return [sys.executable, str(script), *words, "--devices", "2"]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script), *words]


def _round(folder: Path, launcher: str, lost: int, out: Path, found: Outcome) -> None:
    name = f"{launcher}, process {lost} lost"
    # As many checkpoints as in a short run, so that the first comes soon.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TMPDIR": str(folder)}
    process = subprocess.Popen(
        command(folder, launcher, out, 4000),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    members: list[int] = []
    try:
        victim = _victim(process, launcher, lost, out)
        members = _descendants(process.pid)
        os.kill(victim, signal.SIGKILL)
        began = time.perf_counter()
        try:
            _, err = process.communicate(timeout=3 * MOST_SECONDS)
        except subprocess.TimeoutExpired:
            found.fail(f"{name}: no end within {3 * MOST_SECONDS:.0f} s")
            return
        while any(map(_is_alive, members)) and time.perf_counter() - began < MOST_SECONDS:
            time.sleep(0.1)
        seconds = time.perf_counter() - began
    finally:
        left = [pid for pid in members if _is_alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        process.wait()
    found.rounds += 1
    found.measured.setdefault("seconds_to_end", {}).setdefault(name, []).append(round(seconds, 1))
    if seconds > MOST_SECONDS:
        found.fail(f"{name}: it ended after {seconds:.0f} s")
    if process.returncode == 0:
        found.fail(f"{name}: it ended with 0")
    if left:
        found.fail(f"{name}: {len(left)} processes were left")
    killed_itself = process.pid == victim  # only the other process is left to report anything
    if not any(cause in err for cause in CAUSES):
        found.fail(f"{name}: the cause is not named: {err[-300:]!r}")
    found.counts["the first process was killed" if killed_itself else "another process was killed"] += 1


def _victim(process: subprocess.Popen[str], launcher: str, lost: int, out: Path) -> int:
    """Wait for the first steps, and return the process to kill."""
    limit = time.monotonic() + 300
    while not (out / "metrics.jsonl").exists() or not (out / "metrics.jsonl").stat().st_size:
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            raise RuntimeError(f"it did not begin: {process.communicate()[1][-500:]}")
        time.sleep(0.1)
    ranks = {}
    for pid in _descendants(process.pid):
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        rank = next((word[11:] for word in words if word.startswith(b"LOCAL_RANK=")), None)
        ranks[pid] = None if rank is None else int(rank)
    if launcher == "eigenmap" and lost == 0:
        return process.pid
    return next(pid for pid, rank in ranks.items() if rank == lost)


def _descendants(process: int) -> list[int]:
    """Return a process and all of its descendants."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [process]
    for known in found:
        found += [pid for pid, parent in parents.items() if parent == known]
    return found


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    outcome.run("lost-rank", __doc__, 4, experiment)
