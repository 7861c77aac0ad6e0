"""Comparison of the default estimator with exact Nystroem and with every rival, mode by mode."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.common.pages import NOT_RUN
from benchmarks.eigenfunctions.methods import METHODS
from benchmarks.eigenfunctions.problems import PROBLEMS
from benchmarks.eigenfunctions.scores import GOOD

Run = dict[str, Any]
GOALS = ("rbf-1d-1", "rbf-1d-0.3", "rbf-2d")
"""Problems on which the default is to be as good as exact Nystroem in every mode."""


class Results:
    """All runs on one problem."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        self.problem, self.settings = content["problem"], content["settings"]
        self.runs: list[Run] = content["runs"]

    def of(self, method: str) -> list[Run]:
        return [run for run in self.runs if run["method"] == method and "failed" not in run]

    def failed(self, method: str) -> list[Run]:
        return [run for run in self.runs if run["method"] == method and "failed" in run]


def read(folder: Path) -> dict[str, Results]:
    paths = {name: folder / f"eigenfunctions-{name}.json" for name in PROBLEMS}
    return {name: Results(path) for name, path in paths.items() if path.exists()}


def averaged(runs: Sequence[Run], when: str, what: str) -> list[float]:
    """Mode by mode over the seeds."""
    return [mean(values) for values in zip(*(run[when][what] for run in runs), strict=True)]


def missed(results: Results) -> tuple[list[str], int, float] | None:
    """Return the modes in which the default misses the goal, the number of cases, and the largest deficit."""
    ours = {run["seed"]: run["after"] for run in results.of("default")}
    exact = {run["seed"]: run["after"] for run in results.of("nystroem")}
    seeds = sorted(ours.keys() & exact.keys())
    if not seeds:
        return None
    behind, found, total = 0.0, [], 0
    for seed in seeds:
        pairs = zip(
            *(which[seed][what] for what in ("alignment", "eigenvalue_error") for which in (ours, exact)), strict=True
        )
        for j, (a, a_exact, e, e_exact) in enumerate(pairs):
            total += 1
            behind = max(behind, a_exact - a)
            if a < a_exact - 0.01 or e > max(1.1 * e_exact, e_exact + 0.01):
                found.append(f"{j + 1} (seed {seed})")
    return found, total, behind


def verdict(results: Results) -> str:
    """Compare the default with exact Nystroem on the same points, mode by mode, seed by seed."""
    compared = missed(results)
    if compared is None:
        return f"The default against exact Nystroem: {NOT_RUN}."
    found, total, behind = compared
    goal = "The goal" if results.problem["name"] in GOALS else "The same measure as for the goal"
    said = f"Met in all {total} cases" if not found else f"Missed in {len(found)} of {total}: mode {', '.join(found)}"
    return (
        f"{goal}: in every mode, alignment within 0.01 of exact Nystroem's and eigenvalue error within 10 % of its (or "
        f"1 % absolute). {said}. Largest deficit in alignment {behind:.4f}."
    )


def ahead(results: Results) -> dict[str, list[int]]:
    """Return the modes in which each rival is ahead of the default by more than 0.01, by its name."""
    ours = results.of("default")
    found = {}
    for name, method in METHODS.items():
        theirs = results.of(name)
        seeds = {run["seed"] for run in ours} & {run["seed"] for run in theirs}
        if name in ("default", "kernel-pca") or not seeds:  # KernelPCA has another truth
            continue
        a, b = (
            averaged([run for run in runs if run["seed"] in seeds], "after", "alignment") for runs in (theirs, ours)
        )
        gains = [j + 1 for j, (rival, default) in enumerate(zip(a, b, strict=True)) if rival > default + 0.01]
        if gains:
            found[method.title] = gains
    return found


def blurred(results: Results) -> list[int]:
    """Return the modes that exact Nystroem itself does not find on these points."""
    exact = results.of("nystroem")
    return [j + 1 for j, value in enumerate(averaged(exact, "after", "alignment")) if value < GOOD] if exact else []


def losses(results: Results) -> str:
    """List the methods that beat the default in some mode, on the seeds of both."""
    if not results.of("default"):
        return ""
    found = ahead(results)
    if not found:
        return "No method is ahead of the default by more than 0.01 in any mode, in the mean over the seeds."
    said = "Ahead of the default by more than 0.01, in the mean over the seeds:\n\n"
    said += "\n".join(f"- {name}: mode {_numbers(modes)}" for name, modes in found.items())
    if modes := blurred(results):
        said += (
            f"\n\nExact Nystroem itself is below {GOOD} in mode {_numbers(modes)}. The points blur these modes, so a "
            "lead there is chance unless many modes agree."
        )
    return said


def in_short(found: dict[str, Results]) -> Iterator[str]:
    """Summarise the page, lost problems first."""
    lines, won = [], []
    for name, results in found.items():
        compared, rivals = missed(results), ahead(results)
        title = results.problem["title"]
        if compared and (compared[0] or rivals):
            lines.append(f"- {title[0].upper()}{title[1:]}: {_lost(results, compared, rivals)}.")
        elif compared:
            won.append(name)
    lines += [f"- {line}" for line in _slower(found)]
    if lines:
        yield (
            f"In short: on {len(found) - _behind(found)} of {len(found)} kernels, the learned functions are as good as "
            "those of exact Nystroem, mode by mode. Nystroem is the exact solution on the points, which it must keep. "
            "Where the default estimator loses, against it and against every rival on the same points:"
        )
        yield "\n".join(lines)
    if won:
        yield "As good as exact Nystroem in every mode, with no rival ahead:"
        yield "\n".join(f"- {found[name].problem['title']}" for name in won)


def _behind(found: dict[str, Results]) -> int:
    """Count the problems on which the default misses the goal in some mode."""
    return sum(bool(compared and compared[0]) for compared in map(missed, found.values()))


def _slower(found: dict[str, Results]) -> Iterator[str]:
    """Say how much faster exact Nystroem is on few points."""
    times = [
        mean(run["seconds"] for run in results.of("default")) / mean(run["seconds"] for run in results.of("nystroem"))
        for results in found.values()
        if results.of("default") and results.of("nystroem")
    ]
    if times and max(times) > 1:
        yield (
            f"Time, on so few points: the default takes {min(times):.0f} to {max(times):.0f} times as long as Nystroem."
        )


def _lost(results: Results, compared: tuple[list[str], int, float], rivals: dict[str, list[int]]) -> str:
    modes = sorted({mode for gains in rivals.values() for mode in gains})
    clear = [mode for mode in modes if mode not in blurred(results)]
    parts = []
    if compared[0]:
        parts.append(f"behind Nystroem in {len(compared[0])} of {compared[1]} cases")
    if modes:
        parts.append(f"some rival is ahead in mode {_numbers(modes)}")
        if not clear:
            parts.append("none of which exact Nystroem finds on these points")
        elif len(clear) < len(modes):
            parts.append(f"of which exact Nystroem finds {_numbers(clear)}")
    return ", ".join(parts)


def _numbers(modes: Sequence[int]) -> str:
    """Join numbers; three or more in a row become a range."""
    runs: list[list[int]] = []
    for mode in modes:
        if runs and mode == runs[-1][-1] + 1:
            runs[-1].append(mode)
        else:
            runs.append([mode])
    short = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(short)
