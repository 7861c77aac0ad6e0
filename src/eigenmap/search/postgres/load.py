"""Bulk loading of a table in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import psycopg
from psycopg import sql

from eigenmap.core.errors import EigenmapError
from eigenmap.search.backend import Id, IndexSpec, ItemBatch
from eigenmap.search.postgres.connection import (
    Connection,
    address,
    connect,
    execute,
    is_conflict,
    require_pgvector,
    speaking,
)
from eigenmap.search.postgres.copying import copy, merge, staged
from eigenmap.search.postgres.statements import Table
from eigenmap.search.postgres.tables import columns_of, find_table, indexing
from eigenmap.search.postgres.transactions import transaction

_LOADING = "__loading"
_INDEX_MEMORY = "1GB"
_ATTEMPTS = 5
# An unchanged item is not written again and keeps its place. Codes that differ by less than 1e-4 of their norm count
# as equal, since another batch size or device rounds differently.
_CHANGES = (
    "code = excluded.code, added = excluded.added, metadata = t.metadata || excluded.metadata"
    " WHERE (t.code <-> excluded.code) > 1e-4 * vector_norm(excluded.code::vector)"
    " OR NOT t.metadata @> excluded.metadata"
)


class LoadReport(NamedTuple):
    """Result of a load: items now in the table, number of new ones, number of changed ones."""

    items: int
    added: int
    changed: int


def load_table(
    url: str,
    table: str,
    about: IndexSpec,
    batches: Iterable[ItemBatch],
    *,
    replace: bool = False,
    also: Callable[[Connection], object] | None = None,
) -> LoadReport:
    """Fill a table with the items of `batches` in one transaction.

    A missing table is created: COPY first, indexes afterwards. Items are merged into an existing one: new ones are
    added, those with a different code (beyond rounding) or different metadata are updated (metadata only in the table
    is kept), and all others are left alone, so that repeating a load changes nothing. With `replace`, a table of codes
    is rebuilt, and other clients see the old one until the new one is complete.

    Args:
        url: `postgresql://...`.
        table: table name, optionally with a schema.
        about: description of the codes.
        batches: batches of ids, codes and metadata.
        replace: start with an empty table.
        also: called last in the same transaction.

    """
    wanted = Table(table, about)
    with connect(url) as connection, speaking(), transaction(url, connection):
        # Two loads of one table take turns.
        execute(connection, "SELECT pg_advisory_xact_lock(hashtext(%s))", [f"eigenmap {table}"])
        require_pgvector(connection)
        there = find_table(connection, table)
        if there is None or replace:
            made = _make(connection, wanted, batches, there is not None)
        else:
            _require_same(wanted, there, address(url))
            made = _merge(connection, there, batches)
        if also is not None:
            also(connection)
        return made


def _require_same(wanted: Table, there: Table, where: str) -> None:
    new, old = wanted.about, there.about
    if new.fingerprint != old.fingerprint:
        raise EigenmapError(
            f"the table {there.name} at {where} contains codes of another model; choose another table, "
            "or use replace=True"
        )
    if (new.n_components, new.metric, new.precision) != (old.n_components, old.metric, old.precision):
        raise EigenmapError(
            f"the table {there.name} at {where} contains {old.precision} codes of {old.n_components} features compared "
            f"by {old.metric}, but these are {new.precision} codes of {new.n_components} features compared by "
            f"{new.metric}; choose another table, or use replace=True"
        )


def _make(connection: Connection, table: Table, batches: Iterable[ItemBatch], replace: bool) -> LoadReport:
    first, batches = _first(batches)
    id_type = "bigint" if isinstance(first, int) else "text"
    execute(connection, table.create(id_type, suffix=_LOADING))
    if (inline := table.keep_inline(suffix=_LOADING)) is not None:
        execute(connection, inline)
    items = copy(connection, table, table.beside(_LOADING), batches, id_type)
    execute(connection, "SELECT set_config('maintenance_work_mem', %s, true)", [_INDEX_MEMORY])
    for statement in indexing(table, suffix=_LOADING):
        _build(connection, statement)
    execute(connection, table.comment(suffix=_LOADING))
    if replace:
        # As late as possible: from here to the commit, which follows soon, readers wait.
        execute(connection, sql.SQL("DROP TABLE {}").format(table.identifier))
    _rename_counter(connection, table)
    for kind, suffix in _named_objects(table):
        execute(
            connection,
            sql.SQL("ALTER {} {} RENAME TO {}").format(
                sql.SQL(kind), table.beside(_LOADING + suffix), table.bare(suffix)
            ),
        )
    execute(connection, table.drop_function())
    execute(connection, table.function(id_type))
    execute(connection, sql.SQL("ANALYZE {}").format(table.identifier))
    return LoadReport(items, items, 0)


def _rename_counter(connection: Connection, table: Table) -> None:
    """Rename the sequence of the column `added`, named by PostgreSQL, to match the table."""
    found = execute(
        connection,
        "SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE c.oid = pg_get_serial_sequence(%s, 'added')::regclass",
        [table.beside(_LOADING).as_string(connection)],
    ).fetchone()
    assert found is not None
    wanted = table.bare("_added_seq")
    if sql.Identifier(found[1]) != wanted:
        execute(connection, sql.SQL("ALTER SEQUENCE {} RENAME TO {}").format(sql.Identifier(*found), wanted))


def _build(connection: Connection, statement: sql.Composed) -> None:
    """Build an index with several processes if the server has the shared memory for it, else with one."""
    try:
        with connection.transaction():
            execute(connection, statement)
    except psycopg.errors.DiskFull:  # shared memory is full too; /dev/shm of a container is often small
        execute(connection, "SELECT set_config('max_parallel_maintenance_workers', '0', true)")
        execute(connection, statement)


def _named_objects(table: Table) -> Iterator[tuple[str, str]]:
    """Yield the kind and name suffix of everything named after the table."""
    yield "TABLE", ""
    yield "INDEX", "_pkey"
    yield "INDEX", "_metadata_idx"
    if table.about.approximate is not None:
        yield "INDEX", "_prefix_idx"


def _merge(connection: Connection, table: Table, batches: Iterable[ItemBatch]) -> LoadReport:
    id_type = columns_of(connection, table)["id"]
    first, batches = _first(batches)
    if isinstance(first, int) != (id_type == "bigint"):
        raise EigenmapError(f"the table {table.name} has ids of type {id_type}, but {first!r} is not one")
    with staged(connection, table, id_type) as staging:
        copy(connection, table, staging, batches, id_type)
        before = _count(connection, table)
        touched = _merge_staged(connection, table, staging)
        items = _count(connection, table)
    execute(connection, sql.SQL("ANALYZE {}").format(table.identifier))
    return LoadReport(items, items - before, touched - (items - before))


def _merge_staged(connection: Connection, table: Table, staging: sql.Identifier) -> int:
    """Merge staged items, starting over on conflicts with other clients."""
    attempts = _ATTEMPTS
    while True:
        attempts -= 1
        try:
            with connection.transaction():
                return merge(connection, table, staging, _CHANGES)
        except psycopg.Error as error:
            if not is_conflict(error) or not attempts:
                raise


def _count(connection: Connection, table: Table) -> int:
    found = execute(connection, sql.SQL("SELECT count(*) FROM {}").format(table.identifier)).fetchone()
    assert found is not None
    return int(found[0])


def _first(batches: Iterable[ItemBatch]) -> tuple[Id, Iterable[ItemBatch]]:
    """Return the first id, and all non-empty batches."""
    filled = (batch for batch in batches if batch.ids)
    batch = next(filled, None)
    if batch is None:
        raise EigenmapError("there are no codes to load")
    return batch.ids[0], chain([batch], filled)
