"""An `eigenmap index --to` that is killed leaves no table, and the same command completes."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import numpy as np

from tests.database import rows, tables
from tests.end_to_end.photos import pictures
from tests.end_to_end.process import eigenmap, finish, start

LOADING = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY%' AND datname = current_database()"

# In the middle of a COPY, after ten batches of sixteen.
KILLED = """
import os, signal
from eigenmap.search.postgres import copying

binary_codes, calls = copying.binary_codes, []
def dying(table, codes):
    calls.append(1)
    if len(calls) > 10:
        os.kill(os.getpid(), signal.SIGKILL)
    return binary_codes(table, codes)
copying.binary_codes = dying
"""


def test_a_killed_load_leaves_no_table(fitted: Path, tmp_path: Path, database: str) -> None:
    np.save(tmp_path / "pictures.npy", pictures(500))
    index = ("index", fitted / "runs" / "mine", tmp_path / "pictures.npy", "--to", database, "--table", "photos")
    killed = finish(start(*index, "--device", "cpu", "--batch-size", 16, before=KILLED))
    assert killed.code == -signal.SIGKILL, killed.err
    while rows(database, LOADING):  # until the server has noticed
        time.sleep(0.01)
    assert tables(database) == []

    assert re.search("500 items of 16.*500.*new", eigenmap(*index, "--device", "cpu").err)
    query = fitted / "QUERIES" / "disc" / "1.png"
    found = eigenmap("search", database, query, "--table", "photos", "--top", 3).out
    assert found.count("│") >= 3


# Everything was copied, and the end of the transaction is near.
KILLED_AT_THE_MODEL = """
import os, signal
from eigenmap.search.postgres import models

def dying(run):
    return lambda connection: os.kill(os.getpid(), signal.SIGKILL)
models.model_writer = dying
"""


def test_codes_and_their_model_appear_together(fitted: Path, tmp_path: Path, database: str) -> None:
    """Of old a kill could leave a table without the model that a search by picture needs."""
    np.save(tmp_path / "pictures.npy", pictures(20))
    index = ("index", fitted / "runs" / "mine", tmp_path / "pictures.npy", "--to", database, "--table", "photos")
    killed = finish(start(*index, "--device", "cpu", before=KILLED_AT_THE_MODEL))
    assert killed.code == -signal.SIGKILL, killed.err
    others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
    while rows(database, others):  # until the server has noticed
        time.sleep(0.01)
    assert tables(database) == []
    eigenmap(*index, "--device", "cpu")
    assert tables(database) == ["eigenmap_models", "photos"]
