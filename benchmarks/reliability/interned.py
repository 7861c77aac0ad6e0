"""Python's table of interned strings: a step of memory that is not a leak.

    python -m benchmarks.reliability.interned --rounds 400

A process imports the service, then interns strings and drops them at once, 1,000 per round, as `pathlib` does with the
parts of paths. Entries of dropped strings are not reused. When all are used up, Python rebuilds the table, the first
time at twice its size. Growing more than once is a failure: that would be a leak.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.reliability import outcome
from benchmarks.reliability.outcome import Outcome

PER_ROUND = 1000
PROGRAM = """
import sys
import eigenmap.service.app, torch
from benchmarks.reliability import reachable
last = reachable.handed_out()
for number in range(1, int(sys.argv[1]) + 1):
    reachable.drop(int(sys.argv[2]))
    now = reachable.handed_out()
    if now - last > 100_000:
        print(number, now - last)
    last = now
"""


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    words = [sys.executable, "-c", PROGRAM, str(given.rounds), str(PER_ROUND)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    steps = [[int(word) for word in line.split()] for line in ended.stdout.splitlines()]
    found.rounds = given.rounds
    found.measured["steps"] = [{"strings": PER_ROUND * number, "bytes": size} for number, size in steps]
    if len(steps) > 1:
        found.fail(
            f"memory grew {len(steps)} times while {PER_ROUND * given.rounds:,} strings were interned and dropped"
        )


if __name__ == "__main__":
    outcome.run("interned", __doc__, 400, experiment)
