"""The back end of `CodeIndex` that keeps codes in a table."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from psycopg import sql

from eigenmap.errors import EigenmapError
from eigenmap.search import checks
from eigenmap.search.backend import About, Batch, Floats, Found, Id, Metadata, Mode, Stage
from eigenmap.search.filters import Condition
from eigenmap.search.postgres.connection import Connection, address, connect, require_pgvector, speaking
from eigenmap.search.postgres.copying import as_text, copy, merge, staged
from eigenmap.search.postgres.statements import ID_TYPES, Table
from eigenmap.search.postgres.tables import columns_of, described, making, said_by


class PostgresBackend:
    """A table of codes; see `eigenmap.search.backend.Backend` for what its methods do."""

    def __init__(self, url: str, connection: Connection, table: Table) -> None:
        self.url = url
        self.connection = connection
        self.table = table
        self._turn = threading.RLock()
        weakref.finalize(self, connection.close)

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
        with self._asking(), self.connection.transaction():
            self._settle_id_type(ids)
            id_type = self._id_type()
            with staged(self.connection, self.table, id_type) as staging:
                copy(self.connection, self.table, staging, [(ids, codes, metadata)], id_type)
                if mode != "upsert":
                    self._check_presence(mode, staging)
                keep = "metadata = t.metadata" if metadata is None else "metadata = excluded.metadata"
                self.connection.execute(
                    merge(self.table, staging, f"code = excluded.code, added = excluded.added, {keep}")
                )

    def delete(self, ids: Sequence[Id]) -> None:
        """Remove items, all or none."""
        with self._asking(), self.connection.transaction():
            self._require_type(ids)
            gone = self._rows("DELETE FROM {} WHERE id = ANY(%s) RETURNING id", [list(ids)])
            self._require_all(ids, {name for (name,) in gone})

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Found:
        """Rank the items that meet all conditions, in one statement for all queries and stages."""
        approximate = self.about.approximate
        by_index = not exact and approximate is not None and stages[0].dim >= approximate.dim
        if not by_index or approximate is None:
            return self._search(queries, stages, where, effort=None)
        planned = list(stages)
        if stages[0].dim > approximate.dim or len(stages) == 1:
            planned.insert(0, Stage(approximate.dim, max(approximate.shortlist, stages[0].keep)))
        found = self._search(queries, planned, where, effort=approximate.effort)
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
        with (
            connect(self.url) as connection,
            speaking(),
            connection.transaction(),
            connection.cursor("batches", binary=True) as cursor,
        ):
            cursor.execute(statement)
            while found := cursor.fetchmany(rows):
                yield self._batch(found)

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Keep a note in the comment of the table; who may only read the table keeps none."""
        with suppress(EigenmapError), self._asking(), self.connection.transaction():
            notes = {**said_by(self.connection, self.table)["notes"], name: content}
            self.connection.execute(self.table.comment(notes=notes))

    def read_note(self, name: str) -> dict[str, Any] | None:
        """What `write_note` kept, or None."""
        with self._asking():
            note: dict[str, Any] | None = said_by(self.connection, self.table)["notes"].get(name)
            return note

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """One thread at a time: a connection has one transaction."""
        with self._turn, speaking():
            yield

    def _search(
        self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], effort: int | None
    ) -> Found:
        statement, values = self.table.search(stages, where, by_index=effort is not None)
        arrays = [[as_text(row) for row in queries[:, : stage.dim]] for stage in stages]
        chosen = {"jit": "off"}  # compiling the statement takes longer than running it
        if effort is not None:
            chosen["hnsw.ef_search"] = str(min(1000, max(effort, stages[0].keep)))
            chosen["hnsw.iterative_scan"] = "relaxed_order"
        # All in one journey to the server and back.
        with self._asking(), self.connection.pipeline(), self.connection.transaction():
            self.connection.execute(
                "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS s(name, value)",
                [list(chosen), list(chosen.values())],
            )
            rows = self.connection.execute(statement, [*arrays, *values]).fetchall()
        return _found(rows, len(queries))

    def _rows(self, statement: str, values: Sequence[Any] = (), *, binary: bool = False) -> list[Any]:
        composed = sql.SQL(statement).format(self.table.identifier)
        with self._asking():
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
                checks.refuse_other_type([known(), name])

    def _require_all(self, ids: Sequence[Id], found: set[Id]) -> None:
        absent = next((name for name in ids if name not in found), None)
        if absent is not None:
            checks.refuse_unknown(absent)

    def _check_presence(self, mode: Mode, staging: sql.Identifier) -> None:
        wanted = sql.SQL("NOT EXISTS" if mode == "update" else "EXISTS")
        odd = self.connection.execute(
            sql.SQL(
                "SELECT id FROM {} s WHERE {} (SELECT 1 FROM {} t WHERE t.id = s.id) ORDER BY added LIMIT 1"
            ).format(staging, wanted, self.table.identifier)
        ).fetchone()
        if odd is not None and mode == "add":
            checks.refuse_known(odd[0])
        if odd is not None:
            checks.refuse_unknown(odd[0])


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
