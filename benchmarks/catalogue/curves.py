"""Picture of README: retrieval by code length on the embedded catalogue, from the stored runs of every seed.

python -m benchmarks.catalogue.curves
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import DOCS
from benchmarks.catalogue import RESULTS
from benchmarks.catalogue.runs import MAIN
from benchmarks.catalogue.tables import stored
from eigenmap.demo.methods import NAMES
from eigenmap.figures.curves import Curve, retrieval_curves
from eigenmap.figures.style import png

TITLES = {"clean": "The catalogue as it is", "posed": "Every picture in a random pose"}
LONGEST = 256


def curves(runs: Sequence[dict[str, Any]], scene: str) -> list[Curve]:
    """Return mean and standard deviation over seeds, one curve per code of the demo."""
    drawn = []
    for key, name in NAMES.items():
        values: dict[int, list[float]] = {}
        for run in runs:
            for row in run["methods"].get(key, []) if run["scene"] == scene else []:
                values.setdefault(int(row["dim"]), []).append(row[MAIN])
        spread = {dim: stdev(seeds) if len(seeds) > 1 else 0.0 for dim, seeds in values.items()}
        drawn.append(Curve(key, name, {dim: mean(seeds) for dim, seeds in values.items()}, spread))
    return drawn


def draw(images: Path) -> None:
    """Draw both scenes side by side."""
    runs = stored(RESULTS)
    panels = {title: curves(runs, scene) for scene, title in TITLES.items()}
    figure = retrieval_curves(panels, "mAP, found in the top 1,000", LONGEST)
    images.mkdir(parents=True, exist_ok=True)
    (images / "demo.png").write_bytes(png(figure))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=DOCS / "images")
    draw(parser.parse_args(arguments).images)


if __name__ == "__main__":
    main()
