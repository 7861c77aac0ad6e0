"""The figures in docs/figures.md.

    python -m benchmarks.catalogue.figures catalogue runs/demo/clean    # from a run of `eigenmap demo`
    python -m benchmarks.catalogue.figures cifar10                      # from results of the study vision

What was looked at, and on which machine and commit, goes into benchmarks/catalogue/results/figures-catalogue.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import DOCS, vision
from benchmarks.catalogue import RESULTS
from benchmarks.common import harness
from eigenmap.data.images import catalogue
from eigenmap.figures.answers import find_answers
from eigenmap.figures.curves import length_curves
from eigenmap.figures.excitation import excited_by, make_exciting
from eigenmap.figures.scores import Scores, panels
from eigenmap.figures.study import Study, draw_figures, figure_data, read_run
from eigenmap.figures.style import png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = DOCS / "images"
SHOWN = (0, 4, 5, 8)
"""Queries of the catalogue: the first t-shirt, coat, sandal and bag."""


@dataclass(frozen=True)
class Line:
    """One curve: which results, and which of the codes in them."""

    name: str
    method: str
    rate: float
    code: str


CIFAR10 = (
    Line("SCL, aligned (our default)", "scl", 0.75, "projector aligned"),
    Line("SCL, random features", "scl", 0.75, "projector random features"),
    Line("SCL, PCA of the encoder", "scl", 0.75, "encoder PCA centred"),
    Line("Matryoshka-SCL, own order", "matryoshka-scl", 0.75, "projector own order"),
    Line("the paper's objective, own order", "paper", 0.6, "projector own order"),
)


def from_catalogue(run: Path, images: Path, steps: int) -> None:
    """Draw what the features of a run answer to, and what queries find."""
    trained = read_run(run)
    gallery, queries = catalogue.load("train"), catalogue.load("query")
    study = Study(
        trained,
        exciting=excited_by(trained.model, gallery),
        answers=find_answers(trained.model, gallery, queries.subset(SHOWN)),
        made=make_exciting(trained.model, steps=steps),
    )
    for name, figure in draw_figures(study, ("exciting", "queries", "optimised")).items():
        write(figure, images / f"{name}.png")
    about = trained.model.training
    result = {
        "benchmark": "figures",
        "protocol": "ordered features of 10,000 training images; the first query of four classes among them; "
        f"images from noise in {steps:,} steps of Adam",
        "command": f"python -m benchmarks.catalogue.figures catalogue RUN --steps {steps}",
        **harness.environment(),
        "model": {name: about[name] for name in ("steps", "seed", "images", "device")},
        **{name: value for name, value in figure_data(study).items() if name in ("exciting", "optimised")},
    }
    harness.write(RESULTS / "figures-catalogue.json", result)


def from_results(images: Path, metric: str = "map_over_found@1000") -> None:
    """Draw quality against length on CIFAR-10, mean and deviation over seeds."""
    write(length_curves(panels(cifar10_scores(), metric)), images / "cifar10.png")


def cifar10_scores(epochs: int = 50) -> list[Scores]:
    """The stored results of every seed, one series a line."""
    found = []
    for line in CIFAR10:
        pattern = f"retrieval-cifar10-{line.method}-lr{line.rate:g}-e{epochs}-k2048-b512-s?.json"
        for path in sorted(vision.RESULTS.glob(pattern)):
            rows = json.loads(path.read_text(encoding="utf-8"))["retrieval"][line.code]
            found.append(Scores(line.name, rows, path))
    return found


def write(figure: Figure, path: Path) -> None:
    """Write a small PNG, and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(figure, dpi=100))
    print(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    run = kinds.add_parser("catalogue")
    run.add_argument("run", type=Path)
    run.add_argument("--steps", type=int, default=1000)
    for each in (run, kinds.add_parser("cifar10")):
        each.add_argument("--images", type=Path, default=IMAGES)
    given = parser.parse_args(arguments)
    if given.kind == "catalogue":
        from_catalogue(given.run, given.images, given.steps)
    else:
        from_results(given.images)


if __name__ == "__main__":
    main()
