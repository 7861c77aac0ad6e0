"""Jobs and pages of the reliability study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.reliability import RESULTS

SIDE_BY_SIDE = 1
SLICES = 10
"""Number of parts of the experiment with damaged files."""
SERVERS = 5
"""Number of parts of the experiment with requests."""
KILLED = {
    "fit images": 50,
    "fit graph": 50,
    "fit vectors": 50,
    "embed": 50,
    "embed, one file": 25,
    "append nodes": 25,
    "index append": 50,
    "index replace": 50,
    "database load": 50,
    "export parquet": 20,
    "export faiss": 20,
    "export faiss again": 20,
    "export onnx": 10,
}
"""Number of kills per command."""


SEED = 1
"""Seed of the experiments with damaged files and requests; their faults were found and repaired with seed 0."""


def jobs(place: Place) -> Iterator[Job]:
    """Every experiment, the quick ones first."""
    stored = Stored(RESULTS, place.results)

    def job(name: str, module: str, seconds: float, *words: str) -> Job:
        words = (*words, "--json", f"{{results}}/{name}.json")
        return Job(name, f"reliability.{module}", words, seconds, module, alone=True, done=stored.has(name))

    yield job("repeat", "repeat", 120)
    yield job("numbers", "numbers", 60)
    yield job("attack", "attack", 300)
    yield job("together", "together", 300)
    yield job("lost-rank", "lost_rank", 120)
    yield job("database", "database", 300)
    yield job("busy", "busy", 150)
    yield job("interned", "interned", 10)
    yield job("growth", "growth", 300)
    for name, rounds in KILLED.items():
        words = ("--operation", name, "--rounds", str(rounds))
        yield job(f"kills-{slug(name)}", "kills", 10 + 4.0 * rounds, *words)
    for name in KILLED:
        yield job(f"disk-{slug(name)}", "disk", 120, "--operation", name)
    for number in range(SLICES):
        yield job(f"damage-{number}", "damage", 300, "--part", str(number), "--seed", str(SEED))
    for number in range(SERVERS):
        yield job(f"requests-{number}", "requests", 120, "--part", str(number), "--seed", str(SEED))
    yield job("steady", "steady", 2000)


def slug(name: str) -> str:
    """Return a name in a form suitable for file names."""
    return name.replace(",", "").replace(" ", "-")


def pages() -> Iterator[tuple[Path, str]]:
    """The page docs/reliability.md."""
    from benchmarks.reliability import tables

    yield DOCS / "reliability.md", tables.page(Stored(RESULTS))
