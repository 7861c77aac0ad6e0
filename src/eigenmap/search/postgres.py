"""The PostgreSQL back end: codes in a table of a database with pgvector.

    index = CodeIndex(256, backend="postgres", where="postgresql://localhost/pictures", table="photos")
    index.add(codes, ids)
    CodeIndex.open("postgresql://localhost/pictures", table="photos").search(queries, dim=64)

`eigenmap.search.postgres_load` fills a table with many codes at once; `eigenmap.search.postgres_sql` has the statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from eigenmap.errors import EigenmapError
from eigenmap.search.backend import About, Batch, Floats, Found, Id, Metadata, Mode, Stage
from eigenmap.search.filters import Condition
from eigenmap.search.postgres_sql import ID_TYPES, Table

Connection = psycopg.Connection[Any]

_COLUMNS = ("id", "code", "metadata", "added")


class PostgresBackend:
    """A table of codes; see `eigenmap.search.backend.Backend` for what its methods do."""

    def __init__(self, url: str, connection: Connection, table: Table) -> None:
        self.url = url
        self.connection = connection
        self.table = table

    @classmethod
    def create(cls, url: str, table: str, about: About) -> PostgresBackend:
        """Make an empty table; one that is there already is refused."""
        made = Table(table, about)
        connection = connect(url)
        try:
            with speaking(), connection.transaction():
                require_pgvector(connection)
                if columns_of(connection, made):
                    raise EigenmapError(f"the table {table} exists already; open it, or choose another name")
                for statement in making(made, "text"):
                    connection.execute(statement)
        except EigenmapError:
            connection.close()
            raise
        return cls(url, connection, made)

    @classmethod
    def open(cls, url: str, table: str) -> PostgresBackend:
        """Open a table that is there."""
        connection = connect(url)
        try:
            with speaking():
                found = described(connection, table)
        except EigenmapError:
            connection.close()
            raise
        if found is None:
            connection.close()
            raise EigenmapError(f"there is no table {table} at {address(url)}; `eigenmap index --to` makes one")
        return cls(url, connection, found)

    @property
    def about(self) -> About:
        """What the index is."""
        return self.table.about

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM {}")[0][0])

    def ids(self) -> list[Id]:
        """All ids, in the order in which they were added."""
        return [name for (name,) in self._rows("SELECT id FROM {} ORDER BY added")]

    def write(self, mode: Mode, codes: Floats, ids: Sequence[Id], metadata: Sequence[Metadata] | None) -> None:
        """Add or replace items, all or none."""
        with speaking(), self.connection.transaction():
            self._settle_id_type(ids)
            with staged(self.connection, self.table, self._id_type()) as staging:
                copy(self.connection, self.table, staging, ids, codes, metadata)
                if mode != "upsert":
                    self._check_presence(mode, staging)
                keep = "metadata = t.metadata" if metadata is None else "metadata = excluded.metadata"
                self.connection.execute(
                    merge(self.table, staging, f"code = excluded.code, added = excluded.added, {keep}")
                )

    def delete(self, ids: Sequence[Id]) -> None:
        """Remove items, all or none."""
        with speaking(), self.connection.transaction():
            self._require_type(ids)
            gone = self._rows("DELETE FROM {} WHERE id = ANY(%s) RETURNING id", [list(ids)])
            self._require_all(ids, {name for (name,) in gone})

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Found:
        """Rank the items that meet all conditions, in one statement for all queries and stages."""
        approximate = self.about.approximate
        by_index = not exact and approximate is not None and stages[0].dim >= approximate.dim
        if not by_index or approximate is None:
            return self._search(queries, stages, where, effort=None)
        shortlist = Stage(approximate.dim, max(approximate.shortlist, stages[0].keep))
        found = self._search(queries, [shortlist, *stages], where, effort=approximate.effort)
        # A filter may leave a walk through the graph with too few items, and a code of zeros is not in it.
        if found.scores.shape[1] < stages[-1].keep or np.isnan(found.scores).any():
            return self._search(queries, stages, where, effort=None)
        return found

    def take(self, ids: Sequence[Id]) -> Batch:
        """These items, in this order."""
        self._require_type(ids)
        found = self._batch(
            self._rows("SELECT id, code, metadata FROM {} WHERE id = ANY(%s)", [list(ids)], binary=True)
        )
        place = {name: row for row, name in enumerate(found.ids)}
        self._require_all(ids, set(place))
        rows = [place[name] for name in ids]
        return Batch(list(ids), found.codes[rows], [found.metadata[row] for row in rows])

    def sample(self, count: int, seed: int) -> Batch:
        """Some items at random."""
        statement = "SELECT id, code, metadata FROM {} ORDER BY hashint8extended(added, %s), added LIMIT %s"
        return self._batch(self._rows(statement, [seed, count], binary=True))

    def batches(self, rows: int) -> Iterator[Batch]:
        """All items in the order of addition, over a connection of its own."""
        statement = sql.SQL("SELECT id, code, metadata FROM {} ORDER BY added").format(self.table.identifier)
        with connect(self.url) as connection, speaking(), connection.transaction():
            with connection.cursor("batches", binary=True) as cursor:
                cursor.execute(statement)
                while found := cursor.fetchmany(rows):
                    yield self._batch(found)

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    def _search(
        self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], effort: int | None
    ) -> Found:
        statement, values = self.table.search(stages, where, by_index=effort is not None)
        arrays = [[as_text(row) for row in queries[:, : stage.dim]] for stage in stages]
        with speaking(), self.connection.transaction():
            # Compiling the statement takes longer than running it.
            self.connection.execute("SELECT set_config('jit', 'off', true)")
            if effort is not None:
                self.connection.execute(
                    "SELECT set_config('hnsw.ef_search', %s, true),"
                    " set_config('hnsw.iterative_scan', 'relaxed_order', true)",
                    [str(min(1000, max(effort, stages[0].keep)))],
                )
            rows = self.connection.execute(statement, [*arrays, *values]).fetchall()
        return _found(rows, len(queries))

    def _rows(self, statement: str, values: Sequence[Any] = (), *, binary: bool = False) -> list[Any]:
        composed = sql.SQL(statement).format(self.table.identifier)  # type: ignore[arg-type]
        with speaking():
            return self.connection.execute(composed, values, binary=binary).fetchall()

    def _batch(self, rows: Sequence[tuple[Id, bytes, dict[str, Any]]]) -> Batch:
        kind = ">f4" if self.table.type == "vector" else ">f2"
        codes = np.empty((len(rows), self.about.n_components), np.float32)
        for row, (_, code, _) in enumerate(rows):
            codes[row] = np.frombuffer(code, kind, offset=4)
        return Batch([name for name, _, _ in rows], codes, [known for _, _, known in rows])

    # Ids

    def _id_type(self) -> str:
        return columns_of(self.connection, self.table)["id"]

    def _settle_id_type(self, ids: Sequence[Id]) -> None:
        """Ids are all texts or all whole numbers; the first one decides."""
        wanted = "bigint" if isinstance(ids[0], int) else "text"
        if self._id_type() == wanted:
            return
        if len(self):
            self._require_type(ids)
        for statement in (
            sql.SQL("ALTER TABLE {} ALTER COLUMN id TYPE {} USING NULL").format(
                self.table.identifier, sql.SQL("bigint" if wanted == "bigint" else "text")
            ),
            self.table.drop_function(),
            self.table.function(wanted),
        ):
            self.connection.execute(statement)

    def _require_type(self, ids: Sequence[Id]) -> None:
        known = ID_TYPES[self._id_type()]
        for name in ids:
            if type(name) is not known:
                here = "texts" if known is str else "whole numbers"
                raise EigenmapError(f"the ids of this index are {here}, and {name!r} is none")

    def _require_all(self, ids: Sequence[Id], found: set[Id]) -> None:
        absent = next((name for name in ids if name not in found), None)
        if absent is not None:
            raise EigenmapError(f"there is no item {absent!r} in this index")

    def _check_presence(self, mode: Mode, staging: sql.Identifier) -> None:
        wanted = sql.SQL("NOT EXISTS" if mode == "update" else "EXISTS")
        odd = self.connection.execute(
            sql.SQL(
                "SELECT id FROM {} s WHERE {} (SELECT 1 FROM {} t WHERE t.id = s.id) ORDER BY added LIMIT 1"
            ).format(staging, wanted, self.table.identifier)
        ).fetchone()
        if odd is not None and mode == "add":
            raise EigenmapError(f"the id {odd[0]!r} is there already; every item needs an id of its own")
        if odd is not None:
            raise EigenmapError(f"there is no item {odd[0]!r} in this index")


def connect(url: str) -> Connection:
    """A connection; every statement is a transaction unless said otherwise."""
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        raise EigenmapError(f"the database at {address(url)} cannot be reached: {_first_line(error)}") from None


def address(url: str) -> str:
    """Host and database of an address, without the password."""
    try:
        known = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        return "this address"
    return f"{known.get('host') or 'localhost'}/{known.get('dbname') or ''}"


@contextmanager
def speaking() -> Iterator[None]:
    """Turn what the database complains about into one sentence."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise EigenmapError(
            f"the database went away: {_first_line(error)}; nothing was changed, run the same command again"
        ) from error
    except psycopg.errors.UniqueViolation as error:
        detail = error.diag.message_detail or ""
        raise EigenmapError(f"every item needs an id of its own: {detail.rstrip('.')}") from error
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise EigenmapError(f"the database refused: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def require_pgvector(connection: Connection) -> None:
    """Make sure that the database has the extension, of a version that cuts vectors."""
    query = "SELECT string_to_array(extversion, '.')::int[] >= '{0,8}' FROM pg_extension WHERE extname = 'vector'"
    found = connection.execute(query).fetchone()
    if found is None:
        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.Error as error:
            raise EigenmapError(
                f"this database lacks pgvector; its administrator can run CREATE EXTENSION vector ({_first_line(error)})"
            ) from error
        found = connection.execute(query).fetchone()
    if found is None or not found[0]:
        raise EigenmapError(
            "the pgvector of this database is older than 0.8; update it (ALTER EXTENSION vector UPDATE)"
        )


def columns_of(connection: Connection, table: Table) -> dict[str, str]:
    """Names and types of the columns of a table, none if it is not there."""
    name = table.identifier.as_string(connection)
    found = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [name],
    )
    return dict(found.fetchall())


def described(connection: Connection, name: str) -> Table | None:
    """What a table says it is; None if there is none, and an error if it is something else."""
    table = Table(name, About(1))
    columns = columns_of(connection, table)
    if not columns:
        return None
    listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    comment = connection.execute(
        "SELECT obj_description(to_regclass(%s), 'pg_class')", [table.identifier.as_string(connection)]
    ).fetchone()
    try:
        entries = json.loads((comment and comment[0]) or "")
        if (entries.pop("format"), entries.pop("version")) != ("eigenmap-codes", 1):
            raise ValueError("another format")
        table = Table(name, About.from_json(entries))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EigenmapError(
            f"the table {name} exists and is no table of codes (its columns: {listed}); choose another name"
        ) from None
    wanted = {"code": f"{table.type}({table.about.n_components})", "metadata": "jsonb", "added": "bigint"}
    if columns.get("id") not in ID_TYPES or any(columns.get(column) != kind for column, kind in wanted.items()):
        should = ", ".join(["id", *(f"{column} {kind}" for column, kind in wanted.items())])
        raise EigenmapError(
            f"the table {name} has other columns than it was made with ({listed} instead of {should}); "
            "choose another name"
        )
    return table


def making(table: Table, id_type: str, *, suffix: str = "") -> list[sql.Composed]:
    """Everything that makes an empty table, its indexes and its function."""
    statements = [
        table.create(id_type, suffix=suffix),
        table.keep_inline(suffix=suffix),
        *indexing(table, suffix=suffix),
        table.comment(suffix=suffix),
        table.drop_function(),
        table.function(id_type),
    ]
    return [statement for statement in statements if statement is not None]


def indexing(table: Table, *, suffix: str = "") -> list[sql.Composed]:
    """The indexes of a table."""
    statements = [table.key(suffix=suffix), table.prefix_index(suffix=suffix), table.filter_index(suffix=suffix)]
    return [statement for statement in statements if statement is not None]


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
    ).format(table.identifier, staging, sql.SQL(changes))  # type: ignore[arg-type]


def copy(
    connection: Connection,
    table: Table,
    into: sql.Identifier,
    ids: Sequence[Id],
    codes: Floats,
    metadata: Sequence[Metadata] | None,
) -> None:
    """Send items with COPY, in PostgreSQL's binary form."""
    with connection.cursor().copy(copy_statement(into)) as stream:
        write_rows(stream, table, ids, codes, metadata, connection)


def copy_statement(into: sql.Identifier) -> sql.Composed:
    """COPY of ids, codes and metadata."""
    return sql.SQL("COPY {} (id, code, metadata) FROM STDIN (FORMAT BINARY)").format(into)


def write_rows(
    stream: psycopg.Copy,
    table: Table,
    ids: Sequence[Id],
    codes: Floats,
    metadata: Sequence[Metadata] | None,
    connection: Connection,
) -> None:
    """Write items to an open COPY."""
    kind = connection.adapters.types
    stream.set_types([kind["int8" if isinstance(ids[0], int) else "text"].oid, 0, kind["jsonb"].oid] if ids else [])
    known = [None] * len(ids) if metadata is None else [json.dumps(dict(item)) for item in metadata]
    for name, code, item in zip(ids, binary_codes(table, codes), known, strict=True):
        stream.write_row((name, code, item))


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


def _found(rows: Sequence[tuple[int, Id, float]], queries: int) -> Found:
    """Results per query; every query has the same number of them."""
    ids: list[list[Id]] = [[] for _ in range(queries)]
    scores: list[list[float]] = [[] for _ in range(queries)]
    for number, name, score in rows:
        ids[number - 1].append(name)
        scores[number - 1].append(score)
    width = max(map(len, ids), default=0)
    padded = np.full((queries, width), np.nan, np.float32)
    for number, line in enumerate(scores):
        padded[number, : len(line)] = line
    return Found(ids, padded)
