"""Talking to PostgreSQL: connections, and complaints as sentences."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eigenmap.core.errors import EigenmapError

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise EigenmapError('PostgreSQL needs psycopg: pip install "eigenmap[postgres]"') from None

if TYPE_CHECKING:
    from typing_extensions import LiteralString

Connection = psycopg.Connection[Any]

# What it warns of is also raised, and said in a sentence.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_LOST = ("08", "57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04")
"""Beginnings of the codes of errors after which a connection is no more: lost on the way, or ended by the server."""

_CONFLICTS = ("40001", "40P01")
"""Two transactions that cannot both go on, of which the server ended this one."""


def connect(url: str) -> Connection:
    """A connection; every statement is a transaction unless said otherwise."""
    if _parts(url) is None:
        raise EigenmapError(
            "the address of the database cannot be read; write postgresql://user@host:5432/name, or user:password@ in "
            "front of the host, with a character such as @ / : or % in a password as %40 %2F %3A or %25"
        )
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        raise EigenmapError(f"the database at {address(url)} cannot be reached: {first_line(error)}") from None


def address(url: str) -> str:
    """Host and database of an address, without the password."""
    known = _parts(url)
    return "this address" if known is None else f"{known.get('host') or 'localhost'}/{known.get('dbname') or ''}"


def _parts(url: str) -> dict[str, Any] | None:
    """What an address says; None if it says nothing, or if some of the password got into the other parts.

    Then nothing of it may be shown, not even what the database's library complains about.
    """
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:
        return None
    port = str(known.get("port") or "5432")
    astray = any("@" in str(known.get(name) or "") for name in ("host", "dbname"))
    return None if astray or not all(one.isdecimal() for one in port.split(",") if one) else known


@contextmanager
def speaking() -> Iterator[None]:
    """Turn what the database complains about into one sentence."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        if error.diag.schema_name == "pg_catalog":
            raise EigenmapError("another has just made a table of this name; run the same command again") from error
        detail = error.diag.message_detail or ""
        raise EigenmapError(f"every item needs an id of its own: {detail.rstrip('.')}") from error
    except (psycopg.Error, UnicodeEncodeError, OverflowError) as error:
        again = "nothing was changed, run the same command again"
        if is_lost(error):
            raise EigenmapError(f"the database went away: {first_line(error)}; {again}") from error
        if is_conflict(error):
            raise EigenmapError(
                f"other changes of the same items were in the way: {first_line(error)}; {again}"
            ) from error
        raise EigenmapError(f"the database refused: {first_line(error)}") from error


def is_lost(error: Exception) -> bool:
    """Whether the connection ended; other errors leave it as it is."""
    if not isinstance(error, psycopg.Error) or isinstance(error, psycopg.errors.PipelineAborted):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(_LOST)


def is_conflict(error: Exception) -> bool:
    """Whether the transaction was ended in favour of another, and may succeed if it is begun again."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _CONFLICTS


def execute(
    connection: Connection,
    statement: LiteralString | sql.Composable,
    values: Sequence[Any] = (),
    *,
    binary: bool = False,
) -> psycopg.Cursor[Any]:
    """Execute a statement in which every % of our own text begins a parameter, and none in a name or a literal does."""
    text = statement if isinstance(statement, str) else escaped(statement, connection)
    return connection.execute(text, values, binary=binary)


def escaped(statement: sql.Composable, connection: Connection) -> bytes:
    """The statement with each % of its names and literals doubled: psycopg takes a single one for a parameter."""
    if isinstance(statement, sql.Composed):
        return b"".join(escaped(part, connection) for part in statement)
    text = statement.as_bytes(connection)
    return text if isinstance(statement, sql.SQL | sql.Placeholder) else text.replace(b"%", b"%%")


def first_line(error: Exception) -> str:
    """What an error says, in short."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def require_pgvector(connection: Connection) -> None:
    """Make sure that the database has the extension, of a version that cuts vectors."""
    query = "SELECT string_to_array(extversion, '.')::int[] >= '{0,8}' FROM pg_extension WHERE extname = 'vector'"
    found = connection.execute(query).fetchone()
    if found is None:
        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.errors.UniqueViolation:
            pass  # another has just done so
        except psycopg.Error as error:
            raise EigenmapError(
                f"this database lacks pgvector; its administrator can run CREATE EXTENSION vector ({first_line(error)})"
            ) from error
        found = connection.execute(query).fetchone()
    if found is None or not found[0]:
        raise EigenmapError(
            "the pgvector of this database is older than 0.8; update it (ALTER EXTENSION vector UPDATE)"
        )
