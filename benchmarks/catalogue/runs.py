"""The embedded catalogue over several seeds: our ordered codes, their rivals, and the page that shows them.

    python -m benchmarks.catalogue.runs run                 # three seeds, clean and posed, ordered and unordered
    python -m benchmarks.catalogue.runs run --seeds 0       # one seed
    python -m benchmarks.catalogue.runs publish             # docs/catalogue.md, and the rival of `eigenmap demo`
    python -m benchmarks.catalogue.runs search              # what was tried on the validation images

Each training run is a process of its own and writes one file into results/; a run whose file is there is not done
again (remove the file to repeat it). 2 to 4 minutes a run on two cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import ROOT
from benchmarks.catalogue import RESULTS
from benchmarks.common import harness
from eigenmap.data.images import catalogue
from eigenmap.demo.methods import DRAWS, METRIC_NAMES, NAMES, TOP, compare, compare_random
from eigenmap.demo.study import RECIPE, SCENES, STEPS
from eigenmap.evaluation.retrieval import ScoreRow, lengths, retrieval
from eigenmap.fitting.images import fit_images
from eigenmap.training.provenance import peak_memory_mb

PAGE = ROOT / "docs" / "catalogue.md"
RIVAL = ROOT / "src" / "eigenmap" / "demo" / "rival.json"
OBJECTIVES = {"nested": "ordered", "scl": "unordered"}
PROTOCOL = (
    "1,000 query images against 10,000 training images, cosine of code prefixes; relevant = same class; "
    "settings chosen on 1,000 validation images"
)
DIMS = (2, 4, 8, 16, 32, 64, 128)
MAIN, STRICT = "map_over_found@1000", "map_over_found@100"

CANDIDATES: dict[str, dict[str, Any]] = {
    "nested moments (chosen)": {},
    "rate 0.002": {"lr": 0.002},
    "weak views": {"views": "weak"},
    "weak views, rate 0.002": {"views": "weak", "lr": 0.002},
    "one and a fifth times the steps": {"steps": 1.2},
}
"""What `search` tries: settings that differ from the recipe; `steps` is a factor."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="train and measure on the queries")
    run.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    run.add_argument("--steps", type=int, default=STEPS)
    verbs.add_parser("publish", help="write docs/catalogue.md and the demo's rival")
    verbs.add_parser("search", help="try settings on the validation images")
    arguments = parser.parse_args()
    if arguments.verb == "run":
        for seed in arguments.seeds:
            for objective in OBJECTIVES:
                for scene in SCENES:
                    apart(measure, scene, objective, seed, arguments.steps)
    elif arguments.verb == "search":
        for scene in SCENES:
            for name in CANDIDATES:
                apart(validate, scene, name)
    else:
        publish()


def apart(task: Any, *arguments: Any) -> None:
    """Do a task in a process of its own, so that its peak memory is its own."""
    worker = multiprocessing.get_context("spawn").Process(target=task, args=arguments)
    worker.start()
    worker.join()
    if worker.exitcode:
        sys.exit(f"{task.__name__}{arguments} failed")


def measure(scene: str, objective: str, seed: int, steps: int) -> None:
    """Train one model and measure its codes on the queries."""
    path = RESULTS / f"catalogue-{scene}-{objective}-{seed}.json"
    if path.exists():
        return
    gallery, queries = (catalogue.load(split, scene == "posed") for split in ("train", "query"))
    began = time.perf_counter()
    model = fit_images(gallery, recipe=RECIPE, objective=objective, steps=steps, seed=seed)
    seconds = time.perf_counter() - began
    truth = (queries.labels.matrix, gallery.labels.matrix)
    if objective == "scl":
        methods = {"random": compare_random(model, gallery, queries).rows}
        codes = [model.encode(images.pixels, normalize=False) for images in (queries, gallery)]
        methods["aligned"] = retrieval(*codes, *truth, lengths(model.n_components), TOP)
    else:
        methods = {key: method.rows for key, method in compare(model, gallery, queries).items()}
    result = {
        "benchmark": "catalogue",
        "protocol": PROTOCOL,
        "command": f"python -m benchmarks.catalogue.runs run --seeds {seed} --steps {steps}",
        **harness.environment(),
        "scene": scene,
        "objective": objective,
        "seed": seed,
        "steps": steps,
        "seconds": seconds,
        "peak_memory_mb": peak_memory_mb(),
        "recipe": model.training["recipe"],
        "code": {"source": model.source, "t": model.alignment.t, "ridge": model.alignment.ridge},
        "methods": methods,
    }
    harness.write(path, result)
    key = "random" if objective == "scl" else "ours"
    print(path.name, *(f"{row[MAIN]:.3f}" for row in methods[key]), f"{seconds:.0f} s", flush=True)


def validate(scene: str, name: str) -> None:
    """Train with other settings and measure on the validation images, which is what settings are chosen by."""
    path = RESULTS / f"catalogue-validation-{scene}-{slug(name)}.json"
    if path.exists():
        return
    gallery, validation = (catalogue.load(split, scene == "posed") for split in ("train", "validation"))
    settings = dict(CANDIDATES[name])
    steps = round(STEPS * settings.pop("steps", 1.0))
    model = fit_images(gallery, recipe=RECIPE, steps=steps, seed=0, **settings)
    codes = [model.encode(images.pixels, normalize=False) for images in (validation, gallery)]
    rows = retrieval(*codes, validation.labels.matrix, gallery.labels.matrix, lengths(model.n_components), TOP)
    about = {"scene": scene, "name": name, "settings": settings, "steps": steps, "source": model.source}
    harness.write(path, {"benchmark": "catalogue-validation", **harness.environment(), **about, "rows": rows})
    print(path.name, *(f"{row[MAIN]:.3f}" for row in rows), flush=True)


def publish() -> None:
    """Write the page and the demo's rival from what is in results/."""
    runs = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("catalogue-*-*-[0-9].json"))]
    runs = [run for run in runs if run["benchmark"] == "catalogue"]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(runs), encoding="utf-8")
    harness.write(RIVAL, rival(runs))
    print(f"{PAGE} and {RIVAL}")


def rival(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The unordered model of the first seed, as the demo shows it."""
    chosen = {run["scene"]: run for run in runs if run["objective"] == "scl" and run["seed"] == 0}
    first = chosen["clean"]
    about = {name: first[name] for name in ("command", "commit", "date", "device", "torch", "seed", "steps")}
    seconds = {f"seconds ({scene})": run["seconds"] for scene, run in chosen.items()}
    rows = {scene: run["methods"]["random"] for scene, run in chosen.items()}
    return {"objective": "scl", **about, "draws": DRAWS, **seconds, "scenes": rows}


def page(runs: list[dict[str, Any]]) -> str:
    """The page in Markdown."""
    seeds = sorted({run["seed"] for run in runs})
    parts = [INTRODUCTION.format(seeds=len(seeds), steps=runs[0]["steps"], draws=DRAWS)]
    parts.append(in_short(runs))
    for metric, title in METRIC_NAMES.items():
        parts.append(f"## {title if title.startswith('mAP') else title.capitalize()}\n")
        parts += [f"{scene.capitalize()}:\n\n{score_table(runs, scene, metric)}\n" for scene in SCENES]
    parts.append(f"## Cost\n\n{cost_table(runs)}\n")
    tried = sorted(RESULTS.glob("catalogue-validation-*.json"))
    if tried:
        parts.append(f"## What was tried, on the validation images\n\n{search_table(tried)}\n")
    return "\n".join(parts)


INTRODUCTION = """# The embedded catalogue, measured

<!-- Written by benchmarks/catalogue/runs.py publish; do not edit. -->

10,000 training images of the embedded catalogue (a sample of Fashion-MNIST) as gallery, its 1,000 query images as
queries, as they are ("clean") and each in a random pose ("posed"). Items are ranked by the cosine of codes cut at the
given length; relevant is what has the query's class. Labels are used for scoring only. Settings were chosen on the
1,000 validation images, never on the queries.

Mean and standard deviation over {seeds} seeds, {steps} steps of 256 images each; "full" is each method's own length.
Random features are drawn from an unordered model of the same network, views and steps, trained with the spectral
contrastive loss (SCL): mean over {draws} draws, then over seeds. "SCL, aligned" is that model after our alignment step.
Pixels do not depend on the seed. Every run, with its commit and machine, is in `benchmarks/catalogue/results/`. To
repeat them:

    python -m benchmarks.catalogue.runs run && python -m benchmarks.catalogue.runs publish
"""


def in_short(runs: list[dict[str, Any]]) -> str:
    """What the tables say, favourable or not, in numbers that are computed from them."""

    def table(scene: str, key: str, metric: str = MAIN) -> dict[int, float]:
        rows = [row for run in runs if run["scene"] == scene for row in run["methods"].get(key, [])]
        dims = sorted({int(row["dim"]) for row in rows})
        return {dim: mean(row[metric] for row in rows if row["dim"] == dim) for dim in dims}

    def least_lead(scene: str, key: str, metric: str = MAIN) -> str:
        ours, theirs = table(scene, "ours", metric), table(scene, key, metric)
        lead, dim = min((ours[dim] - theirs[dim], dim) for dim in ours if dim in theirs)
        return f"{lead:+.3f} (at {dim} features)"

    lines = []
    for scene in SCENES:
        ours, random = table(scene, "ours")[8], table(scene, "random")[32]
        lines.append(
            f"- {scene.capitalize()}, mAP over what was found in the top 1,000: our first 8 features reach {ours:.3f}, "
            f"32 random features of the unordered model {random:.3f}. The least lead of our code at any common length "
            f"is {least_lead(scene, 'encoder-pca')} over PCA of our encoder, {least_lead(scene, 'pixel-pca')} over PCA "
            f"of pixels, and {least_lead(scene, 'aligned')} over the unordered model once it is aligned."
        )
        lines.append(
            f"- {scene.capitalize()}, top 100: the least lead is {least_lead(scene, 'pixel-pca', STRICT)} over PCA of "
            f"pixels and {least_lead(scene, 'encoder-pca', STRICT)} over PCA of our encoder."
        )
    return "In short:\n\n" + "\n".join(lines) + "\n"


def score_table(runs: list[dict[str, Any]], scene: str, metric: str) -> str:
    """Methods by lengths: mean and spread over seeds."""
    lines = [["code", *map(str, DIMS), "full"]]
    for key, name in {**NAMES, "aligned": "SCL, aligned"}.items():
        tables = [run["methods"][key] for run in runs if run["scene"] == scene and key in run["methods"]]
        cells = [over_seeds(tables, dim, metric) for dim in DIMS]
        full = int(tables[0][-1]["dim"])
        lines.append([name, *cells, f"{over_seeds(tables, full, metric)} ({full})"])
    return markdown(lines)


def over_seeds(tables: list[list[ScoreRow]], dim: int, metric: str) -> str:
    """Mean and standard deviation of one entry."""
    values = [row[metric] for rows in tables for row in rows if row["dim"] == dim]
    if not values:
        return ""
    spread = stdev(values) if len(values) > 1 else 0.0
    return f"{mean(values):.3f}" + (f" ± {spread:.3f}" if spread > 5e-4 else "")


def cost_table(runs: list[dict[str, Any]]) -> str:
    """Seconds and memory of every run, with where it ran."""
    lines = [["run", "seed", "steps", "seconds", "peak memory", "device", "commit"]]
    for run in runs:
        memory = f"{run['peak_memory_mb']:,} MB"
        name = f"{run['scene']}, {OBJECTIVES[run['objective']]}"
        lines.append([name, *(str(run[key]) for key in ("seed", "steps")), f"{run['seconds']:.0f}", memory])
        lines[-1] += [run["device"], run["commit"]]
    return markdown(lines)


def search_table(files: list[Path]) -> str:
    """Everything that was tried, by the main metric."""
    lines = [["settings", "catalogue", *map(str, DIMS)]]
    for file in files:
        tried = json.loads(file.read_text())
        values = {row["dim"]: row[MAIN] for row in tried["rows"]}
        cells = [f"{values[dim]:.3f}" if dim in values else "" for dim in DIMS]
        lines.append([tried["name"], tried["scene"], *cells])
    return markdown(lines)


def markdown(lines: list[list[str]]) -> str:
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], f"|{' --- |' * len(lines[0])}", *rows[1:]])


def slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


if __name__ == "__main__":
    main()
