"""Jobs and pages of the study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.paper import RESULTS
from benchmarks.vision import RESULTS as VISION

SIDE_BY_SIDE = 4
SECONDS = 45.0
"""Of a whole GPU, for 50 epochs of SCL on CIFAR-10."""
START = 30.0


def jobs(place: Place) -> Iterator[Job]:
    """Runs of table 1, one seed of each method first; those of SimCLR are the vision study's too."""
    from benchmarks.paper import table_1
    from benchmarks.vision.study import words_of

    stored = Stored(VISION, RESULTS, place.results)
    for run in table_1.every():
        words = ("--data", "{data}", "--results", "{results}", "--method", run.method, "--seed", str(run.seed))
        seconds = START + SECONDS * table_1.METHODS[run.method].cost * place.side_by_side
        yield Job(
            *(run.name, "paper.table_1", words, seconds, "table-1", ("cifar10.npz",)),
            gpu=True,
            done=stored.has(run.name),
        )
    for run in (run for runs in table_1.SHARED.values() for run in runs):
        if not stored.has(run.name):
            seconds = 2 * START + SECONDS * place.side_by_side
            yield Job(run.name, "vision.retrieval", words_of(run), seconds, "table-1", ("cifar10.npz",), gpu=True)


def pages() -> Iterator[tuple[Path, str]]:
    """docs/paper.md."""
    from benchmarks.paper import page

    yield DOCS / "paper.md", page.page(RESULTS)
