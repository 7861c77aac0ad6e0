"""Exact cosine ranking of a gallery for every query, at any code length, in blocks.

A code is cut first and normalised afterwards: the score is the cosine of the *prefixes*. Equal cosines are ranked by
gallery index, lower first, on every device. `torch.topk` guarantees no order among equal values, so the selection uses
distinct int64 keys from which the item can be recovered:

    key = int(2^30 cos) * 2^32 + (2^32 - 1 - index)

Cosines are float32, whose last bit near 1 is 64 times coarser than the 2^-30 kept here. At very short lengths, items
within about 3e-4 radians of each other may therefore count as equal. In a gallery of a few items, the cosines of equal
codes may differ in that bit, since matrix products add in another order at their edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.devices import float32_products
from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import plain_numbers

CodesLike: TypeAlias = "Tensor | NDArray[Any]"

_ONE = 2.0**30  # cosine 1 in fixed point; a power of two, so scaling by it is exact
_SHIFT = 2**32
_FLOAT32 = torch.finfo(torch.float32)
_EXCLUDED = torch.iinfo(torch.int64).min


class RankedGallery(NamedTuple):
    """The `top` nearest gallery items of every query, nearest first."""

    indices: Tensor
    """(n_queries, top) int64 rows of the gallery."""
    scores: Tensor
    """(n_queries, top) float32 cosines."""


@torch.no_grad()
def nearest(
    queries: CodesLike,
    gallery: CodesLike,
    top: int,
    dim: int | None = None,
    *,
    order: Tensor | None = None,
    drop_self: bool = False,
    block: int | None = None,
    gallery_block: int = 65_536,
    device: torch.device | str | None = None,
    tf32: bool = False,
) -> RankedGallery:
    """Rank the gallery for every query by the cosine of the first `dim` features, or the first of `order`.

    `block` queries (default 128 on a CPU, 1,024 on a GPU) are compared with `gallery_block` gallery rows at a time, so
    memory is bounded for any gallery, including memory-mapped ones; only the result of n_queries * top numbers grows.
    With `drop_self`, query i *is* gallery row i and is left out of its own ranking. At most as many items are returned
    as exist. Computed in float32 on `device` (default: that of the queries), even under autocast; `tf32` allows
    TensorFloat-32.

    >>> nearest(torch.eye(2), torch.tensor([[1.0, 1.0], [0.0, 2.0]]), top=1).indices.flatten().tolist()
    [0, 1]
    """
    width = check_codes(queries, gallery, drop_self)
    dim = width if dim is None else whole_number(dim, "dim", 1, width)
    top = min(whole_number(top, "top"), len(gallery) - drop_self)
    place = torch.device(device) if device is not None else device_of(queries)
    usual_block = 128 if place.type == "cpu" else 1024
    block = usual_block if block is None else whole_number(block, "block")
    gallery_block = whole_number(gallery_block, "gallery_block")

    q = unit_rows(_prefix(queries, dim, order), place) * _ONE
    best = torch.empty(len(q), 0, dtype=torch.int64, device=place)
    with _float32_matmul(place, tf32):
        for first in range(0, len(gallery), gallery_block):
            g = unit_rows(_prefix(gallery[first : first + gallery_block], dim, order), place)
            merged = []
            for start in range(0, len(q), block):
                keys = _keys(q[start : start + block] @ g.T, first)
                if drop_self:
                    _exclude_diagonal(keys, start, first)
                keys = keys.topk(min(top, len(g)), dim=1).values
                held = best[start : start + block]
                if held.shape[1]:
                    both = torch.cat([held, keys], dim=1)
                    keys = both.topk(min(top, both.shape[1]), dim=1).values
                merged.append(keys)
            best = torch.cat(merged)
    return RankedGallery(_SHIFT - 1 - best % _SHIFT, (best >> 32).float() / _ONE)


def _prefix(codes: CodesLike, dim: int, order: Tensor | None) -> CodesLike:
    """Cut codes at `dim` features, taken in the given `order` if there is one."""
    if order is None:
        return codes[:, :dim]
    chosen = order[:dim]
    return codes[:, chosen.to(codes.device)] if isinstance(codes, Tensor) else codes[:, chosen.numpy()]


def unit_rows(codes: CodesLike, device: torch.device) -> Tensor:
    """Divide rows by their Euclidean norm, in float32; a zero row stays zero (its cosines are 0)."""
    rows = codes_as_tensor(codes, device)
    # Norms in float64: squares of very large or small float32 numbers would overflow or underflow.
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
    if not bool(torch.isfinite(norm).all()):
        raise EigenmapError("the codes contain NaN or infinite values; every feature must be a finite number")
    odd = ((norm > 0) & ((norm < _FLOAT32.tiny) | (norm > _FLOAT32.max))).flatten()
    unit = rows.div(norm.masked_fill(norm == 0, 1.0).float())
    if bool(odd.any()):
        unit[odd] = rows[odd].double().div(norm[odd]).float()
    return unit


def codes_as_tensor(codes: CodesLike, device: torch.device, dtype: torch.dtype | None = torch.float32) -> Tensor:
    """Convert codes to a tensor; NumPy rows are copied, as torch warns about read-only (memory-mapped) arrays."""
    if isinstance(codes, Tensor):
        return codes.detach().to(device, dtype)
    return torch.from_numpy(np.array(plain_numbers(codes, "codes"))).to(device, dtype)


def device_of(codes: CodesLike) -> torch.device:
    """Return the device of the codes; NumPy arrays are on the CPU."""
    return codes.device if isinstance(codes, Tensor) else torch.device("cpu")


def check_codes(queries: CodesLike, gallery: CodesLike, drop_self: bool = False) -> int:
    """Return the common width of queries and gallery, or raise if they cannot be compared."""
    for codes, name in ((queries, "queries"), (gallery, "gallery")):
        if codes.ndim != 2:
            raise EigenmapError(f"{name} must be a matrix with one code per row, not of shape {tuple(codes.shape)}")
        if len(codes) == 0:
            raise EigenmapError(f"{name} contains no codes; there is nothing to compare")
    if queries.shape[1] != gallery.shape[1]:
        raise EigenmapError(
            f"queries have {queries.shape[1]} features and the gallery {gallery.shape[1]}; both need the same number"
        )
    if drop_self and len(queries) != len(gallery):
        raise EigenmapError(
            "drop_self needs the queries to be the gallery itself, "
            f"but there are {len(queries)} queries and {len(gallery)} gallery items"
        )
    if drop_self and len(gallery) < 2:
        raise EigenmapError("drop_self leaves nothing to rank in a gallery of one item")
    return int(gallery.shape[1])


def _keys(scores: Tensor, first: int) -> Tensor:
    """Return sortable keys of (b, n) cosines in fixed point; column j is gallery item `first` + j."""
    n = scores.shape[1]
    low = torch.arange(_SHIFT - 1 - first, _SHIFT - 1 - first - n, -1, device=scores.device)
    return scores.to(torch.int64).mul_(_SHIFT).add_(low)


def _exclude_diagonal(keys: Tensor, start: int, first: int) -> None:
    """Rank each query (rows from `start`) last in its own ranking (columns from `first`)."""
    low, high = max(start, first), min(start + keys.shape[0], first + keys.shape[1])
    own = torch.arange(low, max(low, high), device=keys.device)
    keys[own - start, own - first] = _EXCLUDED


@contextmanager
def _float32_matmul(device: torch.device, tf32: bool) -> Iterator[None]:
    """Compute products in true float32, or in TensorFloat-32 if allowed, whatever the process has set."""
    with float32_products("high" if tf32 else "highest"), torch.autocast(device.type, enabled=False):
        yield
