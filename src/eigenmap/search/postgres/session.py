"""Database session: one connection at a time, renewed when it is lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from eigenmap.core.errors import EigenmapError
from eigenmap.search.postgres.connection import Connection, connect, is_conflict, is_lost, speaking
from eigenmap.search.postgres.transactions import transaction

T = TypeVar("T")
Work = Callable[[Connection], T]

CONFLICTS, LOSSES = 8, 1
"""Maximum number of retries after a conflict, and after a lost connection."""

_PAUSES = (0.0, 0.2, 0.5, 1.0)
"""Seconds before each attempt to reconnect: a stopped server may be restarting."""


class Session:
    """Runs reads and changes of any number of threads, one after another.

    session.read(lambda connection: connection.execute("SELECT 1").fetchall())
    """

    def __init__(self, url: str, connection: Connection) -> None:
        self.url = url
        self._connection = connection
        self._closed = False
        self._turn = threading.RLock()

    @property
    def connection(self) -> Connection:
        """The connection, renewed if the last one was lost."""
        if self._closed:
            raise EigenmapError("this index was closed; open it again")
        if self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Connection:
        for pause in _PAUSES[:-1]:
            time.sleep(pause)
            try:
                return connect(self.url)
            except EigenmapError:
                continue
        time.sleep(_PAUSES[-1])
        return connect(self.url)

    def read(self, work: Work[T]) -> T:
        """Return the result of `work`, which only reads; it is repeated once if the connection is lost."""
        with self._turn, speaking():
            try:
                return work(self.connection)
            except psycopg.Error as error:
                if not self._has_lost(error):
                    raise
            return work(self.connection)

    def write(self, work: Work[T]) -> T:
        """Return the result of `work`, run in a transaction that is then committed.

        A transaction that was not committed is repeated, several times after conflicts, once after a lost connection.
        """
        conflicts, losses = CONFLICTS, LOSSES
        with self._turn, speaking():
            while True:
                connection = self.connection
                try:
                    with transaction(self.url, connection):
                        return work(connection)
                except psycopg.Error as error:
                    if is_conflict(error) and conflicts:
                        conflicts -= 1
                        # Random delays, so that the same two clients do not collide again.
                        time.sleep(random.uniform(0, 0.01 * 2 ** (CONFLICTS - conflicts)))
                    elif self._has_lost(error) and losses:
                        losses -= 1
                    else:
                        raise

    def _has_lost(self, error: psycopg.Error) -> bool:
        if is_lost(error):
            self._connection.close()  # closed by the server, which psycopg may not have noticed
        return self._connection.closed

    def close(self) -> None:
        """Close the connection permanently."""
        self._closed = True
        self._connection.close()
