"""Recognition and creation of tables of codes."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import parse_json
from eigenmap.search.backend import IndexSpec
from eigenmap.search.postgres.connection import Connection, execute
from eigenmap.search.postgres.statements import FORMAT, SQL_ID_TYPES, VERSION, Table


def columns_of(connection: Connection, table: Table) -> dict[str, str]:
    """Return names and types of the columns of a table; empty if it does not exist."""
    name = table.identifier.as_string(connection)
    found = execute(
        connection,
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [name],
    )
    return dict(found.fetchall())


def number_of(connection: Connection, table: Table) -> int | None:
    """Return the database's object id of a table; a replacement has a different one."""
    name = table.identifier.as_string(connection)
    row = execute(connection, "SELECT to_regclass(%s)::oid::bigint", [name]).fetchone()
    return None if row is None else row[0]


def find_table(connection: Connection, name: str) -> Table | None:
    """Return a table with the description in its comment; None if it does not exist; raise if it is something else."""
    table = Table(name, IndexSpec(1))
    columns = columns_of(connection, table)
    if not columns:
        return None
    try:
        entries = stored_comment(connection, table)
        if (entries.pop("format"), entries.pop("version")) != (FORMAT, VERSION):
            raise ValueError("another format")
        del entries["notes"]
        table = Table(name, IndexSpec.from_json(entries))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EigenmapError(
            f"the table {name} exists and is not a table of codes (its columns: {_some(columns)}); choose another name"
        ) from None
    wanted = {"code": f"{table.type}({table.about.n_components})", "metadata": "jsonb", "added": "bigint"}
    if columns.get("id") not in SQL_ID_TYPES or any(columns.get(column) != kind for column, kind in wanted.items()):
        listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        should = ", ".join(["id", *(f"{column} {kind}" for column, kind in wanted.items())])
        raise EigenmapError(
            f"the columns of the table {name} have changed ({listed} instead of {should}); choose another name"
        )
    return table


def _some(columns: dict[str, str], most: int = 5) -> str:
    """Format the first columns, enough to recognise a table."""
    first = [f"{column} {kind}" for column, kind in list(columns.items())[:most]]
    return ", ".join([*first, "..."] if len(columns) > most else first)


def stored_comment(connection: Connection, table: Table) -> Any:
    """Return the JSON in the comment of a table; raise `ValueError` if there is none."""
    name = table.identifier.as_string(connection)
    comment = execute(connection, "SELECT obj_description(to_regclass(%s), 'pg_class')", [name]).fetchone()
    return parse_json((comment and comment[0]) or "")


def creation(table: Table, id_type: str) -> list[sql.Composed]:
    """Return the statements that create an empty table, its indexes and its function."""
    statements = [
        table.create(id_type),
        table.keep_inline(),
        *indexing(table),
        table.comment(),
        table.drop_function(),
        table.function(id_type),
    ]
    return [statement for statement in statements if statement is not None]


def indexing(table: Table, *, suffix: str = "") -> list[sql.Composed]:
    """Return the statements that create the indexes of a table."""
    statements = [table.key(suffix=suffix), table.prefix_index(suffix=suffix), table.filter_index(suffix=suffix)]
    return [statement for statement in statements if statement is not None]
