"""Comparison of the cosine with other measures: a constant in every code, Euclidean distance, inner product.

    python -m benchmarks.vision.similarity cifar10=CODES.npz coco=CODES.npz [--queries 1000] [--json FILE]

CODES.npz is written by `retrieval.py --codes`. Every measure is a cosine of longer vectors: with a constant c appended
to all codes (in units of their root mean square norm) it lies between the cosine (c = 0) and the Euclidean distance (c
large), and with sqrt(M^2 - |code|^2) appended only to the gallery it ranks by inner product. "Constant function"
appends the first eigenfunction of the kernel, the constant 1 with eigenvalue 1, so c is the size of a feature before
its weight, at any length. Each is measured at several exponents t of the weights mu^t. Labels are used only for
scoring; nothing is chosen by this.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import harness
from benchmarks.common.pages import table
from benchmarks.vision import RESULTS
from eigenmap.evaluation.retrieval import retrieval

EXPONENTS = (0.0, 1.0, 2.0, 4.0, 8.0)
LENGTHS = (2, 4, 8, 16, 64, 256)
CONSTANTS = {"cosine": 0.0, "constant 1": 1.0, "Euclidean": 30.0}
INNER, EIGENFUNCTION = "inner product", "constant function"
MEASURES = (*CONSTANTS, EIGENFUNCTION, INNER)
TOP = (10, 100, 1000)


def load(path: Path, queries: int) -> dict[str, Tensor]:
    """Codes without weights, labels and eigenvalues of a file."""
    with np.load(path, allow_pickle=False) as file:
        parts = {name: torch.from_numpy(np.asarray(file[name])) for name in file.files}
    mu = parts["eigenvalues"].clamp(min=1e-12)
    weights = mu ** float(parts["t"]) if "t" in parts else torch.ones_like(mu)
    codes = {name: (parts[name].double() / weights).float() for name in ("gallery", "queries")}
    labels = {name: parts[name] for name in ("gallery_labels", "query_labels")}
    return {
        "gallery": codes["gallery"],
        "gallery_labels": labels["gallery_labels"],
        "queries": codes["queries"][:queries],
        "query_labels": labels["query_labels"][:queries],
        "mu": mu.float(),
    }


def longer(queries: Tensor, gallery: Tensor, measure: str, feature: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors whose cosines rank as the measure does; `feature` is the size of a feature before its weight."""
    squares = gallery.square().sum(1, keepdim=True)
    if measure == INNER:
        return _joined(queries, torch.zeros(len(queries), 1)), _joined(gallery, (squares.max() - squares).sqrt())
    c = feature if measure == EIGENFUNCTION else CONSTANTS[measure] * squares.mean().sqrt()
    return tuple(_joined(codes, c.expand(len(codes), 1)) for codes in (queries, gallery))  # type: ignore[return-value]


def _joined(codes: Tensor, last: Tensor) -> Tensor:
    return torch.cat([codes, last], dim=1)


def study(parts: dict[str, Tensor]) -> Iterator[dict[str, Any]]:
    """Scores of every measure, exponent and length."""
    truth = parts["query_labels"], parts["gallery_labels"]
    feature = parts["gallery"].square().mean(0).median().sqrt()
    for t in EXPONENTS:
        queries, gallery = (parts[name] * parts["mu"] ** t for name in ("queries", "gallery"))
        for dim in (dim for dim in LENGTHS if dim <= gallery.shape[1]):
            for measure in MEASURES:
                both = longer(queries[:, :dim], gallery[:, :dim], measure, feature)
                (row,) = retrieval(*both, *truth, [dim + 1], TOP)
                yield {"measure": measure, "t": t, **row, "dim": dim}


def pages(name: str, rows: list[dict[str, Any]], metric: str) -> str:
    """One metric of one set: one row per measure and exponent, one column per length."""
    dims = sorted({row["dim"] for row in rows})
    found = {(row["measure"], row["t"], row["dim"]): row[metric] for row in rows}
    lines = [
        [f"{measure}, t = {t:g}", *(f"{found[measure, t, dim]:.3f}" for dim in dims)]
        for measure in MEASURES
        for t in EXPONENTS
    ]
    return f"{name}, {metric}\n\n{table(['', *map(str, dims)], lines)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="NAME=CODES.npz")
    parser.add_argument("--queries", type=int, default=1000, help="number of queries, from the first")
    parser.add_argument("--json", type=Path, default=RESULTS / "similarity.json")
    given = parser.parse_args()
    result: dict[str, Any] = {"benchmark": "similarity", "queries": given.queries, **harness.environment(), "sets": {}}
    for word in given.sets:
        name, _, path = word.partition("=")
        result["sets"][name] = list(study(load(Path(path), given.queries)))
        for metric in ("precision@10", "map_over_found@1000"):
            print(pages(name, result["sets"][name], metric), flush=True)
    harness.write(given.json, result)


if __name__ == "__main__":
    main()
