"""Sending codes to PostgreSQL, and merging them with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from psycopg import sql
from psycopg.types.json import Jsonb

from eigenmap.errors import EigenmapError
from eigenmap.search.backend import Floats, Id, Metadata
from eigenmap.search.postgres.connection import Connection
from eigenmap.search.postgres.statements import Table


@contextmanager
def staged(connection: Connection, table: Table, id_type: str) -> Iterator[sql.Identifier]:
    """A temporary table for what is to be merged."""
    staging = sql.Identifier("pg_temp", "eigenmap_staging")
    connection.execute(
        sql.SQL(
            "CREATE TEMP TABLE eigenmap_staging (id {}, code {}, metadata jsonb, added bigserial) ON COMMIT DROP"
        ).format(sql.SQL("bigint" if id_type == "bigint" else "text"), sql.SQL(table.type))
    )
    yield staging
    connection.execute("DROP TABLE pg_temp.eigenmap_staging")


def merge(table: Table, staging: sql.Identifier, changes: str) -> sql.Composed:
    """Insert what is staged, in its order; `changes` is what becomes of items that are there."""
    return sql.SQL(
        "INSERT INTO {} AS t (id, code, metadata) SELECT id, code, coalesce(metadata, '{{}}') FROM {} ORDER BY added"
        " ON CONFLICT (id) DO UPDATE SET {}"
    ).format(table.identifier, staging, sql.SQL(changes))


def copy(
    connection: Connection,
    table: Table,
    into: sql.Identifier,
    batches: Iterable[tuple[Sequence[Id], Floats, Sequence[Metadata] | None]],
    id_type: str,
) -> int:
    """Send items with COPY, in PostgreSQL's binary form, and return how many there were."""
    statement = sql.SQL("COPY {} (id, code, metadata) FROM STDIN (FORMAT BINARY)").format(into)
    items = 0
    with connection.cursor().copy(statement) as stream:
        # A code is sent as the bytes that it is: a COPY in binary form carries no types.
        stream.set_types(["int8" if id_type == "bigint" else "text", "bytea", "jsonb"])
        for ids, codes, metadata in batches:
            known = [None] * len(ids) if metadata is None else [Jsonb(dict(item)) for item in metadata]
            for row in zip(ids, binary_codes(table, codes), known, strict=True):
                stream.write_row(row)
            items += len(ids)
    return items


def binary_codes(table: Table, codes: Floats) -> Iterator[bytes]:
    """What pgvector sends and receives: two 16-bit numbers, the length and 0, then the features, big-endian."""
    head = np.array([codes.shape[1], 0], ">i2").tobytes()
    with np.errstate(over="ignore"):
        rows = codes.astype(">f4" if table.type == "vector" else ">f2")
    if not np.isfinite(rows).all():
        raise EigenmapError("some features are too large for float16; store float32 codes")
    for row in rows:
        yield head + row.tobytes()


def as_text(row: Floats) -> str:
    """A vector as pgvector reads it."""
    return "[" + ",".join(map(repr, row.tolist())) + "]"
