"""Generator of the tables in docs/time.md, from the results alone."""

from __future__ import annotations

from typing import Any

from benchmarks.common.pages import NOT_RUN, figure, made_by, renewed, table
from benchmarks.common.plan import Stored
from benchmarks.time.study import PACKAGES, SEEDS, SYSTEMS

NAMES = {"prinz": "Prinz potential", "triple-well": "triple well"}
MARK = "table: written by python -m benchmarks time page"


def rows_of(stored: Stored, system: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of every method, one per seed."""
    found: dict[str, list[dict[str, Any]]] = {}
    for package in PACKAGES:
        for seed in SEEDS:
            for row in stored.rows(f"{system}-{package}-{seed}"):
                found.setdefault(row["method"], []).append(row)
    return found


def known_of(stored: Stored, system: str) -> list[float]:
    """The known eigenvalues of a system."""
    results = [stored.read(f"{system}-{package}-{seed}") for package in PACKAGES for seed in SEEDS]
    return next((result["known"] for result in results if result is not None), [])


def tables(stored: Stored) -> str:
    """Everything between the markers."""
    parts = []
    for system in SYSTEMS:
        known, rows = known_of(stored, system), rows_of(stored, system)
        if not rows:
            parts.append(f"{NAMES[system]}: {NOT_RUN}.")
            continue
        head = [NAMES[system], "VAMP-2", *(f"value {j}" for j in range(1, len(known) + 1)), "CPU seconds"]
        truth = ["known", f"{1 + sum(mu**2 for mu in known):.3f}", *(f"{mu:.3f}" for mu in known), ""]
        lines = [
            [
                name,
                figure([row["vamp2"] for row in each]),
                *(figure([row["values"][j] for row in each]) for j in range(len(known))),
                figure([row["seconds"] for row in each], 1),
            ]
            for name, each in rows.items()
        ]
        parts.append(table(head, [truth, *lines]))
    results = [result for path in stored.paths if (result := stored.read(path)) is not None]
    return "\n\n".join([*parts, made_by(results)])


def page(text: str, stored: Stored) -> str:
    """The page with its tables renewed."""
    return renewed(text, MARK, tables(stored))
