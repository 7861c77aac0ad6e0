"""How stored features are written: full floats, half floats, bytes, or a budget of bits spread by importance.

A code is stored in column blocks, features 0-8, 8-16, 16-32, ..., so that a search by a short prefix reads few bytes.
A codec turns the features of one block into bytes per row, and back.

In an ordered code the variance of feature j falls with its eigenvalue, sigma_j^2 ~ mu_j^(2t). A quantiser with b bits
leaves about sigma_j^2 4^-b of it, so each further bit goes to the feature with the most left: reverse water-filling
[1]. The levels of a feature are those of Lloyd [2], from the first codes that are added.

[1] T. Cover, J. Thomas: Elements of Information Theory, section 10.3.3
[2] S. Lloyd: Least squares quantization in PCM. 1982. https://doi.org/10.1109/TIT.1982.1056489

    codec = train(About(256, precision="bits", bytes_per_item=16), codes)
    codec.bits          # how many bits each feature has
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eigenmap.errors import EigenmapError
from eigenmap.search.backend import About, Floats

Bytes: TypeAlias = NDArray[np.uint8]

LARGEST_SAMPLE = 20_000
MOST_BITS = 8
_LLOYD_STEPS = 20
_INT8_SPREAD = 4.0
"""Standard deviations that 127 steps of an int8 span, where no value is larger."""


def blocks_of(n_components: int) -> list[tuple[int, int]]:
    """Column blocks [first, end): the first 8 features, and then as many as come before.

    >>> blocks_of(40)
    [(0, 8), (8, 16), (16, 32), (32, 40)]
    """
    edges = [0, 8]
    while edges[-1] < n_components:
        edges.append(2 * edges[-1])
    edges = [*(edge for edge in edges if edge < n_components), n_components]
    return list(pairwise(edges))


class Codec(Protocol):
    """Features of a column block to bytes and back."""

    blocks: list[tuple[int, int]]

    def width(self, block: int) -> int:
        """Bytes per row of a block."""
        ...

    def encode(self, block: int, features: Floats) -> Bytes:
        """(n, features of the block) as (n, width) bytes."""
        ...

    def decode(self, block: int, stored: Bytes) -> Floats:
        """The inverse, as far as there is one."""
        ...

    def as_json(self) -> dict[str, Any]:
        """Plain values, from which `from_json` makes the same codec."""
        ...


class FloatCodec:
    """float32 as it is, or float16."""

    def __init__(self, n_components: int, dtype: str) -> None:
        self.blocks = blocks_of(n_components)
        self.dtype = np.dtype(dtype).newbyteorder("<")

    def width(self, block: int) -> int:
        """Bytes per row of a block."""
        first, end = self.blocks[block]
        return (end - first) * self.dtype.itemsize

    def encode(self, block: int, features: Floats) -> Bytes:
        """The floats as bytes; float16 holds numbers up to 65504."""
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(features, dtype=self.dtype)
        if not np.isfinite(stored).all():
            raise EigenmapError("codes hold numbers too large for float16; use float32")
        return stored.view(np.uint8)

    def decode(self, block: int, stored: Bytes) -> Floats:
        """The floats; for float32 without a copy."""
        return stored.view(self.dtype).astype(np.float32, copy=False)

    def as_json(self) -> dict[str, Any]:
        """Its type."""
        return {"kind": self.dtype.name}


class Int8Codec:
    """One signed byte a feature, in steps that fit the feature's own spread."""

    def __init__(self, steps: Floats) -> None:
        self.blocks = blocks_of(len(steps))
        self.steps = steps

    def width(self, block: int) -> int:
        """Bytes per row of a block."""
        first, end = self.blocks[block]
        return end - first

    def encode(self, block: int, features: Floats) -> Bytes:
        """The nearest step, from -127 to 127."""
        steps = self.steps[slice(*self.blocks[block])]
        nearest = np.clip(np.rint(features / steps), -127, 127)
        return np.asarray(nearest, np.int8).view(np.uint8)

    def decode(self, block: int, stored: Bytes) -> Floats:
        """Steps times their size."""
        steps = self.steps[slice(*self.blocks[block])]
        decoded: Floats = stored.view(np.int8) * steps
        return decoded

    def as_json(self) -> dict[str, Any]:
        """The size of each feature's steps."""
        return {"kind": "int8", "steps": self.steps.tolist()}


class LevelCodec:
    """A few levels for each feature, 2^b of them for a feature of b bits; b = 0 stores nothing and reads as 0."""

    def __init__(self, levels: Sequence[Floats]) -> None:
        self.blocks = blocks_of(len(levels))
        self.levels = [np.asarray(level, dtype=np.float32) for level in levels]
        self.bits = np.array([max(0, len(level).bit_length() - 1) for level in self.levels])

    def width(self, block: int) -> int:
        """Bytes per row of a block."""
        return _whole_bytes(int(self.bits[slice(*self.blocks[block])].sum()))

    def encode(self, block: int, features: Floats) -> Bytes:
        """The number of each feature's nearest level, packed."""
        first, end = self.blocks[block]
        columns = []
        for j in range(first, end):
            if self.bits[j]:
                levels = self.levels[j]
                nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, features[:, j - first]).astype(np.uint8)
                columns.append(np.unpackbits(nearest[:, None], axis=1)[:, 8 - self.bits[j] :])
        if not columns:
            return np.empty((len(features), 0), np.uint8)
        return np.packbits(np.hstack(columns), axis=1)

    def decode(self, block: int, stored: Bytes) -> Floats:
        """The levels."""
        first, end = self.blocks[block]
        features = np.zeros((len(stored), end - first), np.float32)
        start = 0
        for j in range(first, end):
            if self.bits[j]:
                features[:, j - first] = self.levels[j][_unpacked(stored, start, int(self.bits[j]))]
                start += int(self.bits[j])
        return features

    def as_json(self) -> dict[str, Any]:
        """The levels of each feature."""
        return {"kind": "levels", "levels": [level.tolist() for level in self.levels]}


def _unpacked(stored: Bytes, start: int, bits: int) -> NDArray[np.uint16]:
    """The number in bits [start, start + bits) of each row, the highest bit first."""
    byte, offset = divmod(start, 8)
    pair = stored[:, byte].astype(np.uint16) << 8
    if offset + bits > 8:
        pair |= stored[:, byte + 1]
    return np.asarray((pair >> (16 - offset - bits)) & ((1 << bits) - 1), np.uint16)


def train(about: About, codes: Floats) -> Codec:
    """The codec of an index, its scales and levels from the first codes that are added."""
    if about.precision in ("float32", "float16"):
        return FloatCodec(about.n_components, about.precision)
    if len(codes) > LARGEST_SAMPLE:
        codes = codes[np.random.default_rng(0).choice(len(codes), LARGEST_SAMPLE, replace=False)]
    rms = np.sqrt(np.square(codes, dtype=np.float64).mean(axis=0))
    if about.precision == "int8":
        span = np.maximum(np.abs(codes).max(axis=0), _INT8_SPREAD * rms)
        return Int8Codec(np.where(span > 0, span / 127, 1).astype(np.float32))
    assert about.bytes_per_item is not None
    if about.precision == "signs":
        kept = 8 * about.bytes_per_item
        return LevelCodec([np.array([-s, s], np.float32) if j < kept else _NO_LEVELS for j, s in enumerate(rms)])
    variance = codes.astype(np.float64).var(axis=0)
    bits = allocate(variance, about.bytes_per_item)
    return LevelCodec([lloyd(codes[:, j], int(b)) if b else _NO_LEVELS for j, b in enumerate(bits)])


_NO_LEVELS: Floats = np.empty(0, np.float32)


def allocate(variance: NDArray[np.float64], n_bytes: int) -> NDArray[np.int64]:
    """Bits per feature: each further bit where the most variance is left, while every block fills whole bytes.

    >>> allocate(np.array([16.0, 4.0, 1.0, 1.0, 0.25, 0.0]), 1)
    array([4, 2, 1, 1, 0, 0])
    """
    bits = np.zeros(len(variance), dtype=np.int64)
    blocks = blocks_of(len(variance))
    block_of = np.repeat(np.arange(len(blocks)), [end - first for first, end in blocks])
    used = np.zeros(len(blocks), dtype=np.int64)
    waiting = [(-float(v), j) for j, v in enumerate(variance) if v > 0]
    heapq.heapify(waiting)
    while waiting:
        gain, j = heapq.heappop(waiting)
        opens_byte = used[block_of[j]] % 8 == 0
        if opens_byte and sum(map(_whole_bytes, used.tolist())) == n_bytes:
            continue  # only what fits into bytes that are open already
        bits[j] += 1
        used[block_of[j]] += 1
        if bits[j] < MOST_BITS:
            heapq.heappush(waiting, (gain / 4, j))
    return bits


def lloyd(values: Floats, bits: int) -> Floats:
    """2^bits levels that make the mean squared error of `values` small, in rising order."""
    ordered = np.sort(values.astype(np.float64))
    total = np.concatenate([[0.0], np.cumsum(ordered)])
    # Quantiles of the density's cube root are near the optimum for many levels; plain ones are a fair start for few.
    levels = np.quantile(ordered, (np.arange(2**bits) + 0.5) / 2**bits)
    for _ in range(_LLOYD_STEPS):
        edges = np.searchsorted(ordered, (levels[1:] + levels[:-1]) / 2)
        first, end = np.concatenate([[0], edges]), np.concatenate([edges, [len(ordered)]])
        count = end - first
        levels = np.where(count > 0, (total[end] - total[first]) / np.maximum(count, 1), levels)
    return np.asarray(levels, np.float32)


def from_json(entries: Mapping[str, Any], n_components: int) -> Codec:
    """The codec that `as_json` described; `ValueError`, `KeyError` or `TypeError` where it makes no sense."""
    kind = entries["kind"]
    codec: Codec
    if kind in ("float32", "float16"):
        codec = FloatCodec(n_components, kind)
    elif kind == "int8":
        codec = Int8Codec(np.asarray(entries["steps"], dtype=np.float32))
    elif kind == "levels":
        codec = LevelCodec([np.asarray(level, dtype=np.float32) for level in entries["levels"]])
    else:
        raise ValueError(f"there is no codec {kind!r}")
    if codec.blocks != blocks_of(n_components):
        raise ValueError("the codec is of another number of features")
    return codec


def _whole_bytes(bits: int) -> int:
    return -(-bits // 8)
