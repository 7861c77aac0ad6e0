"""Propagated features: the input of a network that learns with neighbours (SIGN [1]).

    wide = propagated_features(x, Smoothing.of(walk), hops=2)        # [x, S x, S^2 x], dense or sparse like x

They are computed once before training; at inference, they are computed from the given edges.

[1] Frasca, Rossi, Eynard, Chamberlain, Bronstein, Monti, SIGN: Scalable Inception Graph Neural Networks, 2020.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.networks.sparse import SparseRows
from eigenmap.relations.propagation import Smoothing, blocks_of_columns

MEMORY = 1 << 30
"""Maximum number of bytes of the columns of dense features that are averaged together."""


def propagated_features(x: Tensor | SparseRows, smooth: Smoothing, hops: int) -> Tensor | SparseRows:
    """Return features and their averages over 1 ... `hops` steps, side by side: (n, (hops + 1) d)."""
    if hops == 0:
        return x
    return _sparse(x, smooth, hops) if isinstance(x, SparseRows) else _dense(x, smooth, hops)


def _dense(x: Tensor, smooth: Smoothing, hops: int) -> Tensor:
    n, d = x.shape
    wide = np.empty((n, (hops + 1) * d), np.float32)
    for columns in blocks_of_columns(n, d, MEMORY):
        h = x[:, columns].cpu().float().numpy()
        for hop in range(hops + 1):
            wide[:, hop * d + columns.start : hop * d + columns.stop] = h
            h = smooth(h) if hop < hops else h
    return torch.from_numpy(wide)


def _sparse(x: SparseRows, smooth: Smoothing, hops: int) -> SparseRows:
    from scipy.sparse import csr_matrix, hstack

    x = x.to("cpu")
    values = np.ones(len(x.columns), np.float32) if x.values is None else x.values.float().numpy()
    h = csr_matrix((values, x.columns.numpy(), x.offsets.numpy()), shape=x.shape)
    S = smooth.matrix()
    parts = [h]
    for _ in range(hops):
        parts.append((S @ parts[-1]).astype(np.float32))
    return SparseRows.of(hstack(parts, format="csr"))


def without_rows(x: Tensor | SparseRows, unknown: npt.NDArray[np.bool_]) -> Tensor | SparseRows:
    """Return the features with unknown rows set to zero."""
    mask = torch.from_numpy(unknown)
    if isinstance(x, SparseRows):
        x = x.to("cpu")
        kept = ~torch.repeat_interleave(mask, x.offsets.diff())
        lengths = x.offsets.diff() * ~mask
        values = None if x.values is None else x.values[kept]
        return SparseRows(torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]), x.columns[kept], values, x.width)
    return torch.where(mask[:, None].to(x.device), torch.zeros((), dtype=x.dtype, device=x.device), x)
