"""Jobs and pages of the study of time series."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.time import RESULTS

SIDE_BY_SIDE = 1
SYSTEMS = ("prinz", "triple-well")
PACKAGES = ("eigenmap", "deeptime")
SEEDS = (0, 1, 2)


def jobs(place: Place) -> Iterator[Job]:
    """Every package on every system, seed by seed."""
    stored = Stored(RESULTS, place.results)
    for seed, system, package in product(SEEDS, SYSTEMS, PACKAGES):
        name = f"{system}-{package}-{seed}"
        words = ("--system", system, "--package", package, "--seed", str(seed), "--json", f"{{results}}/{name}.json")
        yield Job(name, "time.measure", words, 120, package, alone=True, done=stored.has(name))


def pages() -> Iterator[tuple[Path, str]]:
    """The table of docs/time.md."""
    from benchmarks.time import tables

    path = DOCS / "time.md"
    yield path, tables.page(path.read_text(encoding="utf-8"), Stored(RESULTS))
