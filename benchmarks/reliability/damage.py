"""Damaged and hostile files of every format we read: an error in one sentence or a usable result, in bounded memory.

    python -m benchmarks.reliability.damage --part 0 --rounds 10000

A part is one tenth of the experiment, with its own random numbers. About half of the damage is specific to the format
(sizes, types, checksums, names, nesting), the rest is blind (bits, cuts, zeros, noise, doubled and removed pieces).
Each subject is read in a separate process with limited address space. Failures are a crash, a hang, a traceback, a
different result despite a checksum, and an error that names no file.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.common.timing import status_bytes
from benchmarks.reliability import outcome
from benchmarks.reliability.children import Child, load_libraries
from benchmarks.reliability.outcome import Outcome

MEMORY_BYTES = 1536 * 2**20
"""Memory that a reader may use beyond that of the process: less than any size that a header may claim."""


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    load_libraries()
    from tests.robustness.subjects import SUBJECTS

    chance = random.Random(f"{given.seed} {given.part}")
    shares = Counter(number % len(SUBJECTS) for number in range(given.rounds))
    found.measured["subjects"] = len(SUBJECTS)
    found.measured["peak_mb"], found.measured["slowest_s"] = 0.0, 0.0
    with tempfile.TemporaryDirectory(prefix="damage") as folder:
        for number, subject in enumerate(SUBJECTS):
            _damage(subject, shares[number], chance.randrange(2**32), Path(folder) / str(number), found)


def _damage(subject: Any, rounds: int, seed: int, place: Path, found: Outcome) -> None:
    place.mkdir()
    ended = Child(lambda: _read_damaged(subject, rounds, seed, place)).ended()
    lines = [json.loads(line) for line in (place / "lines").read_text().splitlines()]
    for line in lines:
        if "judgement" in line:
            found.rounds += 1
            found.counts[line["judgement"]] += 1
            found.measured["slowest_s"] = max(found.measured["slowest_s"], line["seconds"])
        if line.get("fault"):
            found.fail(f"{subject.name}: {line['fault']}")
        found.measured["peak_mb"] = max(found.measured["peak_mb"], line.get("peak_mb", 0))
    if ended.code != 0:
        found.fail(f"{subject.name}: the process ended with {ended.code} at {lines[-1:]}: {ended.err[-300:]}")


def _read_damaged(subject: Any, rounds: int, seed: int, place: Path) -> None:
    """Damage and read files in a separate process; print one line of JSON each."""
    from tests.robustness.damage import blindly
    from tests.robustness.judging import judged, sampled

    chance, good = random.Random(seed), place / "good"
    good.mkdir()
    subject.write(good)
    rights = subject.rights(good)
    content = (good / subject.file).read_bytes()
    knowing = sampled(subject.damages(content), rounds // 2, chance)
    before = status_bytes("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (before + MEMORY_BYTES, before + MEMORY_BYTES))
    with (place / "lines").open("w", buffering=1) as lines:
        for number in range(rounds):
            damage = knowing[number] if number < len(knowing) else blindly(content, chance)
            lines.write(json.dumps({"begun": damage.what}) + "\n")
            began = time.perf_counter()
            verdict = judged(subject, good, place / "one", rights, damage)
            line = {**verdict._asdict(), "seconds": time.perf_counter() - began}
            lines.write(json.dumps(line) + "\n")
        lines.write(json.dumps({"peak_mb": (status_bytes("VmPeak") - before) / 1e6}) + "\n")


if __name__ == "__main__":
    outcome.run("damage", __doc__, 10_000, experiment, part=0)
