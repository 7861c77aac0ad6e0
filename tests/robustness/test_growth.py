"""Memory of the service: what it keeps per answer, per change and per replacement of its index is bounded.

The long versions are `benchmarks/reliability/growth.py` and `steady.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from benchmarks.reliability import reachable
from eigenmap import fit_images
from eigenmap.core.folders import exchange
from eigenmap.search import CodeIndex
from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer, key_of
from eigenmap.service.metrics import ServiceMetrics
from tests.cli.run import succeed
from tests.end_to_end.photos import pictures, write_photos
from tests.service.pictures import FORMATS, encoded
from tests.service.running import serving

ROUNDS, WARM_UP = 12, 6
LEAST = 0.75
"""Blocks per request. An object that is kept takes one at least; caches that still fill take up to 0.5 here."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 30 photos by a model that is hardly trained."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("growth")
    write_photos(folder / "PHOTOS", per_kind=10)
    small = {"steps": 4, "batch_size": 32, "hidden": 64, "device": "cpu", "progress": False}
    fit_images(pictures(60), 8, out=folder / "model", **small)
    succeed("index", folder / "model", folder / "PHOTOS", "--out", folder / "photos.index", "--quiet")
    return folder / "photos.index"


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "photos.index")


@pytest.fixture
def client(place: Path) -> Iterator[httpx.Client]:
    explorer = Explorer.open(place)
    explorer.prepare()
    with serving(create_app(explorer)) as running:
        yield running


def requests(client: httpx.Client, ids: list[str]) -> int:
    """Ask for everything that the page asks for; return the number of requests."""
    count = 0
    for number, name in enumerate(ids):
        asked = [
            client.get("/api/search", params={"id": name, "dim": 1 + number % 8, "pictures": True}),
            client.post("/api/search", json={"vector": [float(number)] * 8, "where": {"label": "disc"}}),
            client.get(f"/api/images/{key_of(name)}"),
            client.get("/api/features", params={"first": 1, "count": 8}),
            client.get("/api/search", params={"id": "unknown"}),
            client.post("/api/search/image", content=encoded(FORMATS[number % len(FORMATS)])),
        ]
        assert {answer.status_code for answer in asked} <= {200, 404, 422, 503}
        count += len(asked)
    return count


def changed(place: Path, made: Path) -> None:
    """Add items, delete them, and exchange the whole index."""
    index, names = CodeIndex.open(place), [f"new {number}" for number in range(5)]
    index.add(np.ones((5, 8), np.float32), names)
    index.delete(names)
    new = shutil.copytree(made, place.with_name("new"))
    exchange(new, place)
    shutil.rmtree(new)


def blocks_per_request(client: httpx.Client, act: Callable[[], object], ids: list[str]) -> float:
    """Blocks that Python keeps per request, after a warm-up."""
    before = count = 0
    for number in range(WARM_UP + ROUNDS):
        if number == WARM_UP:
            count, before = 0, reachable.sizes()[1]
        if number % 2:
            act()
        count += requests(client, ids)
    time.sleep(0.2)  # what is prepared in the background
    return (reachable.sizes()[1] - before) / count


def test_answers_and_new_indexes_leave_nothing_behind(client: httpx.Client, place: Path, made: Path) -> None:
    ids = [str(name) for name in CodeIndex.open(place).ids][:8]
    assert blocks_per_request(client, lambda: changed(place, made), ids) < LEAST


@pytest.fixture
def leaking(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A service that keeps an object per answer; to be requested before `client`."""
    kept: list[object] = []
    count = ServiceMetrics.count
    monkeypatch.setattr(ServiceMetrics, "count", lambda self, *given: (kept.append(object()), count(self, *given)))
    return kept


def test_an_object_kept_per_answer_would_be_noticed(leaking: list[object], client: httpx.Client, place: Path) -> None:
    ids = [str(name) for name in CodeIndex.open(place).ids][:8]
    assert blocks_per_request(client, lambda: None, ids) > LEAST
    assert len(leaking) == 6 * len(ids) * (WARM_UP + ROUNDS)


CHURNING = """
import ctypes, random
from benchmarks.reliability import reachable
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
reachable.sizes()
before, chance, live = reachable.handed_out(), random.Random(0), []
for _ in range(20_000):
    live.append(libc.malloc(chance.randrange(16, 1000)))
    if len(live) > 50:
        libc.free(live.pop(chance.randrange(50)))
while live:
    libc.free(live.pop())
print(reachable.handed_out() - before)
"""


@pytest.mark.parametrize(("further", "least", "most"), [({}, 50_000, 200_000), (reachable.EXACT, -20_000, 20_000)])
def test_what_the_c_library_keeps_per_thread_is_not_counted(further: dict[str, str], least: int, most: int) -> None:
    """The slope that memory per answer once had: a thread's cache of freed memory fills up."""
    env = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    ended = subprocess.run(
        [sys.executable, "-c", CHURNING], capture_output=True, text=True, check=True, env=env | further
    )
    assert least < int(ended.stdout) < most


def test_a_full_table_of_interned_strings_is_rebuilt_at_the_same_size() -> None:
    """The step of 1.92 MB that a server once showed; `reachable` brings it about before the first reading."""
    first, _ = reachable.sizes()
    reachable.sizes()
    for number in range(400_000):
        sys.intern(f"short-lived {number}")
    assert abs(reachable.sizes()[0] - first) < 3e6
