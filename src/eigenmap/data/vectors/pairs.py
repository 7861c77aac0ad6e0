"""Files of vector pairs: partner vectors, index pairs, labels and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
