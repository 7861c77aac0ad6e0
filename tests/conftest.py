"""What holds for all tests: one thread a process, since several run side by side; and a database server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from tests.database import rows, running_server

torch.set_num_threads(1)

# What is printed is read here by tests, wherever they run, not by a terminal that may want colours.
for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE", "GITHUB_ACTIONS"):
    os.environ.pop(name, None)

# Servers of tests are on this machine, where a proxy does not reach.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"

# No test is timed: on a busy machine any may be slow.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL server with pgvector; each worker of pytest-xdist has its own.

    Its data lie in a folder with a short name, since its socket is there too.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder,
        running_server(Path(folder) / "data") as address,
    ):
        yield address


@pytest.fixture
def database(server: str) -> Iterator[str]:
    """The address of an empty database, gone after the test."""
    rows(server, "CREATE DATABASE test")
    yield server.replace("/postgres?", "/test?")
    rows(server, "DROP DATABASE test WITH (FORCE)")
