"""Jobs and pages of the search study."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.search import RESULTS

SIDE_BY_SIDE = 1
OLD = "6ffb7eb"
"""Commit with which the current search is compared."""
WAY_SECONDS = {"real": 60.0, "1000000": 400.0}


def jobs(place: Place) -> Iterator[Job]:
    """Speed of every way to search, quality by bytes, an index larger than memory, and an older version."""
    from benchmarks.search.quality import BYTES, METHODS
    from benchmarks.search.rankings import BYTES as RANKED_BYTES
    from benchmarks.search.tables import PHOTOS, SETS, SIZES, TIMED
    from benchmarks.search.ways import NAMES

    stored = Stored(RESULTS, place.results)

    def job(name: str, part: str, words: tuple[str, ...], rows: int, seconds: float) -> Job:
        """One file of rows; `seconds` are for each row."""
        file = f"search-{name}-{part}"
        left = max(0, rows - len((stored.read(file) or {}).get("rows", {})))
        codes = f"codes-{name}.npz"
        words = (words[0], f"{{data}}/{codes}", "--name", name, "--folder", "{results}", *words[1:])
        needs = (codes,)
        return Job(file, "search.measure", words, seconds * left, words[0], needs, alone=True, done=left == 0)

    for name, size in product(TIMED, SIZES):
        words = ("speed", "--items", size, "--work", "{data}/work")
        yield job(name, size, words, len(NAMES), WAY_SECONDS[size])
    for name in SETS:
        yield job(name, "quality", ("quality",), 1 + len(METHODS) * len(BYTES), 15)
    for name in SETS | PHOTOS:
        yield job(name, "rankings", ("rankings",), len(RANKED_BYTES), 15)
    yield job("coco", "large", ("large", "--work", "{data}/work"), 1, 900)
    name = "versions-of-search"
    words = (OLD, "--folder", "{results}")
    yield Job(name, "search.versions", words, 600, "versions", alone=True, done=stored.has(name))


def pages() -> Iterator[tuple[Path, str]]:
    """The tables of docs/search-benchmarks.md."""
    from benchmarks.search import tables

    path = DOCS / "search-benchmarks.md"
    yield path, tables.page(path.read_text(encoding="utf-8"), RESULTS)
