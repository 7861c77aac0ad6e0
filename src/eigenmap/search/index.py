"""CodeIndex: exact search among ordered codes, at a length chosen for each query.

One matrix holds the full codes. A search cuts queries and codes at `dim`, normalises what is left (cosine) and takes
the largest inner products with faiss, block by block, so that a memory-mapped matrix of any size is searched in
bounded memory. A funnel first ranks everything by very few features and then only a shortlist by more:

    index.search(queries, top=10, dim=64, shortlist_dim=16, shortlist=200)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenmap.errors import EigenmapError
from eigenmap.evaluation.checks import whole_number
from eigenmap.search import directory
from eigenmap.search.store import CodeStore

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class Results(NamedTuple):
    """What a search found, the best first."""

    ids: list[list[str | int]]
    """One list per query."""
    scores: Floats
    """(n_queries, top) cosines or inner products, float32."""


class CodeIndex:
    """Codes with their ids, searched exactly by any prefix.

    Equal scores come in the order in which the items were added (where more items tie than fit, which of them
    are returned is up to faiss). `metric` is "cosine" or "inner"; `fingerprint` may name the model that made the
    codes; `memory_bytes` bounds the copies a search makes: a prefix that fits in it is kept for the next search
    at the same length.

    >>> index = CodeIndex(2)
    >>> index.add([[1.0, 0.0], [0.6, 0.8]], ["east", "north-east"])
    >>> index.search([[0.0, 2.0]], top=1).ids
    [['north-east']]
    """

    def __init__(
        self,
        n_components: int,
        metric: str = "cosine",
        *,
        fingerprint: str | None = None,
        memory_bytes: int = 256 * 2**20,
    ) -> None:
        if metric not in directory.METRICS:
            raise EigenmapError(f"metric must be one of {', '.join(directory.METRICS)}, not {metric!r}")
        self.n_components = whole_number(n_components, "n_components")
        self.metric = metric
        self.fingerprint = fingerprint
        self.memory_bytes = whole_number(memory_bytes, "memory_bytes")
        self._store = CodeStore(self.n_components)
        self._ids: list[str | int] = []
        self._known: set[str | int] | None = None
        self._kept_prefix: tuple[int, Floats] | None = None

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> list[str | int]:
        """The ids of all items, in the order in which they were added."""
        return list(self._ids)

    def add(self, codes: Any, ids: Iterable[str | int]) -> None:
        """Add (n, n_components) codes, numpy or torch of any float type, with one new id each: all str or all int.

        If anything is wrong nothing is added.
        """
        matrix = _matrix(codes, "codes")
        if matrix.shape[1] != self.n_components:
            raise EigenmapError(
                f"codes have {matrix.shape[1]} features, but this index holds codes of {self.n_components}"
            )
        names = _names(ids)
        if len(names) != len(matrix):
            raise EigenmapError(f"there are {len(matrix)} codes but {len(names)} ids; give one id per code")
        if self._known is None:
            self._known = set(self._ids)
        _refuse_other_type(self._ids[:1] + names)
        _refuse_duplicates(names, self._known)

        self._store.append(matrix)
        self._ids.extend(names)
        self._known.update(names)
        self._kept_prefix = None

    def search(
        self,
        queries: Any,
        top: int = 10,
        dim: int | None = None,
        shortlist_dim: int | None = None,
        shortlist: int | None = None,
    ) -> Results:
        """Find the `top` best items of each query, comparing the first `dim` features (default all).

        Queries are one code or one per row, of full length or already cut at `dim`. With `shortlist_dim` and
        `shortlist`, everything is ranked by the first `shortlist_dim` features and only the best `shortlist` items
        by `dim`. Fewer than `top` are returned if there are no more.
        """
        if not self._ids:
            raise EigenmapError("the index is empty; add codes before searching")
        dim = self.n_components if dim is None else whole_number(dim, "dim", 1, self.n_components)
        top = whole_number(top, "top")
        cut = self._cut_queries(queries, dim)
        if shortlist_dim is None and shortlist is None:
            scores, rows = self._scan(cut, top)
        elif shortlist_dim is None or shortlist is None:
            raise EigenmapError("shortlist_dim and shortlist go together; give both or neither")
        else:
            shortlist_dim = whole_number(shortlist_dim, "shortlist_dim", 1, dim)
            _, rows = self._scan(cut[:, :shortlist_dim], whole_number(shortlist, "shortlist", top))
            scores, rows = self._rerank(cut, rows, top)
        return Results([[self._ids[row] for row in found] for found in rows.tolist()], scores)

    def save(
        self,
        path: str | os.PathLike[str],
        overwrite: bool = False,
        model_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the index as a directory, whole or not at all; an existing index only with `overwrite`.

        `model_dir`, if given, is copied inside as `model/`.
        """
        if not self._ids:
            raise EigenmapError("the index is empty; add codes before saving")
        header = directory.Header(
            self.n_components, self.metric, len(self), type(self._ids[0]).__name__, self.fingerprint
        )
        directory.write(path, header, self._store, self._ids, overwrite=overwrite, model_dir=model_dir)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, memory_bytes: int = 256 * 2**20) -> CodeIndex:
        """Open a saved index; its codes stay on disk, memory-mapped, so that processes share them."""
        header, codes, ids = directory.read(path)
        index = cls(header.n_components, header.metric, fingerprint=header.fingerprint, memory_bytes=memory_bytes)
        index._store = CodeStore(header.n_components, codes)
        index._ids = ids
        return index

    def _cut_queries(self, queries: Any, dim: int) -> Floats:
        matrix = _matrix(queries, "queries", one_allowed=True)
        if matrix.shape[1] not in (self.n_components, dim):
            either = "" if dim == self.n_components else f", or already cut at dim = {dim}"
            raise EigenmapError(
                f"queries have {matrix.shape[1]} features, but this index holds codes of {self.n_components}: "
                f"give queries of {self.n_components}{either}"
            )
        return matrix[:, :dim]

    def _scan(self, queries: Floats, top: int) -> tuple[Floats, Rows]:
        """Best `top` of all items by the features the queries have: (scores, rows), best first."""
        import faiss

        q = self._comparable(np.ascontiguousarray(queries))
        scores, rows = np.empty((len(q), 0), np.float32), np.empty((len(q), 0), np.int64)
        for first, block in self._prefix_blocks(q.shape[1]):
            s, r = faiss.knn(q, block, min(top, len(block)), metric=faiss.METRIC_INNER_PRODUCT)
            scores, rows = _best(np.hstack([scores, s]), np.hstack([rows, r + first]), top)
        return scores, rows

    def _rerank(self, queries: Floats, rows: Rows, top: int) -> tuple[Floats, Rows]:
        """Best `top` among each query's own candidate `rows`, by the features the queries have."""
        q = self._comparable(queries)
        at_once = max(1, self.memory_bytes // (4 * rows.shape[1] * q.shape[1]))
        parts = []
        for start in range(0, len(q), at_once):
            candidates = rows[start : start + at_once]
            distinct, place = np.unique(candidates, return_inverse=True)
            codes = self._comparable(self._store.take(distinct, q.shape[1]))
            of_query = codes[place.reshape(candidates.shape)]
            parts.append(_best((of_query @ q[start : start + at_once, :, None])[:, :, 0], candidates, top))
        return np.concatenate([scores for scores, _ in parts]), np.concatenate([found for _, found in parts])

    def _prefix_blocks(self, dim: int) -> Iterator[tuple[int, Floats]]:
        """(number of the first row, comparable prefixes) of all items, within `memory_bytes`."""
        kept = self._kept_prefix
        if kept is not None and kept[0] == dim:
            yield 0, kept[1]
            return
        rows = max(1, self.memory_bytes // (4 * dim))
        for first, block in self._store.blocks(dim, rows):
            prefix = self._comparable(block)
            if len(prefix) == len(self):
                self._kept_prefix = (dim, prefix)
            yield first, prefix

    def _comparable(self, prefixes: Floats) -> Floats:
        """What inner products are taken of: unit rows for cosine (a zero row stays zero), else the rows."""
        if self.metric == "inner":
            return prefixes
        norm = np.sqrt(np.einsum("ij,ij->i", prefixes, prefixes, dtype=np.float64))
        return prefixes / np.where(norm == 0, 1, norm).astype(np.float32)[:, None]


def _best(scores: Floats, rows: Rows, top: int) -> tuple[Floats, Rows]:
    """Order each line by falling score, equal scores by row, and cut it at `top`."""
    order = np.lexsort((rows, -scores), axis=-1)[:, :top]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _matrix(codes: Any, what: str, one_allowed: bool = False) -> Floats:
    """Codes of any float type, numpy, torch or nested lists, as a float32 matrix of finite numbers."""
    if hasattr(codes, "detach"):  # torch, without importing it; numpy knows no bfloat16
        codes = codes.detach().float().cpu().numpy()
    try:
        with np.errstate(over="ignore"):
            matrix = np.array(codes, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EigenmapError(f"{what} must be a matrix of numbers with one code per row") from error
    if one_allowed and matrix.ndim == 1:
        matrix = matrix[None]
    if matrix.ndim != 2:
        raise EigenmapError(f"{what} must be a matrix with one code per row, not of shape {matrix.shape}")
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        raise EigenmapError(f"{what} hold NaN or infinite values, first in row {int(bad.argmax())}")
    return matrix


def _names(ids: Iterable[str | int]) -> list[str | int]:
    """Ids as plain Python str or int."""
    if isinstance(ids, str | bytes):
        raise EigenmapError("ids must be a list with one id per code, not a single text")
    given = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    names: list[str | int] = []
    for name in given:
        if isinstance(name, str):
            names.append(str(name))
        elif isinstance(name, int | np.integer) and not isinstance(name, bool):
            names.append(int(name))
        else:
            raise EigenmapError(f"an id must be a string or a whole number, not {name!r}")
    return names


def _refuse_other_type(names: list[str | int]) -> None:
    for name in names:
        if type(name) is not type(names[0]):
            raise EigenmapError(
                f"ids must be all strings or all whole numbers in one index, but there are {names[0]!r} and {name!r}"
            )


def _refuse_duplicates(names: list[str | int], known: set[str | int]) -> None:
    seen: set[str | int] = set()
    for name in names:
        if name in known or name in seen:
            raise EigenmapError(f"the id {name!r} is there already; every item needs an id of its own")
        seen.add(name)
