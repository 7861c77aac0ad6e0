"""Storage of the model beside its codes, so that any client of the database can search by image."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from eigenmap.core.errors import EigenmapError
from eigenmap.model import DESCRIPTION, WEIGHTS, Eigenmap, weights_file
from eigenmap.search.postgres.connection import Connection, address, connect
from eigenmap.search.postgres.session import Session

_TABLE = "eigenmap_models"


def model_writer(run: Path) -> Callable[[Connection], None]:
    """Return a function that stores a model, once, in the transaction of its caller."""
    fingerprint = Eigenmap.fingerprint(run)
    files = [path.read_bytes() for path in (run / DESCRIPTION, weights_file(run))]

    def store(connection: Connection) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [_TABLE])
        connection.execute(
            "CREATE TABLE IF NOT EXISTS eigenmap_models"
            " (fingerprint text PRIMARY KEY, description bytea NOT NULL, weights bytea NOT NULL)"
        )
        connection.execute(
            "INSERT INTO eigenmap_models VALUES (%s, %b, %b) ON CONFLICT DO NOTHING", [fingerprint, *files]
        )

    return store


def fetch_model(url: str, fingerprint: str | None, to: Path) -> Path:
    """Write the model that made the codes of a table to the folder `to`."""

    def fetch(connection: Connection) -> Any:
        known = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [_TABLE]).fetchone()
        if known is None or not known[0]:
            return None
        return connection.execute(
            "SELECT description, weights FROM eigenmap_models WHERE fingerprint = %s", [fingerprint], binary=True
        ).fetchone()

    with closing(Session(url, connect(url))) as session:
        row = session.read(fetch)
    if row is None:
        raise EigenmapError(
            f"the database at {address(url)} does not contain the model of these codes; give the folder of its run "
            "as model="
        )
    to.mkdir(parents=True, exist_ok=True)
    for name, content in zip((DESCRIPTION, WEIGHTS), row, strict=True):
        (to / name).write_bytes(content)
    return to
