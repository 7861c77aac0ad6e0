"""Node data sets of the Open Graph Benchmark as downloaded, read without the package `ogb`."""

from __future__ import annotations

import gzip
import warnings
import zlib
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.graph import Graph

Number = TypeVar("Number", bound=np.generic)
EXPECTED = (
    "raw/edge.csv.gz, raw/node-feat.csv.gz, raw/node-label.csv.gz and split/NAME/train.csv.gz, valid.csv.gz, "
    "test.csv.gz"
)


def is_ogb_folder(source: str) -> bool:
    """Tell whether a folder looks like an OGB download, such as dataset/ogbn_products."""
    return (Path(source) / "raw" / "edge.csv.gz").exists() or (Path(source) / "raw" / "node-feat.csv.gz").exists()


def read_ogb_folder(folder: Path) -> Graph:
    """Read nodes, edges, classes and the official split; an edge counts in both directions."""
    x = _table(folder, "raw/node-feat.csv.gz", np.float32)
    edges = _table(folder, "raw/edge.csv.gz", np.int64)
    y = _table(folder, "raw/node-label.csv.gz", np.float64)[:, 0]
    split = next((each for each in sorted((folder / "split").glob("*")) if each.is_dir()), None)
    if split is None:
        raise EigenmapError(f"{folder} has no split: it must contain {EXPECTED}.")
    parts = {
        name: _table(folder, f"split/{split.name}/{file}.csv.gz", np.int64)[:, 0]
        for name, file in (("train", "train"), ("validation", "valid"), ("test", "test"))
    }
    _check(folder, x, edges, y, parts)
    y = np.where(np.isnan(y), -1, y).astype(np.int64)
    both = torch.from_numpy(np.concatenate([edges, edges[:, ::-1]]).T.copy())
    splits = {name: torch.from_numpy(rows) for name, rows in parts.items()}
    return Graph(torch.from_numpy(x), both, y=torch.from_numpy(y), splits=splits)


def _check(
    folder: Path,
    x: npt.NDArray[np.float32],
    edges: npt.NDArray[np.int64],
    y: npt.NDArray[np.float64],
    parts: dict[str, npt.NDArray[np.int64]],
) -> None:
    if edges.shape[1] != 2 or len(y) != len(x):
        raise EigenmapError(f"The files in {folder / 'raw'} do not match each other: extract the set again.")
    for rows in (edges, *parts.values()):
        if rows.size == 0 or rows.min() < 0 or rows.max() >= len(x):
            raise EigenmapError(f"A file in {folder} names nodes outside 0 to {len(x) - 1:,}: extract the set again.")


def _table(folder: Path, inside: str, kind: type[Number]) -> npt.NDArray[Number]:
    file = folder / inside
    if not file.is_file():
        raise EigenmapError(f"{file} does not exist: {folder} must contain {EXPECTED}.")
    try:
        with gzip.open(file, "rt", encoding="ascii") as lines, warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # NumPy only warns about an empty table
            return np.loadtxt(lines, delimiter=",", dtype=kind, ndmin=2)
    except (OSError, ValueError, EOFError, zlib.error, UserWarning) as error:
        raise EigenmapError(f"{file} is damaged ({error}): extract the set again.") from error
