"""One run on the embedded catalogue: our ordered codes and their rivals, or another setting on its validation images.

    python -m benchmarks.catalogue.runs run --scene clean --objective nested --seed 0
    python -m benchmarks.catalogue.runs validate --scene clean --candidate "weak views"

A run takes 2 to 4 minutes on two cores and writes one file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.catalogue import RESULTS
from benchmarks.common import harness
from eigenmap.data.images import catalogue
from eigenmap.demo.methods import TOP, compare, compare_random
from eigenmap.demo.study import RECIPE, SCENES, STEPS
from eigenmap.evaluation.retrieval import lengths, retrieval
from eigenmap.fitting.images import fit_images
from eigenmap.training.provenance import peak_memory_mb

OBJECTIVES = {"nested": "ordered", "scl": "unordered"}
PROTOCOL = (
    "1,000 query images against 10,000 training images, cosine of code prefixes; relevant = same class; "
    "settings chosen on 1,000 validation images"
)
MAIN = "map_over_found@1000"

CANDIDATES: dict[str, dict[str, Any]] = {
    "nested moments (chosen)": {},
    "rate 0.002": {"lr": 0.002},
    "weak views": {"views": "weak"},
    "weak views, rate 0.002": {"views": "weak", "lr": 0.002},
    "one and a fifth times the steps": {"steps": 1.2},
}
"""Settings tried by `validate` that differ from the recipe; `steps` is a factor."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("run", help="train and measure on the queries")
    one.add_argument("--objective", choices=OBJECTIVES, required=True)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--steps", type=int, default=STEPS)
    other = verbs.add_parser("validate", help="try a setting on the validation images")
    other.add_argument("--candidate", choices=CANDIDATES, required=True)
    for verb in (one, other):
        verb.add_argument("--scene", choices=SCENES, required=True)
        verb.add_argument("--folder", type=Path, default=RESULTS, help="folder of results")
    given = parser.parse_args()
    if given.verb == "run":
        measure(given.folder, given.scene, given.objective, given.seed, given.steps)
    else:
        validate(given.folder, given.scene, given.candidate)


def measure(folder: Path, scene: str, objective: str, seed: int, steps: int) -> None:
    """Train one model and measure its codes on the queries."""
    path = folder / f"catalogue-{scene}-{objective}-{seed}.json"
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
        "command": f"python -m benchmarks catalogue run {path.stem}",
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


def validate(folder: Path, scene: str, name: str) -> None:
    """Train with other settings and measure on the validation images, on which settings are chosen."""
    path = folder / f"catalogue-validation-{scene}-{slug(name)}.json"
    gallery, validation = (catalogue.load(split, scene == "posed") for split in ("train", "validation"))
    settings = dict(CANDIDATES[name])
    steps = round(STEPS * settings.pop("steps", 1.0))
    model = fit_images(gallery, recipe=RECIPE, steps=steps, seed=0, **settings)
    codes = [model.encode(images.pixels, normalize=False) for images in (validation, gallery)]
    rows = retrieval(*codes, validation.labels.matrix, gallery.labels.matrix, lengths(model.n_components), TOP)
    about = {"scene": scene, "name": name, "settings": settings, "steps": steps, "source": model.source}
    harness.write(path, {"benchmark": "catalogue-validation", **harness.environment(), **about, "rows": rows})
    print(path.name, *(f"{row[MAIN]:.3f}" for row in rows), flush=True)


def slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


if __name__ == "__main__":
    main()
