"""Attacks on every weak point found by earlier attacks, with many seeds.

    python -m benchmarks.reliability.attack --rounds 20

Kills, full disks, damaged files, requests and two processes with one output have their own experiments. These are the
others: threads, foreign folders, links, pictures that were never indexed, filters, passwords, names, pickles,
descriptions and cameras with the same names (`seams`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.reliability import outcome
from benchmarks.reliability.outcome import Outcome
from benchmarks.reliability.seams import SEAMS


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    import torch

    os.environ["COLUMNS"] = "200"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="attack") as name:
        for seam in SEAMS:
            for seed in range(given.seed, given.seed + given.rounds):
                folder = Path(name) / f"{seam.__name__}-{seed}"
                folder.mkdir()
                found.rounds += 1
                try:
                    seam(folder, seed)
                    found.counts[seam.__name__.replace("_", " ")] += 1
                except Exception as error:
                    found.fail(f"{seam.__name__}, seed {seed}: {type(error).__name__}: {str(error)[:300]}")


if __name__ == "__main__":
    outcome.run("attack", __doc__, 20, experiment)
