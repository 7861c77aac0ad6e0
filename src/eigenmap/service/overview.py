"""Overview of a collection: gallery of eigenfunctions, items sorted by one of them, map by two of them.

Computed once, when the service starts, from all items or, in a very large index, from a random sample. Searches always
cover all items.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenmap.search.backend import Floats, Id, ItemBatch, Metadata
from eigenmap.search.index import CodeIndex

FEATURES = 64
"""Number of eigenfunctions in the gallery."""
SHOWN = 8
"""Number of items shown at each end of an eigenfunction."""
MOST_ITEMS = 100_000
MOST_BYTES = 256 * 2**20
"""Maximum size of the sampled codes in bytes."""
BINS = 48
LABEL = "label"
OTHER = 255
"""Class code of a point whose label is not among the most frequent ones."""
_NAMED_CLASSES = 10
_STEPS = 65_535


def sample(index: CodeIndex, most_items: int = MOST_ITEMS, most_bytes: int = MOST_BYTES) -> ItemBatch:
    """Return all items in random order, or a random sample within the limits."""
    most = max(1, min(most_items, most_bytes // (4 * index.n_components)))
    drawn = index.backend.sample(most, seed=0)
    order = np.random.default_rng(0).permutation(len(drawn.ids))
    return ItemBatch([drawn.ids[i] for i in order], drawn.codes[order], [drawn.metadata[i] for i in order])


class Feature(NamedTuple):
    """One eigenfunction: range and histogram of its values, and the items (by number) at both ends."""

    number: int
    low: float
    high: float
    counts: list[int]
    most: list[int]
    least: list[int]


class MapPoints(NamedTuple):
    """Positions of all items on two features, in steps of 1/65535 of each range."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    points: str
    """Base64 of x, y pairs, little-endian uint16."""


class Overview:
    """Items numbered 0 ... n - 1 and their leading features."""

    def __init__(self, items: ItemBatch, features: int = FEATURES) -> None:
        self.ids: list[Id] = items.ids
        self.metadata: list[Metadata] = items.metadata
        # Stored by column, as they are read; copied, so that the remaining features can be freed.
        self._values: Floats = np.array(items.codes[:, :features], order="F")
        self.classes, self._class_of = _classes(items.metadata)
        # Bound to the values, not to this object: a cycle would keep it and its values until Python looks for cycles.
        self.sorted_by = lru_cache(maxsize=16)(partial(_sorted_by, self._values))
        self.map = lru_cache(maxsize=8)(partial(_map, self._values))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def features(self) -> int:
        """Number of features in the gallery."""
        return int(self._values.shape[1])

    def values(self, numbers: Sequence[int], feature: int) -> list[float]:
        """Return these items' values of a feature, counted from 1."""
        return [float(value) for value in self._values[list(numbers), feature - 1]]

    def leading(self, dim: int) -> Floats:
        """Return the first `dim` features of all items, or those of the gallery if there are fewer."""
        return self._values[:, :dim]

    def gallery(self, shown: int = SHOWN) -> list[Feature]:
        """Return every eigenfunction of the gallery."""
        return [self._feature(number, shown) for number in range(1, self.features + 1)]

    def _feature(self, number: int, shown: int) -> Feature:
        column = self._values[:, number - 1]
        # In float64, since in float32 a nearly constant feature leaves no room for the edges between its bins.
        counts, edges = np.histogram(column.astype(np.float64), BINS)
        shown = min(shown, len(column))
        ends = np.argpartition(column, [shown - 1, len(column) - shown])
        least = sorted(ends[:shown].tolist(), key=lambda i: (column[i], i))
        most = sorted(ends[len(column) - shown :].tolist(), key=lambda i: (-column[i], i))
        return Feature(number, float(edges[0]), float(edges[-1]), counts.tolist(), most, least)

    def class_codes(self) -> str | None:
        """Return base64 of one byte per item, its label's position in `classes` or 255; None without labels."""
        return base64.b64encode(self._class_of.tobytes()).decode("ascii") if self.classes else None


def _sorted_by(values: Floats, feature: int) -> NDArray[np.int64]:
    """Return the numbers of all items, largest value of a feature first."""
    return np.argsort(-values[:, feature - 1], kind="stable")


def _map(values: Floats, x: int, y: int) -> MapPoints:
    """Return the positions of the items on two features, counted from 1."""
    places = np.empty((len(values), 2), "<u2")
    ranges = []
    for axis, feature in enumerate((x, y)):
        column = values[:, feature - 1].astype(np.float64)
        low, high = float(column.min()), float(column.max())
        places[:, axis] = np.rint((column - low) / ((high - low) or 1.0) * _STEPS)
        ranges.append((low, high))
    return MapPoints(ranges[0], ranges[1], base64.b64encode(places.tobytes()).decode("ascii"))


def _classes(metadata: Sequence[Metadata]) -> tuple[list[str], NDArray[np.uint8]]:
    """Return the most frequent labels and each item's position among them."""
    given = (item.get(LABEL) for item in metadata)
    labels = [None if label is None else str(label) for label in given]
    frequent = Counter(label for label in labels if label is not None).most_common(_NAMED_CLASSES)
    names = sorted(label for label, _ in frequent)
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place.get(label, OTHER) if label is not None else OTHER for label in labels], np.uint8)
