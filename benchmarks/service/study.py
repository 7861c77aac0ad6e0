"""Jobs and pages of the service study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.service import RESULTS

SIDE_BY_SIDE = 1


def jobs(place: Place) -> Iterator[Job]:
    """The server under load, and under generated requests."""
    stored = Stored(RESULTS, place.results)
    for name, module, seconds in (("serve", "load", 300.0), ("serve-fuzz", "fuzz", 600.0)):
        words = ("--json", f"{{results}}/{name}.json")
        yield Job(name, f"service.{module}", words, seconds, module, alone=True, done=stored.has(name))


def pages() -> Iterator[tuple[Path, str]]:
    """The tables of docs/explorer.md."""
    from benchmarks.service import tables

    path, stored = DOCS / "explorer.md", Stored(RESULTS)
    yield path, tables.page(path.read_text(encoding="utf-8"), stored.read("serve"), stored.read("serve-fuzz"))
