"""Talking to PostgreSQL: connections, and complaints as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eigenmap.errors import EigenmapError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise EigenmapError('PostgreSQL needs psycopg: pip install "eigenmap[postgres]"') from None

Connection = psycopg.Connection[Any]


def connect(url: str) -> Connection:
    """A connection; every statement is a transaction unless said otherwise."""
    if _parts(url) is None:
        raise EigenmapError(
            "the address of the database cannot be read; write postgresql://user:password@host:5432/name, and a "
            "character such as @ / : or % in a password as %40 %2F %3A or %25"
        )
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        raise EigenmapError(f"the database at {address(url)} cannot be reached: {_first_line(error)}") from None


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
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise EigenmapError(
            f"the database went away: {_first_line(error)}; nothing was changed, run the same command again"
        ) from error
    except psycopg.errors.UniqueViolation as error:
        detail = error.diag.message_detail or ""
        raise EigenmapError(f"every item needs an id of its own: {detail.rstrip('.')}") from error
    except (psycopg.Error, UnicodeEncodeError, OverflowError) as error:
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
                "this database lacks pgvector; its administrator can run CREATE EXTENSION vector "
                f"({_first_line(error)})"
            ) from error
        found = connection.execute(query).fetchone()
    if found is None or not found[0]:
        raise EigenmapError(
            "the pgvector of this database is older than 0.8; update it (ALTER EXTENSION vector UPDATE)"
        )
