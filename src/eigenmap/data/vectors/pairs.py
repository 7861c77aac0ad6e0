"""Files of vector pairs: partner vectors, index pairs, labels and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenmap.core.errors import EigenmapError
from eigenmap.data.npy import open_npy
from eigenmap.data.vectors.qrels import read_lines
from eigenmap.data.vectors.vectors import Vectors, load_vectors


def load_pairs(source: object) -> Vectors | npt.NDArray[Any]:
    """Load partner vectors (floats), or a matrix of index pairs (whole numbers)."""
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".npy" and Path(source).is_file():
        stored = open_npy(Path(source))
        return np.array(stored) if stored.dtype.kind in "iu" else load_vectors(source)
    if not isinstance(source, str | Path | Vectors):
        try:
            array = np.asarray(source)
        except (TypeError, ValueError):
            array = None
        if array is not None and array.dtype.kind in "iu":
            return array
    return load_vectors(source, "the pairs")


def refuse_row_numbers(partners: Vectors, left: int, right: int) -> None:
    """Refuse what is meant as index pairs, of so many left and right rows, but is stored as floats."""
    if partners.n_features != 2:
        return
    for block in partners.blocks():
        if not ((block >= 0) & (block < [left, right]) & (block == np.floor(block))).all():
            return
    raise EigenmapError(
        f"{partners.name} contains pairs of row numbers stored as {partners.array.dtype}; store them as whole numbers, "
        "for example with array.astype(int). If they are partner vectors, use two_spaces=True."
    )


def load_labels(source: object) -> npt.NDArray[Any]:
    """Load one label per row from an .npy file, a text file with one label per line, or an array."""
    if not isinstance(source, str | Path):
        return np.asarray(source)
    path = Path(source)
    if path.suffix.lower() == ".npy":
        return np.array(open_npy(path))
    return np.array([line.strip() for line in read_lines(path, "labels")])


def load_weights(source: object) -> object:
    """Load weights of pairs from an .npy file; anything else is returned unchanged."""
    return np.array(open_npy(Path(source))) if isinstance(source, str | Path) else source
