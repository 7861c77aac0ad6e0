"""Jobs and pages of the scale study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.scale import RESULTS

SIDE_BY_SIDE = 1
POSTGRES = {"postgres-cifar10-20k": ("codes-cifar10.npz", 20_000), "postgres-coco-200k": ("codes-coco.npz", 200_000)}
"""Results, with their codes and number of items."""


def jobs(place: Place) -> Iterator[Job]:
    """Memory and speed of embedding, and search in PostgreSQL."""
    stored = Stored(RESULTS, place.results)
    words = ("--out", "{results}/embedding.json")
    yield Job("embedding", "scale.embedding", words, 300, "embedding", alone=True, done=stored.has("embedding"))
    for name, (codes, items) in POSTGRES.items():
        words = ("--codes", f"{{data}}/{codes}", "--items", str(items), "--out", f"{{results}}/{name}.json")
        seconds = items / 100
        yield Job(name, "scale.postgres", words, seconds, "postgres", (codes,), alone=True, done=stored.has(name))


def pages() -> Iterator[tuple[Path, str]]:
    """docs/scale-figures.md."""
    from benchmarks.scale import tables

    yield DOCS / "scale-figures.md", tables.page(RESULTS)
