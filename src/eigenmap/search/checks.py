"""Validation of arguments to an index."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError, UnknownIdError
from eigenmap.core.words import has_too_many_digits, shortened
from eigenmap.search.backend import Floats, Id, IndexSpec, Metadata, Stage
from eigenmap.search.filters import plain_value


def matrix(codes: Any, what: str, one_allowed: bool = False) -> Floats:
    """Convert codes of any float type (NumPy, torch, nested lists) to a new float32 matrix of finite numbers."""
    if hasattr(codes, "detach"):  # torch, without importing it; NumPy has no bfloat16
        codes = codes.detach().float().cpu().numpy()
    try:
        if np.iscomplexobj(codes):
            raise TypeError("complex numbers have no order")
        with np.errstate(over="ignore"):
            rows = np.array(codes, dtype=np.float32, order="C")
    except OverflowError as error:
        raise EigenmapError(f"{what} contain a whole number too large for any float") from error
    except (TypeError, ValueError) as error:
        raise EigenmapError(f"{what} must be a matrix of numbers with one code per row") from error
    if one_allowed and rows.ndim == 1:
        rows = rows[None]
    if rows.ndim != 2:
        raise EigenmapError(f"{what} must be a matrix with one code per row, not of shape {rows.shape}")
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise EigenmapError(f"{what} contain NaN or infinite values, first in row {int(bad.argmax())}")
    return rows


LARGEST_NORM = 1e18
"""Largest norm of codes and queries ranked by inner product, which keeps products far below float32's 3e38."""


def products(rows: Floats, what: str) -> None:
    """Refuse rows whose inner products may overflow float32."""
    if not rows.size or float(np.abs(rows).max()) * math.sqrt(rows.shape[1]) <= LARGEST_NORM:
        return
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    row = int(norms.argmax())
    if norms[row] > LARGEST_NORM:
        raise EigenmapError(
            f"{what} are too large for inner products: row {row} has norm {norms[row]:.2g}, but at most "
            f'{LARGEST_NORM:g} is allowed; scale them down, or use the metric "cosine"'
        )


def queries(given: Any, dim: int, about: IndexSpec) -> Floats:
    """Return queries of an index, of full length or already cut at `dim`, as rows of `dim` features."""
    rows = matrix(given, "queries", one_allowed=True)
    if rows.shape[1] not in (about.n_components, dim):
        either = "" if dim == about.n_components else f", or already cut at dim = {dim}"
        raise EigenmapError(
            f"queries have {rows.shape[1]} features, but this index contains codes of {about.n_components}: "
            f"give queries of {about.n_components}{either}"
        )
    rows = np.ascontiguousarray(rows[:, :dim])
    if about.metric == "inner":
        products(rows, "queries")
    return rows


def names(ids: Iterable[Id]) -> list[Id]:
    """Return ids as plain Python str or int, all of one type and none repeated."""
    given = ids.tolist() if hasattr(ids, "tolist") else ids
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise EigenmapError(f"ids must be a list with one id per code, not {ids!r}")
    plain_ids: list[Id] = []
    for name in given:
        if isinstance(name, str):
            plain_ids.append(str(name))
        elif isinstance(name, int | np.integer) and not isinstance(name, bool):
            plain_ids.append(_not_too_long(int(name)))
        else:
            raise EigenmapError(f"an id must be a string or a whole number, not {name!r}")
    refuse_other_type(plain_ids)
    if len(set(plain_ids)) < len(plain_ids):
        seen: set[Id] = set()
        twice = next(name for name in plain_ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise EigenmapError(f"the id {twice!r} is given twice; give each id once")
    return plain_ids


def _not_too_long(name: int) -> int:
    """Return an id, which is stored as text; raise if it is too long for that."""
    if has_too_many_digits(name):
        raise EigenmapError(f"an id is {shortened(name)}; give it as text")
    return name


def refuse_other_type(ids: Sequence[Id]) -> None:
    """Refuse a mixture of id types."""
    for name in ids:
        if type(name) is not type(ids[0]):
            raise EigenmapError(
                f"ids in one index must be all strings or all whole numbers, but there are {ids[0]!r} and {name!r}"
            )


def refuse_known(name: Id) -> None:
    """Raise the error for an id that exists."""
    raise EigenmapError(f"the id {name!r} already exists; every item needs its own id")


def refuse_unknown(name: Id) -> None:
    """Raise the error for an id that does not exist."""
    raise UnknownIdError(f"the index has no item with id {name!r}")


def metadata(items: Any, count: int) -> list[Metadata] | None:
    """Return one mapping of plain values per item; a table of columns (`{"label": [...]}`) becomes rows."""
    if items is None:
        return None
    if isinstance(items, Mapping):
        columns = {str(name): _column(values, str(name)) for name, values in items.items()}
        for name, values in columns.items():
            if len(values) != count:
                raise EigenmapError(f"metadata has {len(values)} values of {name!r} for {count} items")
        items = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not isinstance(items, Iterable):
        raise EigenmapError(f'metadata must be a list of mappings such as {{"label": "cat"}}, not {items!r}')
    rows = list(items)
    if len(rows) != count:
        raise EigenmapError(f"there are {count} items but {len(rows)} metadata entries; give one mapping per item")
    for row in rows:
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            raise EigenmapError(f'metadata of an item must be a mapping such as {{"label": "cat"}}, not {row!r}')
    return [{name: plain_value(value, name) for name, value in row.items()} for row in rows]


def _column(values: Any, name: str) -> list[Any]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise EigenmapError(f"metadata {name!r} must be a list with one value per item, not {values!r}")
    return list(values)


def funnel(stages: Any, top: int | None, n_components: int) -> list[Stage]:
    """Return stages of increasing length and decreasing size; the last one keeps `top`, if given."""
    try:
        pairs = [(dim, keep) for dim, keep in stages]
    except (TypeError, ValueError):
        raise EigenmapError(
            "funnel must be a list of (features, items kept), such as [(8, 2000), (32, 200), (256, 10)]"
        ) from None
    if not pairs:
        raise EigenmapError("funnel is empty; give at least one stage (features, items kept)")
    found: list[Stage] = []
    for dim, keep in pairs:
        low = found[-1].dim if found else 1
        high = found[-1].keep if found else None
        found.append(
            Stage(
                whole_number(dim, "the features of a stage of the funnel", low, n_components),
                whole_number(keep, "the items kept by a stage of the funnel", 1, high),
            )
        )
    if top is None:
        return found
    if found[-1].keep < top:
        raise EigenmapError(f"the last stage of the funnel keeps {found[-1].keep} items, fewer than top = {top}")
    return [*found[:-1], Stage(found[-1].dim, top)]
