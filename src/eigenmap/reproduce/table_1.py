"""Table 1: the linear probe of eight methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from eigenmap.reproduce.methods import METHODS, Scale, recipe_of
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.sets import Sets
from eigenmap.training.config import Accelerator

TABLE_1 = tuple(name for name in METHODS if name != "ordered")


class ProbeRow(TypedDict):
    """Accuracy of one method's encoder output on the test images; None if training collapsed."""

    method: str
    linear: float | None
    knn: float | None
    seconds: float


def table_1(
    scale: Scale,
    sets: Sets,
    methods: Sequence[str] = TABLE_1,
    *,
    seed: int = 0,
    device: Accelerator = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> list[ProbeRow]:
    """Train every method and probe its encoder, with closed-form ridge and a vote of 200 neighbours."""
    return probe_rows(scale, Runs(sets, seed, device, say=say), methods)


def probe_rows(scale: Scale, runs: Runs, methods: Sequence[str] = TABLE_1) -> list[ProbeRow]:
    """Train and probe methods; finished runs are not repeated."""
    rows: list[ProbeRow] = []
    for name in methods:
        runs.say(f"{METHODS[name].title} ...")
        probe = runs.probe(recipe_of(name, scale))
        rows.append(
            ProbeRow(method=METHODS[name].title, linear=probe["linear"], knn=probe["knn"], seconds=probe["seconds"])
        )
    return rows
