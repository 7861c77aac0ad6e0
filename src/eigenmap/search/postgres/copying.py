"""Bulk transfer of codes to PostgreSQL, and merging with existing rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from psycopg import sql
from psycopg.types.json import Jsonb

from eigenmap.core.errors import EigenmapError
from eigenmap.search.backend import Floats, Id, Metadata
from eigenmap.search.codecs import HALF_RANGE, scaled_into
from eigenmap.search.postgres.connection import Connection, execute
from eigenmap.search.postgres.statements import Table

if TYPE_CHECKING:
    from typing_extensions import LiteralString

_RANGES = {"vector": (2.0**-40, 2.0**40), "halfvec": HALF_RANGE}
"""Ranges of the largest feature of a code whose norm pgvector computes correctly, in float32, and stores well."""


@contextmanager
def staged(connection: Connection, table: Table, id_type: str) -> Iterator[sql.Identifier]:
    """Yield a temporary table for items to be merged."""
    staging = sql.Identifier("pg_temp", "eigenmap_staging")
    statement = sql.SQL(
        "CREATE TEMP TABLE eigenmap_staging (id {}, code {}, metadata jsonb, added bigserial) ON COMMIT DROP"
    ).format(sql.SQL("bigint" if id_type == "bigint" else "text"), sql.SQL(table.type))
    execute(connection, statement)
    yield staging
    execute(connection, "DROP TABLE pg_temp.eigenmap_staging")


def merge(connection: Connection, table: Table, staging: sql.Identifier, changes: LiteralString | None) -> int:
    """Insert staged items; `changes` is the update applied to existing ones, None refuses them.

    Items count as added in the order in which they were staged, but are inserted, and therefore locked, in the order of
    their ids: otherwise two merges of the same items in different orders could wait for each other. Returns the number
    of rows written.
    """
    counter = _counter(connection, table)
    conflict = sql.SQL("" if changes is None else f" ON CONFLICT (id) DO UPDATE SET {changes}")
    listed = sql.SQL("SELECT id, code, coalesce(metadata, '{{}}') AS metadata FROM {} ORDER BY added").format(staging)
    if counter is None:
        statement = sql.SQL("INSERT INTO {} AS t (id, code, metadata) {}{}").format(table.identifier, listed, conflict)
        return execute(connection, statement).rowcount
    statement = sql.SQL(
        "INSERT INTO {} AS t (id, code, metadata, added) SELECT * FROM"
        " (SELECT id, code, metadata, nextval(%s::text::regclass) FROM ({}) listed) numbered ORDER BY id{}"
    ).format(table.identifier, listed, conflict)
    return execute(connection, statement, [counter]).rowcount


def _counter(connection: Connection, table: Table) -> str | None:
    """Return the sequence of the column `added`, or None without permission to use it (the default needs none).

    Without the sequence, items are inserted and locked in the order given. A conflict with another client is then
    resolved by the database, and the transaction starts over.
    """
    row = execute(
        connection,
        "SELECT counter FROM pg_get_serial_sequence(%s, 'added') AS counter"
        " WHERE has_sequence_privilege(counter, 'USAGE')",
        [table.identifier.as_string(connection)],
    ).fetchone()
    return None if row is None else str(row[0])


def lock(connection: Connection, table: Table, ids: Sequence[Id]) -> list[Id]:
    """Return the ids that exist, locked in order until the transaction ends.

    A user who may delete but not update cannot lock; the ids are then returned without locks.
    """
    may = execute(
        connection, "SELECT has_table_privilege(%s, 'UPDATE')", [table.identifier.as_string(connection)]
    ).fetchone()
    statement = sql.SQL("SELECT id FROM {} WHERE id = ANY(%s) ORDER BY id{}").format(
        table.identifier, sql.SQL(" FOR UPDATE" if may is not None and may[0] else "")
    )
    return [name for (name,) in execute(connection, statement, [list(ids)]).fetchall()]


def copy(
    connection: Connection,
    table: Table,
    into: sql.Identifier,
    batches: Iterable[tuple[Sequence[Id], Floats, Sequence[Metadata] | None]],
    id_type: str,
) -> int:
    """Send items with COPY in binary format and return their number."""
    statement = sql.SQL("COPY {} (id, code, metadata) FROM STDIN (FORMAT BINARY)").format(into)
    items = 0
    with connection.cursor().copy(statement) as stream:
        # Codes are sent as raw bytes: a binary COPY carries no types.
        stream.set_types(["int8" if id_type == "bigint" else "text", "bytea", "jsonb"])
        for ids, codes, metadata in batches:
            known = [None] * len(ids) if metadata is None else [Jsonb(dict(item)) for item in metadata]
            for row in zip(ids, binary_codes(table, codes), known, strict=True):
                stream.write_row(row)
            items += len(ids)
    return items


def binary_codes(table: Table, codes: Floats) -> Iterator[bytes]:
    """Yield codes in pgvector's wire format: two 16-bit numbers, length and 0, then the features, big-endian."""
    head = np.array([codes.shape[1], 0], ">i2").tobytes()
    if table.about.metric == "cosine":
        codes = scaled_into(codes, *_RANGES[table.type])
    with np.errstate(over="ignore"):
        rows = codes.astype(">f4" if table.type == "vector" else ">f2")
    if not np.isfinite(rows).all():
        raise EigenmapError("codes contain numbers above 65,504, too large for float16; use float32")
    for row in rows:
        yield head + row.tobytes()


def vector_text(row: Floats) -> str:
    """Format a vector as pgvector reads it."""
    return "[" + ",".join(map(repr, row.tolist())) + "]"
