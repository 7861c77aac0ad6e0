"""Generator of docs/catalogue.md and of the rival in `eigenmap demo`, from the results alone."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.catalogue.runs import MAIN, OBJECTIVES
from benchmarks.common.pages import entry, table
from eigenmap.demo.methods import DRAWS, METRIC_NAMES, NAMES
from eigenmap.demo.study import SCENES
from eigenmap.evaluation.retrieval import ScoreRow

DIMS = (2, 4, 8, 16, 32, 64, 128)
STRICT = "map_over_found@100"
RIVALS = {**{key: name for key, name in NAMES.items() if key != "ours"}, "aligned": "SCL, aligned"}
"""Codes other than ours, by key."""


def rival(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The unordered model of the first seed, as the demo shows it."""
    chosen = {run["scene"]: run for run in runs if run["objective"] == "scl" and run["seed"] == 0}
    first = chosen["clean"]
    # Stored results name the command of their time; this one repeats them.
    about = {"command": "python -m benchmarks catalogue run 'catalogue-*-scl-0' --again"}
    about |= {name: first[name] for name in ("commit", "date", "device", "torch", "seed", "steps")}
    seconds = {f"seconds ({scene})": run["seconds"] for scene, run in chosen.items()}
    rows = {scene: run["methods"]["random"] for scene, run in chosen.items()}
    return {"objective": "scl", **about, "draws": DRAWS, **seconds, "scenes": rows}


def stored(folder: Path) -> list[dict[str, Any]]:
    """All runs on the queries."""
    files = sorted(folder.glob("catalogue-*-*-[0-9].json"))
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return [run for run in runs if run["benchmark"] == "catalogue"]


def page(folder: Path) -> str:
    """The page in Markdown."""
    runs = stored(folder)
    seeds = sorted({run["seed"] for run in runs})
    parts = [TITLE, lost(runs), in_short(runs)]
    parts.append(PROTOCOL.format(seeds=len(seeds), steps=runs[0]["steps"], draws=DRAWS))
    for metric, title in METRIC_NAMES.items():
        parts.append(f"## {title if title.startswith('mAP') else title.capitalize()}\n")
        parts += [f"{scene.capitalize()}:\n\n{score_table(runs, scene, metric)}\n" for scene in SCENES]
    parts.append(f"## Cost\n\n{cost_table(runs)}\n")
    tried = sorted(folder.glob("catalogue-validation-*.json"))
    if tried:
        parts.append(f"## What was tried, on the validation images\n\n{search_table(tried)}\n")
    return "\n".join(parts)


TITLE = """# The embedded catalogue, measured

<!-- Written by python -m benchmarks catalogue page; do not edit. -->
"""

PROTOCOL = """## What was measured

The gallery is the 10,000 training images of the embedded catalogue (a sample of Fashion-MNIST), and the queries are its
1,000 query images. The images are used as they are ("clean") or each in a random pose ("posed"). Items are ranked by
the cosine of codes cut at the given length. An item is relevant if it has the query's class. Labels are used for
scoring only. Settings were chosen on the 1,000 validation images, never on the queries.

Figures are mean and standard deviation over {seeds} seeds, with {steps} steps of 256 images each. "full" is each
method's own length. Random features are drawn from an unordered model of the same network, views and steps, trained
with the spectral contrastive loss (SCL). They are averaged over {draws} draws, then over seeds. "SCL, aligned" is that
model after our alignment step. Pixels do not depend on the seed. Every run, with its commit and machine, is in
`benchmarks/catalogue/results/`. To repeat the runs:

    python -m benchmarks catalogue run && python -m benchmarks catalogue page
"""


def means(runs: list[dict[str, Any]], scene: str, key: str, metric: str = MAIN) -> dict[int, float]:
    """The mean of a method over the seeds, by length."""
    rows = [row for run in runs if run["scene"] == scene for row in run["methods"].get(key, [])]
    dims = sorted({int(row["dim"]) for row in rows})
    return {dim: mean(row[metric] for row in rows if row["dim"] == dim) for dim in dims}


def lost(runs: list[dict[str, Any]]) -> str:
    """List the lengths at which another code has a higher mean, for every metric."""
    lines, never = [], list(RIVALS.values())
    for metric, title in METRIC_NAMES.items():
        for scene in SCENES:
            ours, said = means(runs, scene, "ours", metric), []
            for key, name in RIVALS.items():
                theirs = means(runs, scene, key, metric)
                ahead = [str(dim) for dim in ours if dim in theirs and theirs[dim] > ours[dim]]
                said += [f"{name} at {', '.join(ahead)}"] if ahead else []
                never = [other for other in never if not (ahead and other == name)]
            if said:
                lines.append(entry(f"{scene.capitalize()}, {title}", said))
    if not lines:
        return "No other code is ahead of ours at any length, by any measure.\n"
    return (
        "Where ours loses: the measure, the code that is ahead, and the numbers of features. Pictures are as they are "
        '("clean") or in random poses ("posed"). "SCL, aligned" is a rival\'s network with our own last step.\n\n'
        + "\n".join(lines)
        + (f"\n\nNever ahead of ours, by any measure at any length: {', '.join(never)}.\n" if never else "\n")
    )


def in_short(runs: list[dict[str, Any]]) -> str:
    """Summarise the tables, favourable or not, in numbers computed from them."""

    def least_lead(scene: str, key: str, metric: str = MAIN) -> str:
        ours, theirs = means(runs, scene, "ours", metric), means(runs, scene, key, metric)
        lead, dim = min((ours[dim] - theirs[dim], dim) for dim in ours if dim in theirs)
        return f"{lead:+.3f} (at {dim} features)"

    lines = []
    for scene in SCENES:
        ours, random = means(runs, scene, "ours")[8], means(runs, scene, "random")[32]
        lines.append(
            f"- {scene.capitalize()}, mAP over what was found in the top 1,000: our first 8 features reach {ours:.3f}, "
            f"and 32 random features of the unordered model {random:.3f}. The smallest lead at any length:\n"
            f"    - over PCA of our encoder: {least_lead(scene, 'encoder-pca')}\n"
            f"    - over PCA of pixels: {least_lead(scene, 'pixel-pca')}\n"
            f"    - over the unordered model, once it is aligned: {least_lead(scene, 'aligned')}"
        )
        lines.append(
            f"- {scene.capitalize()}, top 100: the smallest lead is {least_lead(scene, 'pixel-pca', STRICT)} over PCA "
            f"of pixels and {least_lead(scene, 'encoder-pca', STRICT)} over PCA of our encoder."
        )
    return "What ours gains:\n\n" + "\n".join(lines) + "\n"


def score_table(runs: list[dict[str, Any]], scene: str, metric: str) -> str:
    """Methods by lengths: mean and spread over seeds."""
    lines = []
    for key, name in {"ours": NAMES["ours"], **RIVALS}.items():
        tables = [run["methods"][key] for run in runs if run["scene"] == scene and key in run["methods"]]
        cells = [over_seeds(tables, dim, metric) for dim in DIMS]
        full = int(tables[0][-1]["dim"])
        lines.append([name, *cells, f"{over_seeds(tables, full, metric)} ({full})"])
    return table(["code", *map(str, DIMS), "full"], lines)


def over_seeds(tables: list[list[ScoreRow]], dim: int, metric: str) -> str:
    """Mean and standard deviation of one entry."""
    values = [row[metric] for rows in tables for row in rows if row["dim"] == dim]
    if not values:
        return ""
    spread = stdev(values) if len(values) > 1 else 0.0
    return f"{mean(values):.3f}" + (f" ± {spread:.3f}" if spread > 5e-4 else "")


def cost_table(runs: list[dict[str, Any]]) -> str:
    """Seconds, memory and machine of every run."""
    lines = []
    for run in runs:
        memory = f"{run['peak_memory_mb']:,} MB"
        name = f"{run['scene']}, {OBJECTIVES[run['objective']]}"
        lines.append([name, *(str(run[key]) for key in ("seed", "steps")), f"{run['seconds']:.0f}", memory])
        lines[-1] += [run["device"], run["commit"]]
    return table(["run", "seed", "steps", "seconds", "peak memory", "device", "commit"], lines)


def search_table(files: list[Path]) -> str:
    """Everything that was tried, by the main metric."""
    lines = []
    for file in files:
        tried = json.loads(file.read_text())
        values = {row["dim"]: row[MAIN] for row in tried["rows"]}
        cells = [f"{values[dim]:.3f}" if dim in values else "" for dim in DIMS]
        lines.append([tried["name"], tried["scene"], *cells])
    return table(["settings", "catalogue", *map(str, DIMS)], lines)
