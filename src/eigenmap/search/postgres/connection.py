"""Connections to PostgreSQL, and database errors as readable messages."""

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

# Its warnings are also raised as exceptions, which become error messages.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_LOST = ("08", "57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04")
"""Prefixes of error codes after which a connection is unusable: lost, or closed by the server."""

_CONFLICTS = ("40001", "40P01")
"""Error codes of a transaction that the server aborted because of a conflict."""


def connect(url: str) -> Connection:
    """Open a connection in which every statement is a transaction by default."""
    if _parts(url) is None:
        raise EigenmapError(
            "the database address cannot be parsed; write postgresql://user@host:5432/name, or user:password@ before "
            "the host, with characters such as @ / : or % in a password written as %40 %2F %3A or %25"
        )
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        raise EigenmapError(f"the database at {address(url)} cannot be reached: {first_line(error)}") from None


def address(url: str) -> str:
    """Return host and database of an address, without the password."""
    known = _parts(url)
    return "this address" if known is None else f"{known.get('host') or 'localhost'}/{known.get('dbname') or ''}"


def _parts(url: str) -> dict[str, Any] | None:
    """Parse an address; return None if it is empty or if parts of the password ended up elsewhere.

    In that case nothing of it may be shown, not even the message of the database library.
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
    """Turn database errors into readable messages."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        if error.diag.schema_name == "pg_catalog":
            raise EigenmapError("another client has just created this table; run the same command again") from error
        detail = error.diag.message_detail or ""
        raise EigenmapError(f"every item needs its own id: {detail.rstrip('.')}") from error
    except (psycopg.Error, UnicodeEncodeError, OverflowError) as error:
        again = "nothing was changed; run the same command again"
        if is_lost(error):
            raise EigenmapError(f"the connection to the database was lost: {first_line(error)}; {again}") from error
        if is_conflict(error):
            raise EigenmapError(
                f"conflict with other changes to the same items: {first_line(error)}; {again}"
            ) from error
        raise EigenmapError(f"the database reported an error: {first_line(error)}") from error


def is_lost(error: Exception) -> bool:
    """Tell whether the connection ended; other errors leave it usable."""
    if not isinstance(error, psycopg.Error) or isinstance(error, psycopg.errors.PipelineAborted):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(_LOST)


def is_conflict(error: Exception) -> bool:
    """Tell whether the transaction was aborted in favour of another and may succeed if repeated."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _CONFLICTS


def execute(
    connection: Connection,
    statement: LiteralString | sql.Composable,
    values: Sequence[Any] = (),
    *,
    binary: bool = False,
) -> psycopg.Cursor[Any]:
    """Execute a statement; % starts a parameter in our own text, but not in a name or literal."""
    text = statement if isinstance(statement, str) else escaped(statement, connection)
    return connection.execute(text, values, binary=binary)


def escaped(statement: sql.Composable, connection: Connection) -> bytes:
    """Double every % in names and literals of a statement, which psycopg would take for a parameter."""
    if isinstance(statement, sql.Composed):
        return b"".join(escaped(part, connection) for part in statement)
    text = statement.as_bytes(connection)
    return text if isinstance(statement, sql.SQL | sql.Placeholder) else text.replace(b"%", b"%%")


def first_line(error: Exception) -> str:
    """Return the first line of an error message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def require_pgvector(connection: Connection) -> None:
    """Ensure that the database has pgvector in a version that supports subvectors."""
    query = "SELECT string_to_array(extversion, '.')::int[] >= '{0,8}' FROM pg_extension WHERE extname = 'vector'"
    found = connection.execute(query).fetchone()
    if found is None:
        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.errors.UniqueViolation:
            pass  # another client has just created it
        except psycopg.Error as error:
            raise EigenmapError(
                f"this database lacks pgvector; its administrator can run CREATE EXTENSION vector ({first_line(error)})"
            ) from error
        found = connection.execute(query).fetchone()
    if found is None or not found[0]:
        raise EigenmapError(
            "the pgvector of this database is older than 0.8; update it (ALTER EXTENSION vector UPDATE)"
        )
