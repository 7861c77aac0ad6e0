"""Settings of all tests (one thread per process, since several run side by side), and a database server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Output is read by tests, not shown in a terminal that may want colours.
for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE", "GITHUB_ACTIONS"):
    os.environ.pop(name, None)

# Commands that tests start have one thread each, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Test servers run on this machine, which a proxy cannot reach.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the libraries, except in the process that only distributes the tests."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return
    import hypothesis
    import torch

    torch.set_num_threads(1)
    # No deadlines: any test may be slow on a busy machine.
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")


SLOW_FOLDERS = (
    "benchmarks",
    "cli/figures",
    "detection",
    "end_to_end",
    "examples",
    "figures",
    "hub",
    "robustness",
    "search/postgres",
    "service",
    "tools",
)
SLOW_FILES = (
    "cli/evaluate/test_nodes.py",
    "cli/fit/test_config.py",
    "cli/fit/test_vectors.py",
    "cli/search/test_database.py",
    "cli/search/test_index.py",
    "cli/search/test_plain_vectors.py",
    "cli/test_export.py",
    "cli/test_passwords.py",
    "cli/test_streams.py",
    "cli/test_verify.py",
    "core/test_redaction.py",
    "demo/test_ready.py",
    "embedding/test_crashes.py",
    "embedding/test_engines.py",
    "estimators/test_neural_eigenmap.py",
    "estimators/test_pair.py",
    "estimators/test_saved.py",
    "evaluation/test_nodes.py",
    "export/test_onnx.py",
    "fitting/test_evidence.py",
    "fitting/test_graph.py",
    "fitting/test_images.py",
    "fitting/test_length.py",
    "fitting/test_time.py",
    "fitting/test_towers.py",
    "fitting/test_vectors.py",
    "kernels/test_scale.py",
    "networks/test_hugging_face.py",
    "objectives/test_recovery.py",
    "objectives/test_two_processes.py",
    "relations/test_graph_two_processes.py",
    "reproduce/test_table_1.py",
    "reproduce/test_dry_run_more.py",
    "reproduce/test_node_rivals.py",
    "reproduce/test_table_6.py",
    "search/test_forking.py",
    "search/test_kills.py",
    "search/test_processes.py",
    "search/test_replacing.py",
    "search/test_threads.py",
    "test_demo.py",
    "test_docs_graphs.py",
    "test_docs_kernels.py",
    "test_docs_vectors.py",
    "test_theorems.py",
    "training/test_launch.py",
    "test_docs_howto.py",
)
"""Tests that need a browser, a database, Ray or ONNX, that kill processes or race, or that take many seconds.

Single tests in other files have the marker `slow`.
"""


def is_slow(path: Path) -> bool:
    """Tell whether `make check` leaves a file or folder out."""
    place = path.relative_to(Path(__file__).parent).as_posix()
    return place in SLOW_FILES or f"{place}/".startswith(tuple(f"{folder}/" for folder in SLOW_FOLDERS))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import slow tests unless requested: their libraries take seconds to load."""
    return True if config.option.markexpr == "not slow" and is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `make check` leaves out."""
    for item in items:
        if is_slow(item.path):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Return the address of a PostgreSQL server with pgvector; each worker of pytest-xdist has its own.

    Its data are in a folder with a short name, since the folder also contains its socket.
    """
    from tests.database import running_server

    with (
        tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder,
        running_server(Path(folder) / "data") as address,
    ):
        yield address


@pytest.fixture
def database(server: str) -> Iterator[str]:
    """Return the address of an empty database, which is dropped after the test."""
    from tests.database import rows

    rows(server, "CREATE DATABASE test")
    yield server.replace("/postgres?", "/test?")
    rows(server, "DROP DATABASE test WITH (FORCE)")
