"""Access to the stored results of the study, for tables and goals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.common.pages import made_by
from benchmarks.vectors.rows import ORIGIN
from benchmarks.vectors.sets import SEEDS

Result = dict[str, Any]
Row = dict[str, Any]


class Found:
    """Every result of a folder."""

    def __init__(self, folder: Path) -> None:
        self.results: dict[str, Result] = {
            path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
        }

    def splits(self, name: str) -> list[Result]:
        """Return the results of a job, one per split; a job without splits has one."""
        names = [name, *(f"{name}-s{seed}" for seed in SEEDS)]
        return [self.results[each] for each in names if each in self.results]

    def rows(self, name: str, method: str) -> list[Row]:
        """A method's rows, one per split."""
        return [row for result in self.splits(name) for row in result["rows"] if row["method"] == method]

    def methods(self, name: str) -> list[str]:
        """The methods of a job that have rows."""
        return list(dict.fromkeys(row["method"] for result in self.splits(name) for row in result["rows"]))

    def values(
        self, name: str, method: str, length: int | str, metric: str = "ndcg@10", by: str = "scores"
    ) -> list[float]:
        """Return a score at a length, one per split; empty if it was not measured."""
        rows = self.rows(name, method)
        return [row[by][str(length)][metric] for row in rows if str(length) in row.get(by, {})]

    def score(
        self, name: str, method: str, length: int | str, metric: str = "ndcg@10", by: str = "scores"
    ) -> float | None:
        """The mean over splits."""
        values = self.values(name, method, length, metric, by)
        return mean(values) if values else None

    def beside(self, name: str, cells: tuple[tuple[str, int], ...], by: str = "scores") -> list[tuple[float, ...]]:
        """nDCG@10 of several methods at their lengths, of each split that has all of them."""
        found = []
        for result in self.splits(name):
            rows = {row["method"]: row[by] for row in result["rows"] if by in row}
            if all(str(length) in rows.get(method, {}) for method, length in cells):
                found.append(tuple(rows[method][str(length)]["ndcg@10"] for method, length in cells))
        return found

    def lengths(self, name: str, method: str = "prefix") -> list[int]:
        """Lengths at which a method was measured."""
        rows = self.rows(name, method)
        return sorted(int(length) for length in rows[0]["scores"]) if rows else []

    def made_by(self, name: str) -> str:
        """Device, commits, dates and seeds of a job; rows that say where they were measured count for themselves."""
        results = self.splits(name)
        every = [{**result, **{k: row[k] for k in ORIGIN if k in row}} for result in results for row in result["rows"]]
        told = made_by(every).rpartition("; ")[0] if every else made_by(results).rpartition("; ")[0]
        return f"{told}; {len(results)} {'run' if len(results) == 1 else 'runs'}."

    def jobs(self, stem: str) -> Iterator[str]:
        """Names of the jobs of one kind, without their splits."""
        names = (name.rpartition("-s")[0] or name for name in self.results)
        yield from dict.fromkeys(name for name in names if name.startswith(stem))
