"""Creation and opening of the back end of an index."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from eigenmap.core.addresses import is_database, scheme_of
from eigenmap.core.arguments import a_path, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.search.backend import METHODS, METRICS, PRECISIONS, Approximate, Backend, IndexSpec
from eigenmap.search.directory import Directory

BACKENDS = ("flat", "faiss", "postgres")

Where = str | os.PathLike[str]


def new_index_spec(
    n_components: int,
    metric: str,
    fingerprint: str | None,
    precision: str,
    bytes_per_item: int | None,
    approximate: Approximate | None,
) -> IndexSpec:
    """Return the description of a new index; raise if the settings are invalid."""
    n_components = whole_number(n_components, "n_components")
    if metric not in METRICS:
        raise EigenmapError(f"metric must be one of {', '.join(METRICS)}, not {metric!r}")
    if precision not in PRECISIONS:
        raise EigenmapError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if (bytes_per_item is not None) != (precision in ("bits", "signs")):
        raise EigenmapError('bytes_per_item and precision "bits" or "signs" must be given together')
    if bytes_per_item is not None:
        whole_number(bytes_per_item, "bytes_per_item", 1, n_components)
    if approximate is not None:
        if not isinstance(approximate, Approximate):
            raise EigenmapError(f'approximate must be an Approximate("hnsw", dim=32), not {approximate!r}')
        if approximate.method not in METHODS:
            raise EigenmapError(f"method must be one of {', '.join(METHODS)}, not {approximate.method!r}")
        whole_number(approximate.dim, "dim of the approximate index", 1, n_components)
        whole_number(approximate.shortlist, "shortlist of the approximate index")
        whole_number(approximate.effort, "effort of the approximate index")
    return IndexSpec(n_components, metric, fingerprint, precision, bytes_per_item, approximate)


def _database() -> Any:
    """Import the PostgreSQL back end, whose driver is optional."""
    return import_module("eigenmap.search.postgres").PostgresBackend


def create_backend(backend: str, about: IndexSpec, where: Where | None, table: str, memory_bytes: int) -> Backend:
    """Create an empty index."""
    if backend not in BACKENDS:
        raise EigenmapError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if backend == "postgres":
        if not is_database(where):
            raise EigenmapError("the postgres back end needs where='postgresql://...', the address of the database")
        database: Backend = _database().create(str(where), table, about)
        return database
    if is_database(where):
        raise EigenmapError(f"{scheme_of(str(where))} is a database; use backend='postgres'")
    path = None if where is None else a_path(where, "where")
    if backend == "flat" and about.approximate is not None:
        raise EigenmapError("the flat back end compares every item; use backend='faiss' for an approximate index")
    from eigenmap.search.approximate import FaissBackend
    from eigenmap.search.flat import FlatBackend

    kind = FaissBackend if backend == "faiss" else FlatBackend
    return kind.create(about, path, memory_bytes)


def open_backend(where: Where, table: str, memory_bytes: int) -> Backend:
    """Open an existing index."""
    if is_database(where):
        database: Backend = _database().open(str(where), table)
        return database
    path = a_path(where, "where")
    from eigenmap.search.approximate import FaissBackend
    from eigenmap.search.flat import FlatBackend

    directory = Directory.open(path)
    kind = FlatBackend if directory.about.approximate is None else FaissBackend
    return kind(directory.about, memory_bytes, directory)
