"""Exact ranking of stored codes by a prefix, over all items or over candidates of each query.

For many queries, prefixes are copied into contiguous blocks of rows, normalised, and ranked by faiss; a prefix that
fits into the given memory is kept for the next search at that length. For a few queries, products are summed over the
column blocks in place, so that a length never used before needs no copy. A cancelled search (`cancellation`) ends
between two blocks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from eigenmap.search import cancellation, forking
from eigenmap.search.backend import Floats, Mask, RowNumbers
from eigenmap.search.codecs import FloatCodec
from eigenmap.search.columns import Columns
from eigenmap.search.shared_cache import SharedCache

FEW_QUERIES = 8
_ROWS_AT_ONCE = 65_536
_GATHERED_BYTES = 1 << 20
_ODD_AT_ONCE = 4096
_SMALLEST, _LARGEST = np.float32(1e-30), np.float32(1e30)
"""Range of squared norms that are accurate in float32."""


class Norms(NamedTuple):
    """Squared norms of rows at one prefix length, norms to divide by, and the rows for which float32 fails."""

    squares: Floats
    norms: Floats
    odd: RowNumbers


class Scanner:
    """Ranks the rows of `columns`, using about `memory_bytes` for copies.

    Safe for any number of threads: the rows do not change, and cached values are made once.

    `means` states that a stored code is the mean of the codes that it represents, like the levels of a vector
    quantiser. At full length the product with it is then the expected cosine (times the item's reliability, see
    `codecs`), and dividing by its norm would discard the information about how much of the code is known.
    """

    def __init__(self, columns: Columns, metric: str, memory_bytes: int, means: bool = False) -> None:
        self.columns = columns
        self.metric = metric
        self.memory_bytes = memory_bytes
        self.means = means
        self._kept: SharedCache[int, tuple[RowNumbers | int, Floats]] = SharedCache(1)
        """Prefixes of the last length searched."""
        self._norms: SharedCache[int, Norms] = SharedCache(max(1, memory_bytes // (16 * max(1, columns.count))))

    def scan(self, queries: Floats, keep: int, among: Mask | None, keepable: bool = True) -> tuple[Floats, RowNumbers]:
        """Return scores and rows of the best `keep` among the rows `among` (None: all), by the features of the queries.

        `keepable` indicates that the next search will probably need the same rows.
        """
        q = comparable(queries, self.metric)
        kept = keepable and self._kept.peek(q.shape[1]) is not None
        # Few rows are gathered one by one; for many, all are read and the others dropped.
        rows = None if among is None or 4 * np.count_nonzero(among) > self.columns.count else np.flatnonzero(among)
        if len(q) <= FEW_QUERIES and rows is None and not kept and self._is_float32():
            return self._scan_blocks(q, keep, among)
        return self._scan_prefix(q, keep, rows, among, keepable)

    def rerank(self, queries: Floats, candidates: RowNumbers, keep: int) -> tuple[Floats, RowNumbers]:
        """Return the best `keep` among each query's candidate rows, by the features of the queries."""
        q = comparable(queries, self.metric)
        of_each, dim = candidates.shape[1], q.shape[1]
        scores = np.empty(candidates.shape, np.float32)
        # In small pieces, so that gathered rows are still in the processor's cache when multiplied.
        at_once = max(1, min(self.memory_bytes // 4, _GATHERED_BYTES) // (4 * max(1, of_each) * dim))
        for start in range(0, len(q), at_once):
            cancellation.raise_if_cancelled()
            own = candidates[start : start + at_once]
            codes = self.columns.take(own.reshape(-1), dim)
            norms = divisors(codes).reshape(own.shape) if self._divides(dim) else None
            products = codes.reshape(*own.shape, dim) @ q[start : start + at_once, :, None]
            scores[start : start + at_once] = products[:, :, 0]
            if norms is not None:
                scores[start : start + at_once] /= norms
        return top_scores(scores, candidates, keep)

    def _divides(self, dim: int) -> bool:
        """Tell whether products with stored prefixes of this length must be divided by norms."""
        return self.metric == "cosine" and not (self.means and dim == self.columns.n_components)

    def _is_float32(self) -> bool:
        codec = self.columns.codec
        return isinstance(codec, FloatCodec) and codec.dtype == np.float32

    def _scan_prefix(
        self, q: Floats, keep: int, rows: RowNumbers | None, among: Mask | None, keepable: bool
    ) -> tuple[Floats, RowNumbers]:
        faiss = forking.faiss()
        scores, found = nothing(len(q))
        for numbers, prefix in self._prefixes(q.shape[1], rows, among, keepable):
            s, r = faiss.knn(q, prefix, min(keep, len(prefix)), metric=faiss.METRIC_INNER_PRODUCT)
            r = r + numbers if isinstance(numbers, int) else numbers[r]
            scores, found = top_scores(np.hstack([scores, s]), np.hstack([found, r]), keep)
        return scores, found

    def _prefixes(
        self, dim: int, rows: RowNumbers | None, among: Mask | None, keepable: bool
    ) -> Iterator[tuple[RowNumbers | int, Floats]]:
        """Yield (row numbers or the first of them, normalised prefixes) of the selected rows, within `memory_bytes`."""
        cancellation.raise_if_cancelled()
        count = self.columns.count if rows is None else len(rows)
        if 4 * dim * count <= self.memory_bytes:  # all at once
            make = partial(self._prefix, 0, count, dim, rows, among)
            numbers, prefix = self._kept.get(dim, make) if keepable else make()
            if len(prefix):
                yield numbers, prefix
            return
        # Otherwise half of the memory per part, since one part is kept while the next is read, or a third if the
        # selected rows of a part are copied as well.
        share = 8 if rows is not None or among is None else 12
        at_once = max(1, self.memory_bytes // (share * dim + 32))
        for start in range(0, count, at_once):
            cancellation.raise_if_cancelled()
            numbers, prefix = self._prefix(start, min(start + at_once, count), dim, rows, among)
            if len(prefix):
                yield numbers, prefix

    def _prefix(
        self, start: int, stop: int, dim: int, rows: RowNumbers | None, among: Mask | None
    ) -> tuple[RowNumbers | int, Floats]:
        """Return normalised prefixes [start, stop) of `rows`, or of all rows and then those `among` them."""
        numbers: RowNumbers | int = start
        if rows is not None:
            numbers, prefix = rows[start:stop], self.columns.take(rows[start:stop], dim)
        else:
            prefix = self.columns.read(start, stop, dim)
            if among is not None:
                here = np.flatnonzero(among[start:stop])
                numbers, prefix = start + here, prefix[here]
        if self._divides(dim):
            prefix /= divisors(prefix)[:, None]  # in place: a second copy would double the memory
        return numbers, prefix

    def _scan_blocks(self, q: Floats, keep: int, among: Mask | None) -> tuple[Floats, RowNumbers]:
        scores, found = nothing(len(q))
        at_once = max(1, min(_ROWS_AT_ONCE, self.memory_bytes // (16 * max(1, len(q)))))
        for start in range(0, self.columns.count, at_once):
            cancellation.raise_if_cancelled()
            stop = min(start + at_once, self.columns.count)
            s = self._products(q, start, stop)
            here = np.arange(start, stop)
            if among is not None:
                here = start + np.flatnonzero(among[start:stop])
                s = s[:, here - start]
            if keep < len(here):
                part = np.argpartition(-s, keep - 1, axis=1)[:, :keep]
                s, r = np.take_along_axis(s, part, axis=1), here[part]
            else:
                r = np.broadcast_to(here, s.shape)
            scores, found = top_scores(np.hstack([scores, s]), np.hstack([found, r]), keep)
        return scores, found

    def _products(self, q: Floats, start: int, stop: int) -> Floats:
        """Return scores of rows [start, stop), summed over column blocks."""
        dim = q.shape[1]
        total = np.zeros((len(q), stop - start), np.float32)
        for b, (first, end) in enumerate(self.columns.codec.blocks):
            if first >= dim:
                break
            cut = min(end, dim)
            with np.errstate(over="ignore", invalid="ignore"):  # rows of very large numbers are handled below
                total += q[:, first:cut] @ self.columns.block(b, start, stop)[:, : cut - first].T
        if self.metric == "cosine":
            norms = self._norms_of(dim, start, stop)
            with np.errstate(over="ignore", invalid="ignore"):
                total /= norms.norms
            for part in _parts(norms.odd):
                total[:, part] = q @ comparable(self.columns.take(start + part, dim), "cosine").T
        return total

    def _norms_of(self, dim: int, start: int, stop: int) -> Norms:
        """Return norms of the first `dim` features of rows [start, stop)."""
        if 16 * self.columns.count > self.memory_bytes:
            return _norms(self._sum_squares(0, dim, start, stop))
        kept = self._all_norms(dim)
        low, high = np.searchsorted(kept.odd, (start, stop))
        return Norms(kept.squares[start:stop], kept.norms[start:stop], kept.odd[low:high] - start)

    def _all_norms(self, dim: int) -> Norms:
        """Return norms of all rows, computed by column block, so that they do not depend on earlier searches."""

        def make() -> Norms:
            edge = max((first for first, _ in self.columns.codec.blocks if first < dim), default=0)
            squares = self._sum_squares(edge, dim, 0, self.columns.count)
            found = _norms(squares + self._all_norms(edge).squares if edge else squares)
            # Rows of zeros score 0 without division.
            odd = [part[self.columns.take(part, dim).any(axis=1)] for part in _parts(found.odd)]
            return found._replace(odd=np.concatenate([found.odd[:0], *odd]))

        return self._norms.get(dim, make)

    def _sum_squares(self, low: int, high: int, start: int, stop: int) -> Floats:
        """Return the sum of squares of features [low, high) of rows [start, stop)."""
        total = np.zeros(stop - start, np.float32)
        for b, (first, end) in enumerate(self.columns.codec.blocks):
            if first < high and end > low:
                cut = self.columns.block(b, start, stop)[:, max(low, first) - first : min(high, end) - first]
                with np.errstate(over="ignore"):
                    total += np.einsum("ij,ij->i", cut, cut)
        return total


def comparable(prefixes: Floats, metric: str) -> Floats:
    """Return the rows whose inner products are scores: unit rows for cosine (a zero row stays zero), else unchanged."""
    if metric == "inner":
        return np.ascontiguousarray(prefixes)
    rows = np.array(prefixes, np.float32, order="C")
    rows /= divisors(rows)[:, None]
    return rows


def divisors(rows: Floats) -> Floats:
    """Return the norm of each row, 1 for a row of zeros, which then scores 0 everywhere.

    A row whose squares overflow float32 is normalised here, in place, and gets 1 as well, because its products with
    other rows could overflow too.
    """
    with np.errstate(over="ignore"):
        norms = _norms(np.einsum("ij,ij->i", rows, rows))
    for part in _parts(norms.odd):
        exact = rows[part].astype(np.float64)
        norm = np.linalg.norm(exact, axis=1, keepdims=True)
        rows[part] = exact / np.where(norm > 0, norm, 1)
    return norms.norms


def _parts(rows: RowNumbers) -> Iterator[RowNumbers]:
    for start in range(0, len(rows), _ODD_AT_ONCE):
        yield rows[start : start + _ODD_AT_ONCE]


def _norms(squares: Floats) -> Norms:
    odd = np.flatnonzero(~((squares > _SMALLEST) & (squares < _LARGEST)))
    norms = np.sqrt(squares)
    norms[odd] = 1
    return Norms(squares, norms, odd)


def top_scores(scores: Floats, rows: RowNumbers, keep: int) -> tuple[Floats, RowNumbers]:
    """Sort each line by decreasing score, equal scores by row, and cut it at `keep`."""
    if 4 * keep < scores.shape[1]:  # partition before sorting: most of a long shortlist is dropped
        part = np.argpartition(-scores, keep - 1, axis=1)[:, :keep]
        scores, rows = np.take_along_axis(scores, part, axis=1), np.take_along_axis(rows, part, axis=1)
    order = np.lexsort((rows, -scores), axis=-1)[:, :keep]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def nothing(queries: int) -> tuple[Floats, RowNumbers]:
    """Return empty scores and rows."""
    return np.empty((queries, 0), np.float32), np.empty((queries, 0), np.int64)
