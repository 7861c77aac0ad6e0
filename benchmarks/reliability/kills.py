"""SIGKILL at random moments of a command: a clean state, and the same result when the command is repeated.

    python -m benchmarks.reliability.kills --operation "fit images" --rounds 50

A round counts if the command was really killed. Moments are uniform over the time of an undisturbed run. Afterwards the
visible content must be the old or the new one, complete. The same command (with --resume for fits) must then give the
result of an undisturbed run, byte for byte except for clocks, and leave no hidden file.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from benchmarks.reliability import outcome
from benchmarks.reliability.checking import Bench, bench, said
from benchmarks.reliability.children import load_libraries, start
from benchmarks.reliability.outcome import Outcome

MOST_ATTEMPTS = 5
"""Maximum number of attempts per round to hit the command."""


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    load_libraries()
    with tempfile.TemporaryDirectory(prefix="kills") as folder, bench(given.operation, Path(folder)) as one:
        killed_often(one, given.rounds, given.seed, found)


def killed_often(one: Bench, rounds: int, seed: int, found: Outcome) -> None:
    """Kill the command in the given number of rounds."""
    chance = random.Random(seed)
    one.prepare()
    began = time.perf_counter()
    start(one.words).ended()
    within = time.perf_counter() - began
    attempts = 0
    while found.rounds < rounds:
        attempts += 1
        if attempts > MOST_ATTEMPTS * rounds:
            found.fail(f"only {found.rounds} of {attempts} attempts hit the command")
            return
        one.prepare()
        child = start(one.words)
        moment = chance.uniform(0, within)
        time.sleep(moment)
        child.kill()
        ended = child.ended()
        if ended.code == 0:  # over before the kill: the machine was less busy than in the first run
            within *= 0.9
            found.counts["over before the kill"] += 1
            continue
        within *= 1.02
        found.rounds += 1
        if ended.code != -9:
            found.fail(f"{one.command.name} ended by itself with {ended.code}: {said(ended)}")
        wrong = list(one.faults())
        found.counts["bad" if wrong else "good"] += 1
        for what in wrong:
            found.fail(f"{one.command.name}, killed after {moment:.2f} s: {what}")
    found.measured["seconds_undisturbed"] = within


if __name__ == "__main__":
    outcome.run("kills", __doc__, 50, experiment, operation="fit images")
