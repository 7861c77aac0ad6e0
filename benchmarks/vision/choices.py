"""Section of docs/benchmarks.md on the choices that alignment makes without labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from benchmarks.common.pages import NOT_RUN, made_by, table

STUDIED = re.compile(r"(?P<source>\w+) ridge (?P<ridge>\S+) t (?P<t>\S+) captured \S+")
Setting = tuple[str, str]
"""Ridge and exponent t, as text."""


@dataclass(frozen=True)
class Comparison:
    """The choice of held-out pairs in one run, and fixed settings on the same output; means over all lengths."""

    name: str
    chosen: str
    value: float
    fixed: Mapping[Setting, float]

    @property
    def best(self) -> Setting:
        return max(self.fixed, key=lambda setting: self.fixed[setting])


def compare(result: dict[str, Any], note: str) -> Comparison:
    source, job = result["chosen_source"], result["job"]
    alignment = result["alignment"][source]
    own = mean(row["map_over_found@1000"] for row in result["retrieval"][f"{source} aligned"])
    fixed = {}
    for name, values in result["study"].items():
        found = STUDIED.fullmatch(name)
        if found and found["source"] == source:
            fixed[found["ridge"], found["t"]] = mean(values)
    chosen = f"{source}, ridge {alignment['ridge']:g}, t = {alignment['t']:g}"
    return Comparison(f"{job['method']} {job['rate']:g}{note}", chosen, own, fixed)


def choices(results: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """One row per run that has the study, and the single setting that would serve all of them best."""
    studied = {name: result for name, result in results.items() if result.get("study")}
    compared = [compare(result, ", repeat" if name.endswith("-repeat") else "") for name, result in studied.items()]
    yield "## Ridge and exponent: chosen without labels, against fixed"
    yield (
        "mAP over found@1000, averaged over all lengths, of the code that held-out pairs choose and of the best of 30 "
        "fixed settings on the same output (ridge 0, 0.01, 0.1, 1, 10; t = 0, 1, 2, 4, 8, 16). The best fixed setting "
        "is picked on the queries themselves. It shows the most that could be gained; it is not a valid way to choose."
    )
    rows = [
        [
            run.name,
            run.chosen,
            f"{run.value:.3f}",
            f"ridge {run.best[0]}, t = {run.best[1]}",
            f"{run.fixed[run.best]:.3f}",
            f"{run.fixed[run.best] - run.value:+.3f}",
        ]
        for run in compared
    ] or [["any", *[NOT_RUN] * 5]]
    yield table(["run", "chosen", "mAP", "best fixed", "mAP", "difference"], rows)
    yield made_by(list(studied.values()))
    if compared:
        yield _in_one_line(compared)


def _in_one_line(compared: list[Comparison]) -> str:
    lost = mean(run.fixed[run.best] - run.value for run in compared)
    gain = {setting: mean(run.fixed[setting] - run.value for run in compared) for setting in compared[0].fixed}
    single = max(gain, key=lambda setting: gain[setting])
    return (
        f"On average over the runs the choice is {lost:.3f} below the best fixed setting of each run. The single "
        f"setting that would do best in all of them, ridge {single[0]} and t = {single[1]}, is {gain[single]:+.3f} "
        "against the choice."
    )
