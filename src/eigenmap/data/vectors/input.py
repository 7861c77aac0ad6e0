"""What a model of vectors takes: rows of numbers of one length."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.vectors import Vectors, load_vectors


@dataclass(frozen=True)
class VectorInput:
    """Vectors of `length` numbers; `unit` says whether the network scales them to one norm first."""

    length: int
    unit: bool = True

    def read(self, vectors: object) -> Tensor:
        """Checked rows in memory, from whatever a caller has."""
        if not isinstance(vectors, Vectors) and len(getattr(vectors, "shape", ())) == 2 and not len(vectors):  # type: ignore[arg-type]
            return torch.empty(0, self.length)  # no vectors have no codes, and that is no error
        return torch.from_numpy(self.open(vectors).block(0, 1 << 62))

    def open(self, vectors: object) -> Vectors:
        """The same, left where it is."""
        found = load_vectors(vectors)
        if found.n_features != self.length:
            raise EigenmapError(
                f"This model takes vectors of {self.length:,} numbers, and those of {found.name} have "
                f"{found.n_features:,}."
            )
        return found

    def __call__(self, rows: Tensor) -> Tensor:
        """The rows as they are: the network itself scales them."""
        return rows
