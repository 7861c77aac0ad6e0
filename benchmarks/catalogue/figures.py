"""Figures of docs/figures.md from a model of the catalogue, such as the one that `eigenmap demo --ready` writes.

    python -m benchmarks.catalogue.figures runs/ready/model

The numbers behind the figures are written to figures-catalogue.json, with machine and commit.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import DOCS
from benchmarks.catalogue import RESULTS
from benchmarks.common import harness
from benchmarks.common.pages import write_figure
from eigenmap.data.images import catalogue
from eigenmap.figures.answers import find_answers
from eigenmap.figures.excitation import excited_by, make_exciting
from eigenmap.figures.study import Study, draw_figures, figure_data, read_run

SHOWN = (0, 4, 5, 8)
"""Queries of the catalogue: the first t-shirt, coat, sandal and bag."""


def draw_catalogue(run: Path, images: Path, folder: Path, steps: int) -> None:
    """Draw the images that excite the features of a run, and the results of queries."""
    trained = read_run(run)
    gallery, queries = catalogue.load("train"), catalogue.load("query")
    study = Study(
        trained,
        exciting=excited_by(trained.model, gallery),
        answers=find_answers(trained.model, gallery, queries.subset(SHOWN)),
        made=make_exciting(trained.model, steps=steps),
    )
    for name, figure in draw_figures(study, ("exciting", "queries", "optimised")).items():
        write_figure(figure, images / f"{name}.png")
    about = trained.model.training
    result = {
        "benchmark": "figures",
        "protocol": "ordered features of 10,000 training images; the first query of four classes among them; "
        f"images from noise in {steps:,} steps of Adam",
        "command": f"python -m benchmarks.catalogue.figures RUN --steps {steps}",
        **harness.environment(),
        "model": {name: about[name] for name in ("steps", "seed", "images", "device")},
        **{name: value for name, value in figure_data(study).items() if name in ("exciting", "optimised")},
    }
    harness.write(folder / "figures-catalogue.json", result)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=1000, help="steps of each synthesised image")
    parser.add_argument("--images", type=Path, default=DOCS / "images")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="folder for the numbers")
    given = parser.parse_args(arguments)
    draw_catalogue(given.run, given.images, given.folder, given.steps)


if __name__ == "__main__":
    main()
