"""Jobs and pages of the catalogue study."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from benchmarks import DOCS, ROOT
from benchmarks.catalogue import RESULTS
from benchmarks.common.plan import Job, Place, Stored

SIDE_BY_SIDE = 1
SEEDS = (0, 1, 2)
SECONDS = 200.0
"""Seconds of a training run on two cores."""
RIVAL = ROOT / "src" / "eigenmap" / "demo" / "rival.json"


def jobs(place: Place) -> Iterator[Job]:
    """Three seeds, clean and posed, ordered and unordered; other settings; and the figures."""
    from benchmarks.catalogue.runs import CANDIDATES, OBJECTIVES, SCENES, slug

    stored = Stored(RESULTS, place.results)
    for seed, objective, scene in product(SEEDS, OBJECTIVES, SCENES):
        name = f"catalogue-{scene}-{objective}-{seed}"
        words = ("run", "--scene", scene, "--objective", objective, "--seed", str(seed), "--folder", "{results}")
        yield Job(name, "catalogue.runs", words, SECONDS, "queries", alone=True, done=stored.has(name))
    for scene, candidate in product(SCENES, CANDIDATES):
        name = f"catalogue-validation-{scene}-{slug(candidate)}"
        words = ("validate", "--scene", scene, "--candidate", candidate, "--folder", "{results}")
        yield Job(name, "catalogue.runs", words, SECONDS, "validation", alone=True, done=stored.has(name))
    name = "figures-catalogue"
    words = ("{data}/ready/model", "--folder", "{results}")
    yield Job(name, "catalogue.figures", words, 120, "figures", ("ready/model",), alone=True, done=stored.has(name))


def pages() -> Iterator[tuple[Path, str]]:
    """docs/catalogue.md, and the rival that `eigenmap demo` shows."""
    from benchmarks.catalogue import tables
    from benchmarks.common.harness import as_text

    yield DOCS / "catalogue.md", tables.page(RESULTS)
    yield RIVAL, as_text(tables.rival(tables.stored(RESULTS)))
