"""Transactions whose end is known: made, not made, or honestly unknown.

A connection that is lost before COMMIT was sent has changed nothing. One that is lost later leaves the question open,
and the server can answer it: it remembers what became of a transaction by its number, so that a second connection can
ask (`pg_xact_status`).
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
"""Seconds for which the server is asked what became of a transaction."""

_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)


class Ticket(NamedTuple):
    """What a transaction is asked for by: its number, and when the server that gave the number started."""

    number: str
    started: str


@contextmanager
def transaction(url: str, connection: Connection) -> Iterator[None]:
    """A transaction; once the block has ended well the changes are there for good, even if the connection is not.

    Errors of psycopg mean that nothing was changed. Where it cannot be found out, an `EigenmapError` says how to.
    """
    ticket = None
    try:
        with connection.transaction():
            yield
            ticket = _ticket(connection)  # from here on, COMMIT may have been sent
    except psycopg.Error as error:
        if ticket is None or not is_lost(error):
            raise
        made = outcome(url, ticket)
        if made is None:
            raise EigenmapError(
                f"the connection was lost while the change was being committed ({first_line(error)}), and whether it "
                "was made is unknown; before you repeat it, ask the database: "
                f"SELECT pg_xact_status('{ticket.number}') says committed or aborted"
            ) from error
        if not made:
            raise


def _ticket(connection: Connection) -> Ticket | None:
    """The ticket of the transaction that is open, None if it has changed nothing."""
    row = connection.execute(
        "SELECT pg_current_xact_id_if_assigned()::text, extract(epoch FROM pg_postmaster_start_time())::text"
    ).fetchone()
    return None if row is None or row[0] is None else Ticket(*row)


def outcome(url: str, ticket: Ticket) -> bool | None:
    """Whether a transaction was committed, asked over a new connection; None if it cannot be found out."""
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
            continue  # not reachable yet: it may be starting again
    return None


def _status(connection: Connection, ticket: Ticket) -> str | None:
    """What the server says of a transaction; None if it is another server, or one that has started again since.

    A server that crashed may give the number of a transaction that it forgot to another.
    """
    row = connection.execute(
        "SELECT CASE WHEN extract(epoch FROM pg_postmaster_start_time())::text = %s"
        " THEN pg_xact_status(%s::text::xid8) END",
        [ticket.started, ticket.number],
    ).fetchone()
    return None if row is None else row[0]


def _end(connection: Connection, ticket: Ticket) -> None:
    """End the session that has lost its client and does not know it: it would hold its locks for hours."""
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = %s::text::xid8::xid",
        [ticket.number],
    )
