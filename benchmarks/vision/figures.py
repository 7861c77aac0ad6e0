"""Figure of docs/figures.md: quality against length on CIFAR-10, from stored results.

python -m benchmarks.vision.figures
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.pages import write_figure
from benchmarks.vision import RESULTS
from eigenmap.figures.curves import length_curves
from eigenmap.figures.scores import Scores, panels


@dataclass(frozen=True)
class Line:
    """One curve: results, and one kind of code in them."""

    name: str
    method: str
    rate: float
    code: str


CIFAR10 = (
    Line("SCL, aligned (ours)", "scl", 0.75, "projector aligned"),
    Line("SCL, random features", "scl", 0.75, "projector random features"),
    Line("SCL, PCA of the encoder", "scl", 0.75, "encoder PCA centred"),
    Line("Matryoshka-SCL, own order", "matryoshka-scl", 0.75, "projector own order"),
    Line("the paper's objective, own order", "paper", 0.6, "projector own order"),
)


def draw_figure(images: Path, metric: str = "map_over_found@1000") -> None:
    """Draw quality against length on CIFAR-10, mean and deviation over seeds."""
    write_figure(length_curves(panels(cifar10_scores(), metric)), images / "cifar10.png")


def cifar10_scores(epochs: int = 50) -> list[Scores]:
    """Return the stored results of every seed, one series per line."""
    found = []
    for line in CIFAR10:
        pattern = f"retrieval-cifar10-{line.method}-lr{line.rate:g}-e{epochs}-k2048-b512-s?.json"
        for path in sorted(RESULTS.glob(pattern)):
            rows = json.loads(path.read_text(encoding="utf-8"))["retrieval"][line.code]
            found.append(Scores(line.name, rows, path))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=DOCS / "images")
    draw_figure(parser.parse_args(arguments).images)


if __name__ == "__main__":
    main()
