"""Propagation on a GPU: the same averages over neighbours as `relations.propagation`, on tensors of one device.

    smooth = Smoothing.of(walk)
    S, own_share = operator(smooth, "cuda"), diagonal(smooth, "cuda")
    y = propagated(Propagation("pagerank", 0.1), S, own_share, codes)

The matrix S and a few columns of all codes have to fit into the memory of the device (`columns_that_fit`); graphs that
do not fit are averaged on the CPU, where edges may be on disk.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenmap.core.sparse import sparse_csr
from eigenmap.relations.propagation import Matrix, Propagation, Smoothing, entry_weights

COPIES = 5
"""Copies of the columns that are averaged together: own codes, two states, the result, and a product."""
ROOM = 0.6
"""Maximum share of the free memory of the device that is used."""


def operator(smooth: Smoothing, device: torch.device | str) -> Tensor:
    """Return S without its diagonal as a sparse float32 CSR tensor."""
    walk, n = smooth.walk, len(smooth.degrees)
    scale = torch.from_numpy(1 / np.sqrt(smooth.degrees)).to(device)
    indptr, indices = walk.indptr.to(device), walk.indices.to(device)
    weights = torch.from_numpy(entry_weights(walk, 0, walk.n_entries)).to(device)
    counts = indptr.diff()
    values = weights.double() * scale.repeat_interleave(counts) * scale[indices.long()]
    kind = torch.int32 if walk.n_entries < 2**31 else torch.int64
    return sparse_csr(indptr.to(kind), indices.to(kind), values.float(), (n, n))


def diagonal(smooth: Smoothing, device: torch.device | str) -> Tensor:
    """Return the diagonal of S, (n, 1): what a node keeps of its own state."""
    return torch.from_numpy((smooth.loop / smooth.degrees).astype(np.float32)[:, None]).to(device)


def propagated(way: Propagation, S: Tensor, own_share: Tensor, own: Tensor) -> Tensor:
    """Return the propagated codes of all nodes, for S without self-loops and its diagonal."""
    h, states = own, [own]
    for _ in range(way.hops):
        smoothed = (S @ h).addcmul_(own_share, h)
        h = smoothed.lerp_(own, way.restart) if way.way == "pagerank" else smoothed
        states = [*states, h] if way.way == "concat" else [h]
    return torch.cat([normalize(state, dim=1) for state in states], 1) if way.way == "concat" else h


def on_device(way: Propagation, smooth: Smoothing, own: Matrix, device: torch.device) -> Matrix | None:
    """Return the propagated codes, computed on the device a few columns at a time; None if it has no room.

    The parts of "concat" are scaled by entire rows, so that way needs room for all columns.
    """
    columns = columns_that_fit(smooth, own.shape, way, device)
    if columns == 0:
        return None
    S, own_share = operator(smooth, device), diagonal(smooth, device)
    found = np.empty((len(own), way.parts * own.shape[1]), np.float32)
    for start in range(0, own.shape[1], columns):
        part = torch.from_numpy(np.ascontiguousarray(own[:, start : start + columns])).to(device)
        y = propagated(way, S, own_share, part)
        found[:, way.parts * start : way.parts * start + y.shape[1]] = y.cpu().numpy()
    return found


def columns_that_fit(smooth: Smoothing, shape: tuple[int, int], way: Propagation, device: torch.device) -> int:
    """Return the number of columns that can be averaged together; 0 if the edges alone leave no room."""
    rows, columns = shape
    if device.type != "cuda":
        return columns
    free = ROOM * torch.cuda.mem_get_info(device)[0]
    # Values and their making in float64, places as 32 or 64 bits.
    left = free - 40 * smooth.walk.n_entries - 24 * rows
    fit = min(columns, int(left // (4 * COPIES * way.parts * max(rows, 1))))
    return 0 if fit < (columns if way.way == "concat" else 1) else fit
