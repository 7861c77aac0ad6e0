"""Back end of `CodeIndex` that stores codes in a PostgreSQL table."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from psycopg import sql

from eigenmap.core.errors import EigenmapError
from eigenmap.search import checks
from eigenmap.search.backend import Floats, Hits, Id, IndexSpec, ItemBatch, Metadata, Mode, Stage
from eigenmap.search.filters import Condition
from eigenmap.search.postgres.connection import (
    Connection,
    address,
    connect,
    escaped,
    execute,
    require_pgvector,
    speaking,
)
from eigenmap.search.postgres.copying import copy, lock, merge, staged, vector_text
from eigenmap.search.postgres.session import Session
from eigenmap.search.postgres.statements import SQL_ID_TYPES, Table
from eigenmap.search.postgres.tables import columns_of, creation, find_table, number_of, stored_comment
from eigenmap.search.scan import comparable

if TYPE_CHECKING:
    from typing_extensions import LiteralString

_REPLACED = "code = excluded.code, added = excluded.added"


class PostgresBackend:
    """A table of codes; `eigenmap.search.backend.Backend` documents the methods."""

    def __init__(self, url: str, connection: Connection, table: Table) -> None:
        self.url = url
        self.table = table
        self.session = Session(url, connection)
        self._number: int | None = None
        weakref.finalize(self, self.session.close)

    @classmethod
    def create(cls, url: str, table: str, about: IndexSpec) -> PostgresBackend:
        """Create an empty table; refuse one that exists."""
        wanted = Table(table, about)
        backend = cls(url, connect(url), wanted)
        try:
            backend.session.write(backend._make)
        except EigenmapError:
            backend.close()
            raise
        return backend

    @classmethod
    def open(cls, url: str, table: str) -> PostgresBackend:
        """Open an existing table."""
        connection = connect(url)
        try:
            with speaking():
                number = number_of(connection, Table(table, IndexSpec(1)))  # first: detects a replacement
                found = find_table(connection, table)
        except EigenmapError:
            connection.close()
            raise
        if found is None:
            connection.close()
            raise EigenmapError(
                f"the table {table} does not exist at {address(url)}; choose another, or create it by indexing into it"
            )
        backend = cls(url, connection, found)
        backend._number = number
        return backend

    def _make(self, connection: Connection) -> None:
        require_pgvector(connection)
        if columns_of(connection, self.table):
            raise EigenmapError(f"the table {self.table.name} already exists; open it, or choose another name")
        for statement in creation(self.table, "text"):
            execute(connection, statement)
        self._number = number_of(connection, self.table)

    @property
    def about(self) -> IndexSpec:
        """Description of the index."""
        return self.table.about

    @property
    def connection(self) -> Connection:
        """The connection, renewed if the last one was lost."""
        return self.session.connection

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM {}")[0][0])

    def ids(self) -> list[Id]:
        """Return all ids in the order of addition."""
        return [name for (name,) in self._rows("SELECT id FROM {} ORDER BY added")]

    def write(self, mode: Mode, codes: Floats, ids: Sequence[Id], metadata: Sequence[Metadata] | None) -> None:
        """Add or replace items, all or none."""

        def change(connection: Connection) -> None:
            id_type = self._settle_id_type(connection, ids)
            if mode == "add":
                self._require_absent(connection, ids)
            if mode == "update":
                self._require_all(ids, set(lock(connection, self.table, ids)))
            with staged(connection, self.table, id_type) as staging:
                copy(connection, self.table, staging, [(ids, codes, metadata)], id_type)
                # The database also refuses an addition if another client has added the same id meanwhile.
                replaced = _REPLACED if metadata is None else f"{_REPLACED}, metadata = excluded.metadata"
                merge(connection, self.table, staging, None if mode == "add" else replaced)
            self._require_same(connection, number_of(connection, self.table))

        self.session.write(change)

    def delete(self, ids: Sequence[Id]) -> None:
        """Remove items, all or none."""

        def change(connection: Connection) -> None:
            self._require_type(connection, ids)
            locked = set(lock(connection, self.table, ids))
            self._require_same(connection, number_of(connection, self.table))
            self._require_all(ids, locked)
            statement = sql.SQL("DELETE FROM {} WHERE id = ANY(%s) RETURNING id").format(self.table.identifier)
            gone = execute(connection, statement, [list(ids)]).fetchall()
            self._require_all(ids, {name for (name,) in gone})

        self.session.write(change)

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Hits:
        """Rank the items that meet all conditions, with one statement for all queries and stages."""
        approximate = self.about.approximate
        by_index = not exact and approximate is not None and stages[0].dim >= approximate.dim
        if not by_index or approximate is None:
            return self._search(queries, stages, where, effort=None)
        planned = list(stages)
        if stages[0].dim > approximate.dim or len(stages) == 1:
            planned.insert(0, Stage(approximate.dim, max(approximate.shortlist, stages[0].keep)))
        found = self._search(queries, planned, where, effort=approximate.effort)
        # With a filter, a walk through the graph may find too few items, and a code of zeros is not in the graph.
        if found.scores.shape[1] < stages[-1].keep or np.isnan(found.scores).any():
            return self._search(queries, stages, where, effort=None)
        return found

    def take(self, ids: Sequence[Id]) -> ItemBatch:
        """Return these items in this order."""
        self.session.read(lambda connection: self._require_type(connection, ids))
        found = self._batch(
            self._rows("SELECT id, code, metadata FROM {} WHERE id = ANY(%s)", [list(ids)], binary=True)
        )
        place = {name: row for row, name in enumerate(found.ids)}
        self._require_all(ids, set(place))
        rows = [place[name] for name in ids]
        return ItemBatch(list(ids), found.codes[rows], [found.metadata[row] for row in rows])

    def known(self, ids: Sequence[Id]) -> dict[Id, Metadata]:
        """Return the metadata of those ids that exist."""
        self.session.read(lambda connection: self._require_type(connection, ids))
        return dict(self._rows("SELECT id, metadata FROM {} WHERE id = ANY(%s)", [list(ids)]))

    def sample(self, count: int, seed: int) -> ItemBatch:
        """Return random items."""
        statement = "SELECT id, code, metadata FROM {} ORDER BY hashint8extended(added, %s), added LIMIT %s"
        return self._batch(self._rows(statement, [seed, count], binary=True))

    def batches(self, rows: int) -> Iterator[ItemBatch]:
        """Yield all items in the order of addition, over a separate connection."""
        statement = sql.SQL("SELECT id, code, metadata FROM {} ORDER BY added").format(self.table.identifier)
        with (
            connect(self.url) as connection,
            speaking(),
            connection.transaction(),
            connection.cursor("batches", binary=True) as cursor,
        ):
            cursor.execute(escaped(statement, connection), ())
            self._require_same(connection, number_of(connection, self.table))
            while found := cursor.fetchmany(rows):
                yield self._batch(found)

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Store a note in the comment of the table; does nothing without write permission."""

        def change(connection: Connection) -> None:
            notes = {**stored_comment(connection, self.table)["notes"], name: content}
            execute(connection, self.table.comment(notes=notes))

        with suppress(EigenmapError):
            self.session.write(change)

    def read_note(self, name: str, required: bool = False) -> dict[str, Any] | None:
        """Return the note of this name, or None; a comment is never partly damaged."""
        comment = self.session.read(lambda connection: stored_comment(connection, self.table))
        note: dict[str, Any] | None = comment["notes"].get(name)
        return note

    def close(self) -> None:
        """Close the connection."""
        self.session.close()

    def _search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], effort: int | None) -> Hits:
        statement, values = self.table.search(stages, where, by_index=effort is not None)
        # Unit rows: pgvector computes in float32, and converts queries of an HNSW index in float16 to that.
        cut = (comparable(queries[:, : stage.dim], self.about.metric) for stage in stages)
        arrays = [[vector_text(row) for row in rows] for rows in cut]
        chosen = {"jit": "off"}  # compiling the statement takes longer than running it
        if effort is not None:
            chosen["hnsw.ef_search"] = str(min(1000, max(effort, stages[0].keep)))
            chosen["hnsw.iterative_scan"] = "relaxed_order"

        def found(connection: Connection) -> list[Any]:
            # Everything in one round trip to the server.
            with connection.pipeline(), connection.transaction():
                execute(
                    connection,
                    "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS s(name, value)",
                    [list(chosen), list(chosen.values())],
                )
                cursor = execute(connection, statement, [*arrays, *values])
                # Queried last: the table just searched cannot be replaced before the transaction ends.
                now = number_of(connection, self.table)
                rows = cursor.fetchall()
            self._require_same(connection, now)
            return rows

        return _found(self.session.read(found), len(queries))

    def _rows(self, statement: LiteralString, values: Sequence[Any] = (), *, binary: bool = False) -> list[Any]:
        composed = sql.SQL(statement).format(self.table.identifier)

        def found(connection: Connection) -> list[Any]:
            with connection.pipeline(), connection.transaction():
                cursor = execute(connection, composed, values, binary=binary)
                now = number_of(connection, self.table)  # queried last, as in a search
                rows = cursor.fetchall()
            self._require_same(connection, now)
            return rows

        return self.session.read(found)

    def _batch(self, rows: Sequence[tuple[Id, bytes, dict[str, Any]]]) -> ItemBatch:
        kind = ">f4" if self.table.type == "vector" else ">f2"
        codes = np.empty((len(rows), self.about.n_components), np.float32)
        for row, (_, code, _) in enumerate(rows):
            codes[row] = np.frombuffer(code, kind, offset=4)
        return ItemBatch([name for name, _, _ in rows], codes, [known for _, _, known in rows])

    def _require_same(self, connection: Connection, number: int | None) -> None:
        """Refuse a table that replaced the one that was opened, unless its codes are of the same kind."""
        if number == self._number:
            return
        found = find_table(connection, self.table.name)
        if found is None or found.kind != self.table.kind:
            raise EigenmapError(
                f"the table {self.table.name} was replaced after it was opened and has different codes; open it again"
            )
        self.table, self._number = found, number

    # Ids

    def _id_type(self, connection: Connection) -> str:
        return columns_of(connection, self.table)["id"]

    def _settle_id_type(self, connection: Connection, ids: Sequence[Id]) -> str:
        """Determine the type of ids, all text or all integers, from the first one."""
        wanted = "bigint" if isinstance(ids[0], int) else "text"
        if self._id_type(connection) == wanted:
            return wanted
        # Two clients may find the table empty, and the second would change the table that the first has filled.
        name = self.table.identifier
        execute(connection, sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
        if self._id_type(connection) == wanted:
            return wanted
        if execute(connection, sql.SQL("SELECT id FROM {} LIMIT 1").format(name)).fetchone() is not None:
            self._require_type(connection, ids)
        change = sql.SQL("ALTER TABLE {} ALTER COLUMN id TYPE {} USING NULL").format(
            name, sql.SQL("bigint" if wanted == "bigint" else "text")
        )
        for statement in (change, self.table.drop_function(), self.table.function(wanted)):
            execute(connection, statement)
        return wanted

    def _require_type(self, connection: Connection, ids: Sequence[Id]) -> None:
        known = SQL_ID_TYPES[self._id_type(connection)]
        for name in ids:
            if type(name) is not known:
                checks.refuse_other_type([known(), name])

    def _require_all(self, ids: Sequence[Id], found: set[Id]) -> None:
        absent = next((name for name in ids if name not in found), None)
        if absent is not None:
            checks.refuse_unknown(absent)

    def _require_absent(self, connection: Connection, ids: Sequence[Id]) -> None:
        statement = sql.SQL("SELECT id FROM {} WHERE id = ANY(%s)").format(self.table.identifier)
        known = {name for (name,) in execute(connection, statement, [list(ids)]).fetchall()}
        for name in ids:
            if name in known:
                checks.refuse_known(name)


def _found(rows: Sequence[tuple[int, Id, float]], queries: int) -> Hits:
    """Group results by query; every query has the same number of them."""
    ids: list[list[Id]] = [[] for _ in range(queries)]
    scores: list[list[float]] = [[] for _ in range(queries)]
    for number, name, score in rows:
        ids[number - 1].append(name)
        scores[number - 1].append(score)
    width = max(map(len, ids), default=0)
    padded = np.full((queries, width), np.nan, np.float32)
    for number, line in enumerate(scores):
        padded[number, : len(line)] = line
    return Hits(ids, padded)
