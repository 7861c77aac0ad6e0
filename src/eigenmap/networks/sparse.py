"""Sparse matrix rows as network input, never converted to dense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eigenmap.core.devices import moved, widest

LONG = (torch.float64, torch.int64, torch.int32)
"""Number types that float32 cannot represent exactly."""


@dataclass(frozen=True)
class SparseRows:
    """Rows of a sparse matrix in CSR form: row i has `values` at `columns` in the range offsets[i:i+2].

    Supports what callers of a network need from a tensor: `len`, slices, rows by number, `to`. The tensors may be views
    of memory-mapped files: taking rows reads only those rows.

    Attributes:
        offsets: (n + 1,) int64.
        columns: (nonzeros,) integers below `width`.
        values: (nonzeros,), or None if all of them are 1.
        width: number of columns.

    Example:
        >>> rows = SparseRows(torch.tensor([0, 1, 3]), torch.tensor([2, 0, 1]), None, width=4)
        >>> rows[torch.tensor([1])].dense()
        tensor([[1., 1., 0., 0.]])

    """

    offsets: Tensor
    columns: Tensor
    values: Tensor | None
    width: int

    @classmethod
    def of(cls, matrix: Any) -> SparseRows:
        """Convert a scipy sparse matrix of any format."""
        csr = matrix.tocsr()
        return cls(
            torch.from_numpy(csr.indptr).long(), torch.from_numpy(csr.indices), torch.as_tensor(csr.data), csr.shape[1]
        )

    @classmethod
    def of_tensor(cls, matrix: Tensor) -> SparseRows:
        """Convert a sparse torch tensor of any layout."""
        coo = matrix.detach().to_sparse().coalesce()
        rows, columns = coo.indices()
        counts = torch.bincount(rows, minlength=matrix.shape[0])
        return cls(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), columns, coo.values(), matrix.shape[1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self), self.width

    @property
    def device(self) -> torch.device:
        """Device of the columns."""
        return self.columns.device

    @property
    def nbytes(self) -> int:
        """Total size of the tensors in bytes."""
        return sum(part.nbytes for part in (self.offsets, self.columns, self.values) if part is not None)

    def __getitem__(self, rows: slice | Tensor) -> SparseRows:
        """Return some rows, by slice or by number; the cost is proportional to their content.

        Consecutive rows share memory with the original, like a slice of a tensor.
        """
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            if step == 1:
                return self._consecutive(first, max(first, last))
            rows = torch.arange(first, last, step, device=self.offsets.device)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        # Entry p of the result, in row r, is entry starts[r] + (p - offsets[r]) of the original.
        total = int(offsets[-1])  # the only point at which the host waits for the device
        places = torch.arange(total, device=offsets.device)
        places += torch.repeat_interleave(starts - offsets[:-1], lengths, output_size=total)
        return SparseRows(
            offsets, self.columns[places], None if self.values is None else self.values[places], self.width
        )

    def _consecutive(self, first: int, last: int) -> SparseRows:
        offsets = self.offsets[first : last + 1]
        ends = offsets[:: max(1, last - first)].tolist()  # the first and the last: the host waits for the device once
        part = slice(ends[0], ends[-1])
        values = None if self.values is None else self.values[part]
        return SparseRows(offsets - ends[0], self.columns[part], values, self.width)

    def to(self, device: torch.device | str) -> SparseRows:
        """Move to another device."""
        values = None if self.values is None else moved(self.values, torch.device(device))
        return SparseRows(self.offsets.to(device), self.columns.to(device), values, self.width)

    def dense(self) -> Tensor:
        """Return an ordinary matrix, for small ones; numbers that float32 would round stay float64."""
        values = torch.ones(len(self.columns)) if self.values is None else self.values
        values = widest(values) if values.dtype in LONG else values.float()
        rows = torch.repeat_interleave(torch.arange(len(self), device=self.device), self.offsets.diff())
        matrix = torch.zeros(len(self), self.width, dtype=values.dtype, device=self.device)
        return matrix.index_put_((rows, self.columns.long()), values.to(self.device), accumulate=True)
