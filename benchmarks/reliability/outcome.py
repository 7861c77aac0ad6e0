"""Result of an experiment: rounds, counts, and every failure by name."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import harness
from benchmarks.reliability import RESULTS

MOST_FAILURES = 50
"""Maximum number of failures stored with their messages; all are counted."""


@dataclass
class Outcome:
    """Outcome of the rounds of an experiment."""

    rounds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """Number of occurrences, by name."""
    failures: list[str] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    """Other numbers."""

    def fail(self, what: str) -> None:
        """Record a failure and print it at once."""
        print(f"FAILURE: {what}", flush=True)
        self.failures.append(what)

    def as_json(self) -> dict[str, Any]:
        return {
            "rounds": self.rounds,
            "counts": dict(sorted(self.counts.items())),
            "failed": len(self.failures),
            "failures": self.failures[:MOST_FAILURES],
            **({"measured": self.measured} if self.measured else {}),
        }


def run(
    name: str, doc: str | None, rounds: int, experiment: Callable[[argparse.Namespace, Outcome], object], **more: Any
) -> None:
    """Run an experiment from the command line and store its result; `more` are further options and their defaults."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=RESULTS / f"{name}.json", help="result file")
    for option, default in more.items():
        parser.add_argument(f"--{option.replace('_', '-')}", type=type(default), default=default)
    given = parser.parse_args()
    outcome, began = Outcome(), time.perf_counter()
    experiment(given, outcome)
    settings = {option: getattr(given, option) for option in more}
    protocol = {"experiment": name, "seed": given.seed, "asked_rounds": given.rounds, **settings}
    result = {
        "protocol": protocol,
        **outcome.as_json(),
        "seconds": time.perf_counter() - began,
        "cores": os.cpu_count(),
        **harness.environment(),
    }
    harness.write(given.json, result)
    print(json.dumps({name: result[name] for name in ("rounds", "counts", "failed")}), flush=True)
