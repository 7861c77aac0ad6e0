"""Exact ranking of stored codes by a prefix: of all items, or of each query's own candidates.

Many queries at once: prefixes are copied into contiguous blocks of rows, made comparable, and ranked by faiss; a prefix
that fits into the memory given is kept for the next search at that length. A few queries: products are summed over
the column blocks as they lie, so that a length never used before costs no copy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from eigenmap.search.backend import Floats, Mask, Rows
from eigenmap.search.codecs import FloatCodec
from eigenmap.search.columns import Columns

FEW_QUERIES = 8
_ROWS_AT_ONCE = 65_536
_GATHERED_BYTES = 1 << 20
_ODD_AT_ONCE = 4096


class Scanner:
    """Ranks the rows of `columns`, with copies of at most about `memory_bytes`.

    `means` says that what is stored is the mean of the codes it may stand for, as a vector quantiser's levels are. At
    full length the product with it is then the expected cosine (times the item's reliability, see `codecs`), and
    dividing by its norm would undo just what it says about how much of the code is known.
    """

    def __init__(self, columns: Columns, metric: str, memory_bytes: int, means: bool = False) -> None:
        self.columns = columns
        self.metric = metric
        self.memory_bytes = memory_bytes
        self.means = means
        self._kept: tuple[int, Rows | int, Floats] | None = None
        self._squares: dict[int, Floats] = {}
        self._lock = threading.Lock()  # threads of a service may search at the same time

    def forget(self) -> None:
        """Drop what was kept from earlier searches: the rows have changed."""
        self._kept = None
        self._squares.clear()

    def scan(self, queries: Floats, keep: int, among: Mask | None, keepable: bool = True) -> tuple[Floats, Rows]:
        """Best `keep` of the rows `among` (None: of all) by the features the queries have: (scores, rows), best first.

        `keepable` says that the next search will probably ask for the same rows.
        """
        q = comparable(queries, self.metric)
        before = self._kept
        kept = before is not None and before[0] == q.shape[1] and keepable
        # Few rows are gathered one by one; of many all are read, and those that do not count are dropped.
        rows = None if among is None or 4 * np.count_nonzero(among) > self.columns.count else np.flatnonzero(among)
        if len(q) <= FEW_QUERIES and rows is None and not kept and self._lies_as_float32():
            return self._scan_blocks(q, keep, among)
        return self._scan_prefix(q, keep, rows, among, keepable)

    def rerank(self, queries: Floats, candidates: Rows, keep: int) -> tuple[Floats, Rows]:
        """Best `keep` among each query's own candidate rows, by the features the queries have."""
        q = comparable(queries, self.metric)
        of_each, dim = candidates.shape[1], q.shape[1]
        scores = np.empty(candidates.shape, np.float32)
        # Little at a time: what has just been gathered is then multiplied while it is in the processor's cache.
        at_once = max(1, min(self.memory_bytes // 4, _GATHERED_BYTES) // (4 * max(1, of_each) * dim))
        for start in range(0, len(q), at_once):
            own = candidates[start : start + at_once]
            codes = self.columns.take(own.reshape(-1), dim)
            products = codes.reshape(*own.shape, dim) @ q[start : start + at_once, :, None]
            scores[start : start + at_once] = products[:, :, 0]
            if self._divides(dim):
                scores[start : start + at_once] /= norms(codes).reshape(own.shape)
        return best(scores, candidates, keep)

    def _divides(self, dim: int) -> bool:
        """Whether products with stored prefixes of this length become cosines by division."""
        return self.metric == "cosine" and not (self.means and dim == self.columns.n_components)

    def _lies_as_float32(self) -> bool:
        codec = self.columns.codec
        return isinstance(codec, FloatCodec) and codec.dtype == np.float32

    def _scan_prefix(
        self, q: Floats, keep: int, rows: Rows | None, among: Mask | None, keepable: bool
    ) -> tuple[Floats, Rows]:
        import faiss

        scores, found = _nothing(len(q))
        for numbers, prefix in self._prefixes(q.shape[1], rows, among, keepable):
            s, r = faiss.knn(q, prefix, min(keep, len(prefix)), metric=faiss.METRIC_INNER_PRODUCT)
            r = r + numbers if isinstance(numbers, int) else numbers[r]
            scores, found = best(np.hstack([scores, s]), np.hstack([found, r]), keep)
        return scores, found

    def _prefixes(
        self, dim: int, rows: Rows | None, among: Mask | None, keepable: bool
    ) -> Iterator[tuple[Rows | int, Floats]]:
        """(row numbers, or the first of them; comparable prefixes) of the rows asked for, within `memory_bytes`."""
        kept = self._kept
        if keepable and kept is not None and kept[0] == dim:
            yield kept[1:]
            return
        count = self.columns.count if rows is None else len(rows)
        # All at once if that fits. Else a half, since one part is still held while the next is read and has its norms,
        # or a third where a part is also copied without the rows that do not count.
        share = 8 if rows is not None or among is None else 12
        at_once = count if 4 * dim * count <= self.memory_bytes else max(1, self.memory_bytes // (share * dim + 32))
        for start in range(0, count, max(1, at_once)):
            stop = min(start + at_once, count)
            numbers, prefix = self._prefix(start, stop, dim, rows, among)
            if self._divides(dim):
                prefix /= norms(prefix)[:, None]  # in place: a second copy would double the memory
            if keepable and stop - start == count:
                self._kept = (dim, numbers, prefix)
            if len(prefix):
                yield numbers, prefix

    def _prefix(
        self, start: int, stop: int, dim: int, rows: Rows | None, among: Mask | None
    ) -> tuple[Rows | int, Floats]:
        """Prefixes [start, stop) of `rows`, or of all and then those `among` them."""
        if rows is not None:
            return rows[start:stop], self.columns.take(rows[start:stop], dim)
        prefix = self.columns.read(start, stop, dim)
        if among is None:
            return start, prefix
        here = np.flatnonzero(among[start:stop])
        return start + here, prefix[here]

    def _scan_blocks(self, q: Floats, keep: int, among: Mask | None) -> tuple[Floats, Rows]:
        scores, found = _nothing(len(q))
        at_once = max(1, min(_ROWS_AT_ONCE, self.memory_bytes // (16 * max(1, len(q)))))
        for start in range(0, self.columns.count, at_once):
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
            scores, found = best(np.hstack([scores, s]), np.hstack([found, r]), keep)
        return scores, found

    def _products(self, q: Floats, start: int, stop: int) -> Floats:
        """Scores of rows [start, stop), summed over column blocks."""
        dim = q.shape[1]
        total = np.zeros((len(q), stop - start), np.float32)
        for b, (first, end) in enumerate(self.columns.codec.blocks):
            if first >= dim:
                break
            cut = min(end, dim)
            total += q[:, first:cut] @ self.columns.block(b, start, stop)[:, : cut - first].T
        if self.metric == "cosine":
            total /= self._norms(dim, start, stop)
        return total

    def _norms(self, dim: int, start: int, stop: int) -> Floats:
        """Norms of the first `dim` features of rows [start, stop); 1 for a zero row, which then scores 0."""
        with self._lock:
            if dim not in self._squares and 16 * self.columns.count <= self.memory_bytes:
                self._keep_squares(dim)
            kept = self._squares.get(dim)
        squares = self._sum_squares(0, dim, start, stop) if kept is None else kept[start:stop]
        return np.sqrt(np.where(squares > 0, squares, np.float32(1)))

    def _keep_squares(self, dim: int) -> None:
        """Squared norms at `dim`, from those of the longest shorter prefix that is kept, and at every block's end."""
        edges = {end for _, end in self.columns.codec.blocks}
        from_dim = max((d for d in self._squares if d < dim), default=0)
        stops = sorted({edge for edge in edges if from_dim < edge < dim} | {dim})
        for stop in stops:
            squares = self._sum_squares(from_dim, stop, 0, self.columns.count)
            self._squares[stop] = squares + self._squares[from_dim] if from_dim else squares
            from_dim = stop
        while 16 * self.columns.count * (len(self._squares) - 1) > self.memory_bytes:
            self._squares.pop(next(d for d in self._squares if d != dim))

    def _sum_squares(self, low: int, high: int, start: int, stop: int) -> Floats:
        """Sum of squares of features [low, high) of rows [start, stop)."""
        total = np.zeros(stop - start, np.float32)
        for b, (first, end) in enumerate(self.columns.codec.blocks):
            if first < high and end > low:
                cut = self.columns.block(b, start, stop)[:, max(low, first) - first : min(high, end) - first]
                total += np.einsum("ij,ij->i", cut, cut)
        return total


def comparable(prefixes: Floats, metric: str) -> Floats:
    """What inner products are taken of: unit rows for cosine (a zero row stays zero), else the rows."""
    return np.ascontiguousarray(prefixes) if metric == "inner" else prefixes / norms(prefixes)[:, None]


def norms(rows: Floats) -> Floats:
    """Norm of each row; 1 for a row of zeros, which then scores 0 everywhere."""
    squares = np.einsum("ij,ij->i", rows, rows)
    odd = ~((squares > 1e-30) & (squares < 1e30))  # beyond what float32 can square
    norm: Floats = np.sqrt(squares)
    places = np.flatnonzero(odd)
    for start in range(0, len(places), _ODD_AT_ONCE):
        part = places[start : start + _ODD_AT_ONCE]
        exact = np.linalg.norm(rows[part].astype(np.float64), axis=1)
        norm[part] = np.where(exact == 0, 1, exact)
    return norm


def best(scores: Floats, rows: Rows, keep: int) -> tuple[Floats, Rows]:
    """Order each line by falling score, equal scores by row, and cut it at `keep`."""
    if 4 * keep < scores.shape[1]:  # find the best before sorting them: most of a long shortlist is not among them
        part = np.argpartition(-scores, keep - 1, axis=1)[:, :keep]
        scores, rows = np.take_along_axis(scores, part, axis=1), np.take_along_axis(rows, part, axis=1)
    order = np.lexsort((rows, -scores), axis=-1)[:, :keep]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _nothing(queries: int) -> tuple[Floats, Rows]:
    return np.empty((queries, 0), np.float32), np.empty((queries, 0), np.int64)
