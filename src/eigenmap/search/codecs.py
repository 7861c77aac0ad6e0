"""Codecs for stored features: full floats, half floats, bytes, or bytes allocated by importance.

A code is stored in column blocks, [0, 8), [8, 16), [16, 32), ..., so that searching a short prefix reads few bytes.
A codec turns the features of one block into bytes per row, and back.

In an ordered code the variance of feature j decreases with its eigenvalue, sigma_j^2 ~ mu_j^(2t). The bytes of an item
are allocated accordingly (`eigenmap.search.bit_allocation`): one byte stores one of 256 levels of a *group* of
neighbouring features, with few features per group where they matter most, many where they matter less, and no byte for
the tail. The levels are means found by k-means on the first codes added. Such a vector quantiser has less error than
levels of single features and can spend less than one bit per feature.

Unit codes compared by cosine are scaled by their *reliability* before quantisation,

    r(x) = (mean_j (x_j / rms_j)^2)^(-1/8)

which is above 1 for an item with more weight in the important features than usual, and below 1 for one with more weight
in the tail, whose code is noisier and whose neighbours are relevant less often. The product of a query with the levels
is then the expected cosine times the reliability. The exponent was chosen on training images of CIFAR-10 and the
catalogue: there, (|x| / |x / rms|)^1/4 beats no scaling in mAP over the top 1,000 at every number of bytes; a power of
1 is better still on CIFAR-10 but worse on the catalogue.

    codec = train_codec(IndexSpec(256, precision="bits", bytes_per_item=16), codes)
    codec.bits          # number of bits per feature, 8 / size of its group
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eigenmap.core.errors import EigenmapError
from eigenmap.search import forking
from eigenmap.search.backend import Floats, Id, IndexSpec
from eigenmap.search.bit_allocation import allocate_bytes

Bytes: TypeAlias = NDArray[np.uint8]

HALF_RANGE = (2.0**-8, float(np.finfo(np.float16).max))
"""Range of the largest feature of a code that float16 stores well; that of a unit code is within it."""
LARGEST_SAMPLE = 50_000
LEVELS = 256
_KMEANS_STEPS = 15
_ENOUGH = 10_000
"""Number of codes above which more of them do not improve the levels."""
_RELIABILITY = 0.25
_INT8_SPREAD = 4.0
"""Standard deviations spanned by the 127 steps of an int8, if no value is larger."""
_INT8_FEW_STEPS = 16
"""Minimum number of steps that the largest feature of a code must reach; under cosine, smaller codes are scaled up."""
_INT8_ERROR = 0.1
"""Largest relative error at which a code outside the int8 range is accepted."""
_QUICK_NUMBERS = 1 << 17
"""Numbers that a matrix of rows must have for faiss to compare them with 256 levels about eight times faster."""
_QUICK_WIDTH = 32
"""Maximum number of columns for which that holds."""


def blocks_of(n_components: int) -> list[tuple[int, int]]:
    """Return the column blocks [first, end): the first 8 features, then each as long as all previous ones.

    >>> blocks_of(40)
    [(0, 8), (8, 16), (16, 32), (32, 40)]
    """
    edges = [0, 8]
    while edges[-1] < n_components:
        edges.append(2 * edges[-1])
    edges = [*(edge for edge in edges if edge < n_components), n_components]
    return list(pairwise(edges))


class Codec(Protocol):
    """Conversion of the features of a column block to bytes and back."""

    blocks: list[tuple[int, int]]

    def width(self, block: int) -> int:
        """Return the number of bytes per row of a block."""
        ...

    def encode(self, block: int, features: Floats) -> Bytes:
        """Encode (n, features of the block) as (n, width) bytes."""
        ...

    def decode(self, block: int, stored: Bytes) -> Floats:
        """Decode bytes, up to the loss of the encoding."""
        ...

    def as_json(self) -> dict[str, Any]:
        """Return plain values from which `from_json` restores the codec."""
        ...


def scaled_into(codes: Floats, low: float, high: float) -> Floats:
    """Scale codes compared by cosine, which does not depend on their length, if they are too small or too large.

    A code whose largest feature is outside the range is multiplied by a power of two that brings it near 1.
    """
    largest = np.abs(codes).max(axis=1)
    unfit = (largest > high) | ((largest > 0) & (largest < low))
    if unfit.any():
        codes = codes.copy()
        codes[unfit] = np.ldexp(codes[unfit], -np.frexp(largest[unfit])[1][:, None])
    return codes


class FloatCodec:
    """Codec for float32 or float16."""

    def __init__(self, n_components: int, dtype: str) -> None:
        self.blocks = blocks_of(n_components)
        self.dtype = np.dtype(dtype).newbyteorder("<")

    def width(self, block: int) -> int:
        """Return the number of bytes per row of a block."""
        first, end = self.blocks[block]
        return (end - first) * self.dtype.itemsize

    def encode(self, block: int, features: Floats) -> Bytes:
        """Encode floats as bytes; float16 is limited to 65504."""
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(features, dtype=self.dtype)
        if not np.isfinite(stored).all():
            raise EigenmapError("codes contain numbers above 65,504, too large for float16; use float32")
        return stored.view(np.uint8)

    def decode(self, block: int, stored: Bytes) -> Floats:
        """Decode floats; float32 is not copied."""
        return stored.view(self.dtype).astype(np.float32, copy=False)

    def as_json(self) -> dict[str, Any]:
        """Return the float type."""
        return {"kind": self.dtype.name}


class Int8Codec:
    """Codec with one signed byte per feature, in steps that fit the feature's spread."""

    def __init__(self, steps: Floats) -> None:
        self.blocks = blocks_of(len(steps))
        self.steps = steps

    def width(self, block: int) -> int:
        """Return the number of bytes per row of a block."""
        first, end = self.blocks[block]
        return end - first

    def encode(self, block: int, features: Floats) -> Bytes:
        """Encode features as the nearest step, from -127 to 127."""
        steps = self.steps[slice(*self.blocks[block])]
        nearest = np.clip(np.rint(features / steps), -127, 127)
        return np.asarray(nearest, np.int8).view(np.uint8)

    def decode(self, block: int, stored: Bytes) -> Floats:
        """Decode steps to features."""
        steps = self.steps[slice(*self.blocks[block])]
        decoded: Floats = stored.view(np.int8) * steps
        return decoded

    def fitted(self, codes: Floats, ids: Sequence[Id], metric: str) -> Floats:
        """Prepare codes for encoding: those outside the range of the steps are scaled or refused.

        The steps are determined by the first items. Cosine similarity does not depend on the length of a code, so a
        code that is too large, or too small to distinguish from zero, is scaled. If a feature is still too large,
        clipping it must lose little compared with the code.
        """
        steps = self.steps.astype(np.float64)
        reached = np.zeros(len(codes))
        for first, end in self.blocks:
            reached = np.maximum(reached, np.abs(codes[:, first:end] / steps[first:end]).max(axis=1))
        large = reached > 127.5  # otherwise 127 is the nearest step
        if metric == "cosine":
            unfit = large | ((reached > 0) & (reached < _INT8_FEW_STEPS))
            if unfit.any():
                codes = codes.copy()
                codes[unfit] = codes[unfit] / (reached[unfit, None] / 127)
        for row in np.flatnonzero(large).tolist():
            code = codes[row].astype(np.float64)
            stored = np.clip(np.rint(code / steps), -127, 127) * steps
            if np.linalg.norm(stored - code) > _INT8_ERROR * np.linalg.norm(code):
                raise EigenmapError(
                    f"the code of {ids[row]!r} is too large for this index, whose first items set its int8 range; "
                    "rebuild the index with such codes in the first addition, or with another precision"
                )
        return codes

    def as_json(self) -> dict[str, Any]:
        """Return the step size of each feature."""
        return {"kind": "int8", "steps": self.steps.tolist()}


class SignCodec:
    """Codec with one bit for each of the leading features: its sign, decoded as plus or minus the feature's size."""

    def __init__(self, sizes: Floats, kept: int) -> None:
        self.blocks = blocks_of(len(sizes))
        self.sizes = sizes
        self.kept = min(kept, len(sizes))

    def _kept_in(self, block: int) -> int:
        first, end = self.blocks[block]
        return max(0, min(end, self.kept) - first)

    def width(self, block: int) -> int:
        """Return the number of bytes per row of a block."""
        return -(-self._kept_in(block) // 8)

    def encode(self, block: int, features: Floats) -> Bytes:
        """Encode the signs as packed bits."""
        return np.packbits(features[:, : self._kept_in(block)] >= 0, axis=1)

    def decode(self, block: int, stored: Bytes) -> Floats:
        """Decode signs times sizes; 0 for features that are not stored."""
        first, end = self.blocks[block]
        kept = self._kept_in(block)
        features = np.zeros((len(stored), end - first), np.float32)
        signs = np.unpackbits(stored, axis=1, count=kept).astype(np.float32) * 2 - 1 if kept else features[:, :0]
        features[:, :kept] = signs * self.sizes[first : first + kept]
        return features

    def as_json(self) -> dict[str, Any]:
        """Return the size of each feature and the number of features with a bit."""
        return {"kind": "signs", "sizes": self.sizes.tolist(), "kept": self.kept}


class GroupCodec:
    """Codec with one byte per group of neighbouring features: the number of its nearest level.

    `rms`, one number per feature, determines how codes are `scaled` before encoding; None disables scaling. `learned`
    is the number of codes from which the levels were learned; None if unknown.
    """

    def __init__(
        self,
        n_components: int,
        groups: Sequence[tuple[int, int]],
        levels: Sequence[Floats],
        rms: Floats | None = None,
        learned: int | None = None,
    ) -> None:
        self.blocks = blocks_of(n_components)
        self.rms = rms
        self.learned = learned
        self.groups = list(groups)
        self.levels = [np.asarray(level, dtype=np.float32) for level in levels]
        self.bits = np.zeros(n_components)
        for first, end in self.groups:
            self.bits[first:end] = 8 / (end - first)

    def _groups_in(self, block: int) -> list[tuple[int, int, Floats]]:
        """Return (first feature, end, levels) of the groups in a block, counted from the block's first feature."""
        start, stop = self.blocks[block]
        pairs = zip(self.groups, self.levels, strict=True)
        return [(first - start, end - start, levels) for (first, end), levels in pairs if start <= first < stop]

    def width(self, block: int) -> int:
        """Return the number of bytes per row of a block."""
        return len(self._groups_in(block))

    def encode(self, block: int, features: Floats) -> Bytes:
        """Encode each group as the number of its nearest level."""
        faiss = forking.faiss()
        stored = np.empty((len(features), self.width(block)), np.uint8)
        for column, (first, end, levels) in enumerate(self._groups_in(block)):
            width = _quick_width(len(features), end - first)
            nearest = faiss.knn(_widened(features[:, first:end], width), _widened(levels, width), 1)[1]
            stored[:, column] = nearest[:, 0]
        return stored

    def decode(self, block: int, stored: Bytes) -> Floats:
        """Decode the levels; 0 for features without a group."""
        first, end = self.blocks[block]
        features = np.zeros((len(stored), end - first), np.float32)
        for column, (low, high, levels) in enumerate(self._groups_in(block)):
            features[:, low:high] = levels[stored[:, column]]
        return features

    def as_json(self) -> dict[str, Any]:
        """Return the groups, their levels and the scaling."""
        return {
            "kind": "groups",
            "groups": self.groups,
            "levels": [level.tolist() for level in self.levels],
            "rms": None if self.rms is None else self.rms.tolist(),
            "learned": self.learned,
        }

    def require_levels(self, items: int) -> None:
        """Refuse to encode many items with levels learned from few, which would give many of them the same code.

        The limit is twice the number of codes that the levels were learned from, or ten times if there were at least
        256.
        """
        learned = self.learned
        if learned is not None and learned < _ENOUGH and items > learned * (2 if learned < LEVELS else 10):
            raise EigenmapError(
                f"the levels of this index were learned from only {learned} codes, too few for {items:,} items; "
                "rebuild it with a few thousand codes in the first addition"
            )

    def scaled(self, codes: Floats) -> Floats:
        """Return unit codes times their reliability."""
        return codes if self.rms is None else reliable(codes, self.rms)


def train_codec(about: IndexSpec, codes: Floats) -> Codec:
    """Build the codec of an index, learning scales and levels from the first codes added."""
    if about.precision in ("float32", "float16"):
        return FloatCodec(about.n_components, about.precision)
    if len(codes) > LARGEST_SAMPLE:
        codes = codes[np.random.default_rng(0).choice(len(codes), LARGEST_SAMPLE, replace=False)]
    rms = np.sqrt(np.square(codes, dtype=np.float64).mean(axis=0))
    if about.precision == "int8":
        span = np.maximum(np.abs(codes).max(axis=0), _INT8_SPREAD * rms)
        usual = span.max() if span.any() else 127.0  # for a feature that is 0 in all first items
        steps = np.where(span > 0, span, usual) / 127
        return Int8Codec(np.maximum(steps, np.finfo(np.float32).tiny).astype(np.float32))
    assert about.bytes_per_item is not None
    if about.precision == "signs":
        return SignCodec(rms.astype(np.float32), 8 * about.bytes_per_item)
    scales = None
    if about.metric == "cosine":
        scales = np.where(rms > 0, rms, 1).astype(np.float32)
        codes = reliable(codes, scales)
    variance = codes.astype(np.float64).var(axis=0)
    groups = allocate_bytes(variance, about.bytes_per_item, blocks_of(about.n_components))
    levels = [levels_of(codes[:, first:end]) for first, end in groups]
    return GroupCodec(about.n_components, groups, levels, scales, len(codes))


def reliable(codes: Floats, rms: Floats) -> Floats:
    """Return codes times r(x) = (mean_j (x_j / rms_j)^2)^(-1/8), which is about 1 on average."""
    spread_out = np.square(codes / rms).mean(axis=1, keepdims=True)
    r = np.where(spread_out > 0, spread_out, 1) ** (-_RELIABILITY / 2)
    return codes * r.astype(np.float32)


def levels_of(rows: Floats) -> Floats:
    """Return up to 256 k-means centres of the rows."""
    faiss = forking.faiss()
    if len(np.unique(rows[: 4 * LEVELS], axis=0)) <= LEVELS:  # sorting all rows takes long, and is rarely needed
        distinct = np.unique(rows, axis=0)
        if len(distinct) <= LEVELS:
            return distinct
    n, length = rows.shape
    width = _quick_width(n, length)
    means = faiss.Kmeans(
        width, LEVELS, niter=_KMEANS_STEPS, seed=0, min_points_per_centroid=1, max_points_per_centroid=n
    )
    means.train(_widened(rows, width))
    return np.ascontiguousarray(means.centroids[:, :length], np.float32)


def _quick_width(n: int, length: int) -> int:
    """Return the width, with columns of zeros, at which faiss compares n rows of this length with levels fastest."""
    enough = -(-_QUICK_NUMBERS // max(n, 1))
    return max(length, enough) if enough <= _QUICK_WIDTH else length


def _widened(rows: Floats, width: int) -> Floats:
    """Append columns of zeros, which change no distance."""
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, width - rows.shape[1]))), dtype=np.float32)


def from_json(entries: Mapping[str, Any], n_components: int) -> Codec:
    """Restore a codec from the values of `as_json`; raise `ValueError`, `KeyError` or `TypeError` if malformed."""
    kind = entries["kind"]
    codec: Codec
    if kind in ("float32", "float16"):
        codec = FloatCodec(n_components, kind)
    elif kind == "int8":
        codec = Int8Codec(np.asarray(entries["steps"], dtype=np.float32))
    elif kind == "signs":
        codec = SignCodec(np.asarray(entries["sizes"], dtype=np.float32), int(entries["kept"]))
    elif kind == "groups":
        groups = [(int(first), int(end)) for first, end in entries["groups"]]
        levels = [np.asarray(level, np.float32) for level in entries["levels"]]
        rms = entries.get("rms")  # like `learned`, not stored by earlier versions
        codec = GroupCodec(
            n_components, groups, levels, None if rms is None else np.asarray(rms, np.float32), entries.get("learned")
        )
    else:
        raise ValueError(f"unknown codec {kind!r}")
    if codec.blocks != blocks_of(n_components):
        raise ValueError("the codec has a different number of features")
    return codec


def fits(codec: Codec, about: IndexSpec) -> bool:
    """Tell whether the codec matches the description of an index."""
    kinds = {"int8": Int8Codec, "signs": SignCodec, "bits": GroupCodec}
    if isinstance(codec, FloatCodec):
        return codec.dtype.name == about.precision
    if type(codec) is not kinds.get(about.precision):
        return False
    stored = sum(codec.width(block) for block in range(len(codec.blocks)))
    return about.bytes_per_item is None or stored <= about.bytes_per_item


def feature_files(codec: Codec) -> list[str]:
    """Return the file names of the column blocks."""
    return [f"features-{first}-{end}.bin" for first, end in codec.blocks]
