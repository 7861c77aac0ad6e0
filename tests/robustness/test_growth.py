"""Memory of the service: what it keeps per answer, per change and per replacement of its index is bounded.

The long versions are `benchmarks/reliability/growth.py` and `steady.py`.
"""

from __future__ import annotations

import shutil
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


def test_a_full_table_of_interned_strings_is_rebuilt_at_the_same_size() -> None:
    """The step of 1.92 MB that a server once showed; `reachable` brings it about before the first reading."""
    first, _ = reachable.sizes()
    reachable.sizes()
    for number in range(400_000):
        sys.intern(f"short-lived {number}")
    assert abs(reachable.sizes()[0] - first) < 3e6
