"""Batches of pairs of vectors, as row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.batch import Batch, check_batch_size
from eigenmap.core.devices import moved
from eigenmap.data.vectors.vectors import Vectors
from eigenmap.relations.pairs import Part, Rows


class PairRows:
    """Rows of both sides of all parts, numbered consecutively: left sides first, then right sides.

    A set of vectors that is on both sides is numbered twice, which has no effect.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        left, right = ({id(side): side for side in sides} for sides in zip(*map(_sides, parts), strict=True))
        self.sources: list[Vectors] = [*left.values(), *right.values()]
        self.first = np.concatenate([[0], np.cumsum([len(source) for source in self.sources])])
        self.n_left = int(self.first[len(left)])
        self._places = [
            dict(zip(left, self.first, strict=False)),
            dict(zip(right, self.first[len(left) :], strict=False)),
        ]
        self._kept: tuple[Tensor, Tensor] | None = None

    @property
    def n_bytes(self) -> int:
        """Size of all rows as float32."""
        return sum(4 * source.array.size for source in self.sources)

    def keep_on(self, device: torch.device) -> None:
        """Copy all rows to a device, so that a batch is not gathered on the CPU first."""
        count = len(self._places[0])
        left, right = (
            torch.cat([torch.from_numpy(block).to(device).float() for source in side for block in source.blocks()])
            for side in (self.sources[:count], self.sources[count:])
        )
        self._kept = left, right

    def numbers(self, part: Part) -> tuple[Rows, Rows]:
        """Return the numbers of the left and right rows of the pairs of a part, one of those given at first."""
        first, first_right = (places[id(side)] for places, side in zip(self._places, _sides(part), strict=True))
        return part.i + first, part.j + first_right

    def __call__(self, numbers: Tensor) -> Tensor:
        """Return rows by number on the device of the numbers; all must be of one side."""
        if self._kept is not None and numbers.device == self._kept[0].device:
            right = bool(numbers[0] >= self.n_left)
            return self._kept[right][numbers - self.n_left if right else numbers]
        return moved(self._gathered(numbers.cpu()), numbers.device)

    def _gathered(self, numbers: Tensor) -> Tensor:
        wanted = numbers.numpy()
        source = np.searchsorted(self.first, wanted, side="right") - 1
        rows: Tensor | None = None
        for which in np.unique(source):
            where = np.flatnonzero(source == which)
            found = torch.from_numpy(self.sources[which].take(wanted[where] - self.first[which]))
            if len(where) == len(wanted):
                return found
            rows = torch.empty(len(wanted), found.shape[1], dtype=found.dtype) if rows is None else rows
            rows[torch.from_numpy(where)] = found.to(rows.dtype)
        assert rows is not None
        return rows

    def __deepcopy__(self, memo: object) -> PairRows:
        return self


class PairBatches:
    """Batches of pairs as row numbers; a pass visits every pair once, in an order that depends only on the seed.

    Args:
        rows: numbering of the rows of these parts, and possibly of others.
        parts: the pairs.
        batch_size: pairs per batch, over all processes together.
        seed: seed of the order.
        device: device of the row numbers.
        rank: number of this process among `world_size`.

    """

    def __init__(
        self,
        rows: PairRows,
        parts: Sequence[Part],
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        check_batch_size(batch_size, world_size)
        self.i, self.j = (np.concatenate(side) for side in zip(*map(rows.numbers, parts), strict=True))
        self.weights: np.ndarray[tuple[int], np.dtype[np.float64]] | None = None
        if any(part.weights is not None for part in parts):
            each = [np.ones(len(part)) if part.weights is None else part.weights for part in parts]
            self.weights = np.concatenate(each)
        self.batch_size = min(batch_size, len(self) // world_size * world_size)
        self.seed, self.device = seed, torch.device(device)
        self.rank, self.world_size = rank, world_size
        self._order: tuple[int, np.ndarray[tuple[int], np.dtype[np.int64]]] | None = None

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.i)

    def batch(self, step: int) -> Batch:
        """Return this process's part of batch `step`."""
        per_pass = len(self) // self.batch_size
        start = (step % per_pass) * self.batch_size
        return self.at(self._pass(step // per_pass)[start : start + self.batch_size][self.rank :: self.world_size])

    def at(self, which: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Batch:
        """Return pairs by number as a batch."""
        kernel = None if self.weights is None else torch.from_numpy(self.weights[which]).float().to(self.device)
        i, j = (torch.from_numpy(side[which]).to(self.device) for side in (self.i, self.j))
        return Batch(i, j, kernel)

    def _pass(self, number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if self._order is None or self._order[0] != number:
            order = np.random.default_rng((self.seed % 2**64, number)).permutation(len(self))
            self._order = number, order
        return self._order[1]


def _sides(part: Part) -> tuple[Vectors, Vectors]:
    return part.left, part.right
