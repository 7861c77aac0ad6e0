"""Time series of vectors: rows in temporal order, in one or several trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.npy import open_npy
from eigenmap.data.vectors.vectors import BLOCK, Floats, Vectors, load_vectors


class Trajectory(NamedTuple):
    """Rows start ... stop - 1 of some vectors, in temporal order."""

    vectors: Vectors
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of rows."""
        return self.stop - self.start


@dataclass(frozen=True)
class TimeSeries:
    """Trajectories, and the lag at which two rows form a pair.

    Attributes:
        trajectories: the trajectories; no pair crosses from one into the next.
        lag: distance between the two ends of a pair, in rows.
        reversible: whether pairs count in both directions of time (TICA) or forward only (VAMP).

    """

    trajectories: Sequence[Trajectory]
    lag: int
    reversible: bool = True

    @property
    def rows(self) -> int:
        """Number of rows in all trajectories."""
        return sum(one.length for one in self.trajectories)

    def pairs(self, lag: int) -> int:
        """Return the number of pairs of rows at some lag."""
        return sum(max(0, one.length - lag) for one in self.trajectories)

    def windows(self, ahead: int, size: int = BLOCK) -> Iterator[Floats]:
        """Yield all rows, `size` at a time, each block followed by up to `ahead` further rows of its trajectory."""
        for vectors, start, stop in self.trajectories:
            for first in range(start, stop, size):
                yield vectors.block(first, min(first + size + ahead, stop))


def load_trajectories(source: object, lengths: object = None, name: str = "the vectors") -> list[Trajectory]:
    """Load trajectories from one matrix or file, which `lengths` divides, or from a list of them.

    Args:
        source: anything that `load_vectors` takes, or a list or tuple of such sources with one trajectory each.
        lengths: number of rows of each trajectory in a single source, in memory or in an .npy file.
        name: name in error messages for vectors that do not come from a file.

    """
    if isinstance(source, list | tuple) and source and _is_source(source[0]):
        if lengths is not None:
            raise EigenmapError("trajectories divides a single file of vectors; leave it out if each file is one.")
        found = [load_vectors(one, f"{name}[{k}]") for k, one in enumerate(source)]
        for other in found[1:]:
            if other.n_features != found[0].n_features:
                raise EigenmapError(
                    f"{other.name} has {other.n_features:,} numbers per row and {found[0].name} has "
                    f"{found[0].n_features:,}, but all trajectories must have the same number."
                )
        return [Trajectory(one, 0, len(one)) for one in found]
    vectors = load_vectors(source, name)
    if lengths is None:
        return [Trajectory(vectors, 0, len(vectors))]
    ends = np.cumsum(_checked_lengths(lengths, vectors)).tolist()
    return [Trajectory(vectors, start, stop) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]


def checked_lag(lag: object, name: str = "lag") -> int:
    """Return a lag as a whole number of rows; raise if it is not one."""
    return whole_number(lag, name)


def _is_source(one: object) -> bool:
    """Tell whether this is a trajectory of its own, and not a number or a row of a matrix given as a list of lists."""
    is_row = isinstance(one, list | tuple) and bool(one) and np.isscalar(one[0]) and not isinstance(one[0], str)
    return isinstance(one, str) or not (np.isscalar(one) or is_row)


def _checked_lengths(lengths: object, vectors: Vectors) -> list[int]:
    given = np.asarray(open_npy(Path(lengths)) if isinstance(lengths, str | Path) else lengths)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given) or (given < 1).any():
        raise EigenmapError("trajectories must be the number of rows of each trajectory, whole numbers of at least 1.")
    if int(given.sum()) != len(vectors):
        raise EigenmapError(
            f"The lengths in trajectories add up to {int(given.sum()):,} rows, but {vectors.name} has {len(vectors):,}."
        )
    return [int(length) for length in given]
