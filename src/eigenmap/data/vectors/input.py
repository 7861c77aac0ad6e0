"""Input of a vector model: rows of numbers of one length."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.vectors import Vectors, load_vectors


@dataclass(frozen=True)
class VectorInput:
    """Vectors of `length` numbers; with `unit`, the network scales them to norm 1 first."""

    length: int
    unit: bool = True

    def read(self, vectors: object) -> Tensor:
        """Read and check rows from any source into memory."""
        shape: tuple[int, ...] = () if isinstance(vectors, Vectors) else getattr(vectors, "shape", ())
        if len(shape) == 2 and not shape[0]:
            return torch.empty(0, self.length)  # an empty matrix is allowed and has no codes
        return torch.from_numpy(self.open(vectors).whole())

    def open(self, vectors: object) -> Vectors:
        """Open and check vectors, leaving rows in a file on disk."""
        found = load_vectors(vectors)
        if found.n_features != self.length:
            raise EigenmapError(
                f"This model takes vectors of {self.length:,} numbers, not of {found.n_features:,} as in {found.name}."
            )
        return found

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the rows unchanged; the network scales them."""
        return rows
