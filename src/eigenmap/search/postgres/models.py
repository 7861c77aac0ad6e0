"""The model beside its codes, so that whoever can reach the database can search with images."""

from __future__ import annotations

from pathlib import Path

from eigenmap.errors import EigenmapError
from eigenmap.model import DESCRIPTION, WEIGHTS, Eigenmap, weights_file
from eigenmap.search.postgres.connection import address, connect, speaking

_TABLE = "eigenmap_models"


def store_model(url: str, run: Path) -> None:
    """Keep a model in the table `eigenmap_models`, once."""
    files = [path.read_bytes() for path in (run / DESCRIPTION, weights_file(run))]
    with connect(url) as connection, speaking(), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [_TABLE])
        connection.execute(
            "CREATE TABLE IF NOT EXISTS eigenmap_models"
            " (fingerprint text PRIMARY KEY, description bytea NOT NULL, weights bytea NOT NULL)"
        )
        connection.execute(
            "INSERT INTO eigenmap_models VALUES (%s, %b, %b) ON CONFLICT DO NOTHING",
            [Eigenmap.fingerprint(run), *files],
        )


def fetch_model(url: str, fingerprint: str | None, to: Path) -> Path:
    """Write the model that made the codes of a table into the folder `to`."""
    with connect(url) as connection, speaking():
        known = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [_TABLE]).fetchone()
        row = None
        if known is not None and known[0]:
            row = connection.execute(
                "SELECT description, weights FROM eigenmap_models WHERE fingerprint = %s", [fingerprint], binary=True
            ).fetchone()
    if row is None:
        raise EigenmapError(
            f"the database at {address(url)} does not hold the model of these codes; name it by --model"
        )
    to.mkdir(parents=True, exist_ok=True)
    for name, content in zip((DESCRIPTION, WEIGHTS), row, strict=True):
        (to / name).write_bytes(content)
    return to
