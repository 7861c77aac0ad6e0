"""Pairs of vectors that belong together, divided into pairs for fitting and held-out pairs.

    partners(x, y)               row i of x with row i of y: title and text, image and caption
    indexed(x, pairs, weights)   rows given by a list of index pairs: clicks, edges, duplicates
    views(x, [a, b])             several vectors of each item, all pairs of them
    second(x, z)                 vectors of the same items by another model
    labelled(x, labels)          rows of one class
    mutual_neighbours(x)         rows that are among each other's nearest

`relations.lagged` has the pairs of a time series. Each returns a `VectorPairs`: row numbers into vectors, which are not
read yet.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.trajectories import TimeSeries
from eigenmap.data.vectors.vectors import BLOCK, Floats, Vectors

Rows = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]
Kind = Literal["partners", "index pairs", "views", "second model", "lag", "labels", "neighbours"]

HELD_SHARE, FEWEST_HELD, MOST_HELD = 0.1, 16, 5_000
"""Share of the items that are held out, and bounds on their number."""
LARGEST_KIN = 0.01
"""Share of the pairs or items above which those that share a row are not held out: too few would be left to fit to."""
DRAWS = 4
"""Pairs drawn per labelled row."""
NEIGHBOURS = 10
"""Number of nearest rows among which mutual neighbours are searched."""
MOST_SEARCHED = 100_000
"""Maximum number of rows, evenly spaced, among which mutual neighbours are searched."""
_SEARCHED = 1_024
"""Rows whose neighbours are searched at a time."""


class Block(NamedTuple):
    """A block of pairs: rows of both sides, and weights or None."""

    left: Floats
    right: Floats
    weights: Weights | None


@dataclass(frozen=True)
class Part:
    """Pairs (left row i_k, right row j_k), of weight 1 unless `weights` is given."""

    left: Vectors
    right: Vectors
    i: Rows
    j: Rows
    weights: Weights | None = None

    def __len__(self) -> int:
        return len(self.i)

    def where(self, keep: npt.NDArray[Any]) -> Part:
        """Return the pairs selected by a mask or a list of positions."""
        return replace(
            self, i=self.i[keep], j=self.j[keep], weights=None if self.weights is None else self.weights[keep]
        )

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """Yield all pairs, `size` at a time."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            weights = None if self.weights is None else self.weights[part]
            yield Block(self.left.take(self.i[part]), self.right.take(self.j[part]), weights)


@dataclass(frozen=True)
class VectorPairs:
    """Pairs for fitting, and held-out pairs.

    Attributes:
        kind: source of the pairs.
        fit: pairs for fitting.
        held_out: pairs for choosing; none of their items is in `fit`.
        two_spaces: whether the two sides are different spaces, each with its own map.
        labels: classes of the rows, if the pairs come from labels.
        series: the time series, if the pairs come from a lag.

    """

    kind: Kind
    fit: Sequence[Part]
    held_out: Sequence[Part]
    two_spaces: bool = False
    labels: Rows | None = None
    series: TimeSeries | None = None

    @property
    def left(self) -> Vectors:
        """Vectors of the left side."""
        return self.fit[0].left

    @property
    def right(self) -> Vectors:
        """Vectors of the right side."""
        return self.fit[0].right

    @property
    def count(self) -> int:
        """Number of pairs for fitting."""
        return sum(map(len, self.fit))

    def digest(self) -> str:
        """Return a digest of the pairs for fitting and their weights, and of some rows of all vectors."""
        digest = hashlib.sha256(self.kind.encode())
        for part in self.fit:
            digest.update(f"{len(part)} {part.left.digest()} {part.right.digest()}".encode())
            for numbers in (part.i, part.j, part.weights):
                if numbers is not None:
                    digest.update(np.ascontiguousarray(numbers).data)
        return digest.hexdigest()[:16]


def partners(x: Vectors, y: Vectors, seed: int = 0, two_spaces: bool = False) -> VectorPairs:
    """Pair row i of x with row i of y."""
    _require_equal_lengths(x, y)
    two_spaces = two_spaces or x.n_features != y.n_features
    if not two_spaces and _all_equal(x, y):
        raise EigenmapError(
            f"Every row of {y.name} equals the same row of {x.name}, so there is nothing to learn; give other partners."
        )
    held, kin = _held_aligned([x, y], seed)
    return _aligned("partners", [(x, y)], held, two_spaces, kin)


def views(x: Vectors, others: Sequence[Vectors], seed: int = 0) -> VectorPairs:
    """Pair all views of an item: row i of x and of all others, in one space."""
    for other in others:
        _require_equal_lengths(x, other)
        if other.n_features != x.n_features:
            raise EigenmapError(
                f"{other.name} has {other.n_features:,} numbers per row and {x.name} has {x.n_features:,}, but views "
                "must be in one space; give vectors of another space as pairs."
            )
        if _all_equal(x, other):
            raise EigenmapError(f"Every row of {other.name} equals the same row of {x.name}; give a different view.")
    held, kin = _held_aligned([x, *others], seed)
    return _aligned("views", list(combinations([x, *others], 2)), held, False, kin)


def second(x: Vectors, z: Vectors, seed: int = 0) -> VectorPairs:
    """Pair row i of x with row i of z, the vector of the same item by another model."""
    _require_equal_lengths(x, z)
    if x.n_features == z.n_features and _all_equal(x, z):
        raise EigenmapError(f"{z.name} contains the same vectors as {x.name}; give those of another model.")
    _require_different_rows(z)
    return _aligned("second model", [(x, z)], _held_rows(len(x), seed), True)


def labelled(x: Vectors, labels: npt.NDArray[Any], seed: int = 0) -> VectorPairs:
    """Pair rows of one class; rows without a label (negative, empty, None or NaN) are left out."""
    numbers = class_numbers(labels, x)
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(numbers >= 0)
    if not len(known) or np.unique(numbers[known]).size < 2:
        raise EigenmapError("The labels must contain at least two classes.")
    held = _held_items(x, known, seed)
    i, j = _same_class(numbers, known[~held[known]], rng, DRAWS)
    test_i, test_j = _same_class(numbers, known[held[known]], rng, 1)
    if not len(i) or not len(test_i):
        raise EigenmapError("Too few rows share a label to hold some of them out; give larger classes.")
    return VectorPairs("labels", [Part(x, x, i, j)], [Part(x, x, test_i, test_j)], labels=numbers)


def indexed(
    x: Vectors, pairs: npt.NDArray[Any], weights: object = None, others: Vectors | None = None, seed: int = 0
) -> VectorPairs:
    """Pair row pairs[k, 0] of x with row pairs[k, 1] of `others` (default x); pairs of weight 0 are left out."""
    y = x if others is None else others
    two_spaces = others is not None and others.n_features != x.n_features
    i, j = _checked_pairs(pairs, x, y)
    given = _checked_weights(weights, len(i))
    every = Part(x, y, i, j, given)
    if y is x:
        every = every.where(i != j)
        if not len(every):
            raise EigenmapError("Every pair joins a row with itself; give pairs of different rows.")
    if every.weights is not None:
        every = every.where(every.weights > 0)  # as if they were not listed: no search should find them
        if not len(every):
            raise EigenmapError("Every pair of different rows has weight 0; give some a weight.")
    return replace(_by_item("index pairs", every, seed), two_spaces=two_spaces)


def mutual_neighbours(x: Vectors, count: int = NEIGHBOURS, seed: int = 0) -> VectorPairs:
    """Pair rows that are among each other's `count` nearest by cosine."""
    _require_different_rows(x)
    n = len(x)
    rows = np.arange(n) if n <= MOST_SEARCHED else np.linspace(0, n - 1, MOST_SEARCHED).astype(np.int64)
    count = whole_number(count, "neighbours", 1, MOST_SEARCHED - 1)
    if n <= count:
        raise EigenmapError(f"{x.name} has too few rows, {n:,}, for {count:,} neighbours of each; give more.")
    i, j = _mutual(x, rows, count)
    if not len(i):
        raise EigenmapError(f"No two rows of {x.name} are among each other's {count} nearest; use more neighbours.")
    return _by_item("neighbours", Part(x, x, i, j), seed)


def class_numbers(labels: npt.NDArray[Any], x: Vectors) -> Rows:
    """Return labels as class numbers, -1 for rows without one."""
    labels = np.asarray(labels)
    if labels.ndim == 1 and labels.dtype.kind == "O":
        labels = np.array([_label_text(label) for label in labels])
    if labels.ndim != 1 or labels.dtype.kind not in "iuUS":
        raise EigenmapError("labels must be one whole number or string per row.")
    if len(labels) != len(x):
        raise EigenmapError(
            f"labels has {len(labels):,} entries for the {len(x):,} rows of {x.name}; give one per row."
        )
    if labels.dtype.kind in "iu":
        _, numbers = np.unique(labels, return_inverse=True)
        return np.where(labels < 0, -1, numbers).astype(np.int64)
    texts = labels.astype(str)
    _, numbers = np.unique(texts, return_inverse=True)
    return np.where(texts == "", -1, numbers).astype(np.int64)


def _label_text(label: object) -> str:
    """Return a label of a list of mixed kinds as text, empty for None, NaN and negative numbers."""
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return ""
    if isinstance(label, int | np.integer):
        return "" if label < 0 else str(label)
    if not isinstance(label, str | bytes):
        raise EigenmapError(f"labels must be whole numbers or strings, or None for none, not {label!r}.")
    return label if isinstance(label, str) else label.decode(errors="replace")


# Held-out items


def _held_rows(n: int, seed: int) -> Rows:
    """Draw the row numbers to hold out."""
    count = min(MOST_HELD, max(FEWEST_HELD, round(HELD_SHARE * n)))
    if n < 2 * count:
        raise EigenmapError(f"There are too few pairs, {n:,}, to hold some of them out; give at least {2 * count}.")
    return np.sort(np.random.default_rng(seed).permutation(n)[:count])


def _held_items(x: Vectors, items: Rows, seed: int) -> npt.NDArray[np.bool_]:
    """Draw items of x to hold out, and return a mask of their rows and of all rows equal to one of them.

    Without the latter, the documents of a held-out query would be known from the same query in another row.
    """
    keys = x.row_keys()
    _, first, size = np.unique(keys[items], return_index=True, return_counts=True)
    different = items[np.sort(first[size <= max(1, LARGEST_KIN * len(items))])]
    if len(different) >= 2 * FEWEST_HELD:
        return np.isin(keys, keys[different[_held_rows(len(different), seed)]])
    held = np.zeros(len(x), bool)  # too few different rows to hold some of them out
    held[items[_held_rows(len(items), seed)]] = True
    return held


def _held_aligned(sides: Sequence[Vectors], seed: int) -> tuple[Rows, Rows]:
    """Draw the items to hold out, and name their kin, which nothing may use: other items that contain an equal row.

    Without this, the held-out partner of a picture would be known from another picture with the same caption.
    """
    count = len(sides[0])
    groups = _kinship(sides)
    if groups is not None:
        members, first, size = np.unique(groups, return_index=True, return_counts=True)
        usable = np.flatnonzero(size <= max(1, LARGEST_KIN * count))
        if len(usable) >= 2 * FEWEST_HELD:
            drawn = usable[_held_rows(len(usable), seed)]
            held = np.sort(first[drawn])
            return held, np.setdiff1d(np.flatnonzero(np.isin(groups, members[drawn])), held)
    return _held_rows(count, seed), np.zeros(0, np.int64)  # too few different partners to hold some of them out


def _kinship(sides: Sequence[Vectors]) -> Rows | None:
    """Number the items: those that contain an equal row, also by way of others, share a number. None if all differ."""
    numbers = [np.unique(side.row_keys(), return_inverse=True)[1] for side in sides]
    count = len(sides[0])
    if all(int(number.max()) + 1 == count for number in numbers):
        return None
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    starts = np.cumsum([0, *(int(number.max()) + 1 for number in numbers)])
    nodes = [start + number for start, number in zip(starts, numbers, strict=False)]
    ends = np.tile(nodes[0], len(sides) - 1), np.concatenate(nodes[1:])
    joined = coo_matrix((np.ones(len(ends[0]), bool), ends), shape=(starts[-1],) * 2)
    groups: Rows = connected_components(joined, directed=False)[1][nodes[0]].astype(np.int64)
    return groups


def _aligned(
    kind: Kind, sides: Sequence[tuple[Vectors, Vectors]], held: Rows, two_spaces: bool, kin: Rows | None = None
) -> VectorPairs:
    """Return pairs of rows with the same number; those of `kin` are left out."""
    rows = np.arange(len(sides[0][0]))
    rest = np.delete(rows, held if kin is None else np.concatenate([held, kin]))
    return VectorPairs(
        kind, [Part(a, b, rest, rest) for a, b in sides], [Part(a, b, held, held) for a, b in sides], two_spaces
    )


def _by_item(kind: Kind, every: Part, seed: int) -> VectorPairs:
    """Hold out some left items with all of their pairs; in one space, no pair for fitting contains them."""
    held = _held_items(every.left, np.unique(every.i), seed)
    test = held[every.i]
    free = ~test if every.right is not every.left else ~(test | held[every.j])
    return VectorPairs(kind, [every.where(free)], [every.where(test)])


def _same_class(numbers: Rows, rows: Rows, rng: np.random.Generator, draws: int) -> tuple[Rows, Rows]:
    """Draw pairs of different rows of one class: `draws` partners per row."""
    order = rows[np.argsort(numbers[rows], kind="stable")]
    _, start, size = np.unique(numbers[order], return_index=True, return_counts=True)
    first, count = np.repeat(start, size), np.repeat(size, size)
    position = np.arange(len(order))
    several = count > 1
    i, j = [], []
    for _ in range(draws):
        step = rng.integers(1, np.maximum(count, 2))
        other = first + (position - first + step) % count
        i.append(order[several])
        j.append(order[other[several]])
    return np.concatenate(i), np.concatenate(j)


# Checks


def _require_equal_lengths(x: Vectors, y: Vectors) -> None:
    if len(x) != len(y):
        raise EigenmapError(
            f"{x.name} has {len(x):,} rows and {y.name} has {len(y):,}, but both need the same number, since row i "
            "belongs to row i."
        )


def _all_equal(x: Vectors, y: Vectors) -> bool:
    """Tell whether all rows are the same on both sides; a sample is compared first, which is nearly always enough."""
    if x.n_features != y.n_features:
        return False
    rows = _some_rows(x)
    if not (x.array[rows] == y.array[rows]).all():
        return False
    return all((a == b).all() for a, b in zip(x.blocks(), y.blocks(), strict=True))


def _require_different_rows(x: Vectors) -> None:
    """Raise if all rows are the same; a sample is compared first, which is nearly always enough."""
    first = x.array[:1]
    same = bool((x.array[_some_rows(x)] == first).all()) and all((rows == first).all() for rows in x.blocks())
    if same and len(x) > 1:
        raise EigenmapError(f"All rows of {x.name} are the same, so there is nothing to learn.")


def _some_rows(x: Vectors) -> Rows:
    """Return the numbers of up to 64 rows, evenly spaced."""
    return np.linspace(0, len(x) - 1, min(len(x), 64)).astype(np.int64)


def _checked_pairs(pairs: npt.NDArray[Any], x: Vectors, y: Vectors) -> tuple[Rows, Rows]:
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise EigenmapError(
            f"Index pairs must be a matrix of whole numbers with two columns, not {pairs.dtype} of shape "
            f"{pairs.shape}; partner vectors must be floats."
        )
    columns = []
    for column, side in enumerate((x, y)):
        rows = np.array(pairs[:, column], dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(side)):
            at = int(np.flatnonzero((rows < 0) | (rows >= len(side)))[0])
            raise EigenmapError(
                f"Pair {at:,} (counted from 0) contains row {rows[at]}; {side.name} has rows 0 to {len(side) - 1:,}."
            )
        columns.append(rows)
    if not len(pairs):
        raise EigenmapError("pairs is empty; give at least one pair.")
    return columns[0], columns[1]


def _checked_weights(weights: object, count: int) -> Weights | None:
    if weights is None:
        return None
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise EigenmapError("weights must be numbers, one per pair.") from None
    if given.shape != (count,):
        raise EigenmapError(f"weights must be {count:,} numbers, one per pair, not of shape {given.shape}.")
    if not np.isfinite(given).all() or (given < 0).any() or not given.any():
        raise EigenmapError("weights must be finite, not negative, and not all 0.")
    # Only ratios matter, and neither squares nor float32 must overflow or vanish.
    return given if 1e-30 < given.max() < 1e30 else given / given.max()


def _mutual(x: Vectors, rows: Rows, count: int) -> tuple[Rows, Rows]:
    """Return pairs of rows that are among each other's nearest by cosine, in both orders."""
    unit = x.take(rows)
    # Scaled by powers of two first: norms of very large rows would overflow, and those of very small ones vanish.
    unit = np.ldexp(unit, -np.frexp(np.abs(unit).max(axis=1, keepdims=True))[1]).astype(np.float32)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-30)
    found = _nearest(unit, count + 1)
    i = np.repeat(np.arange(len(unit)), found.shape[1])
    j = found.ravel()
    proper = (j >= 0) & (i != j)
    keys = i[proper] * len(unit) + j[proper]
    back = j[proper] * len(unit) + i[proper]
    both = keys[np.isin(keys, back)]
    return rows[both // len(unit)], rows[both % len(unit)]


def _nearest(unit: npt.NDArray[np.float32], count: int) -> Rows:
    """Return the `count` rows with the largest products with each row, exactly if there are few rows."""
    from eigenmap.relations.neighbours import EFFORT, EXACT, LINKS

    if len(unit) <= EXACT:
        every = torch.from_numpy(unit)
        parts = torch.split(every, _SEARCHED)
        return torch.cat([(part @ every.T).topk(count, dim=1).indices for part in parts]).numpy()
    import faiss

    index: Any = faiss.IndexHNSWFlat(unit.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = EFFORT
    index.add(unit)
    found: Rows = index.search(unit, count)[1]
    return found
