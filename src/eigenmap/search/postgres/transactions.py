"""Transactions whose outcome is known: committed, not committed, or explicitly unknown.

If the connection is lost before COMMIT is sent, nothing has changed. If it is lost later, the outcome is uncertain, but
the server records it by transaction number, so that a second connection can ask (`pg_xact_status`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from eigenmap.core.errors import EigenmapError
from eigenmap.search.postgres.connection import Connection, connect, first_line, is_lost

OUTCOME_TIMEOUT = 15.0
"""Maximum number of seconds spent asking the server for the outcome of a transaction."""

_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)


class Ticket(NamedTuple):
    """Identification of a transaction: its number, and the start time of the server that assigned it."""

    number: str
    started: str


@contextmanager
def transaction(url: str, connection: Connection) -> Iterator[None]:
    """Run a transaction; once the block succeeds the changes are permanent, even if the connection is lost.

    Errors of psycopg mean that nothing was changed. If the outcome cannot be determined, an `EigenmapError` says how
    to.
    """
    ticket = None
    try:
        with connection.transaction():
            yield
            ticket = _ticket(connection)  # after this, COMMIT may have been sent
    except psycopg.Error as error:
        if ticket is None or not is_lost(error):
            raise
        made = outcome(url, ticket)
        if made is None:
            raise EigenmapError(
                f"the connection was lost during the commit ({first_line(error)}), and it is unknown whether the "
                "change was made; before repeating it, ask the database: "
                f"SELECT pg_xact_status('{ticket.number}') says committed or aborted"
            ) from error
        if not made:
            raise


def _ticket(connection: Connection) -> Ticket | None:
    """Return the ticket of the open transaction, or None if it has changed nothing."""
    row = connection.execute(
        "SELECT pg_current_xact_id_if_assigned()::text, extract(epoch FROM pg_postmaster_start_time())::text"
    ).fetchone()
    return None if row is None or row[0] is None else Ticket(*row)


def outcome(url: str, ticket: Ticket) -> bool | None:
    """Ask over a new connection whether a transaction was committed; None if that cannot be determined."""
    until = time.monotonic() + OUTCOME_TIMEOUT
    asked = 0
    while asked == 0 or time.monotonic() < until:
        time.sleep(_PAUSES[min(asked, len(_PAUSES) - 1)])
        asked += 1
        try:
            with connect(url) as connection:
                status = _status(connection, ticket)
                if status is None:
                    return None
                if status != "in progress":
                    return status == "committed"
                if asked >= len(_PAUSES):
                    _end(connection, ticket)
        except (EigenmapError, psycopg.Error):
            continue  # not reachable yet: it may be restarting
    return None


def _status(connection: Connection, ticket: Ticket) -> str | None:
    """Return the status of a transaction; None if the server is a different one or has restarted since.

    A crashed server may reuse the number of a transaction that it lost.
    """
    row = connection.execute(
        "SELECT CASE WHEN extract(epoch FROM pg_postmaster_start_time())::text = %s"
        " THEN pg_xact_status(%s::text::xid8) END",
        [ticket.started, ticket.number],
    ).fetchone()
    return None if row is None else row[0]


def _end(connection: Connection, ticket: Ticket) -> None:
    """End a server session that has not noticed the loss of its client; it would hold its locks for hours."""
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = %s::text::xid8::xid",
        [ticket.number],
    )
