"""Searches that take too long, and those that nobody waits for any more."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from eigenmap.search import CodeIndex
from eigenmap.search.filters import Condition
from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer
from eigenmap.service.scheduling import Limits
from eigenmap.service.thumbnails import StoredPictures
from tests.service.running import serving

ITEMS = 30_000
SLOW = {"id": 0, "where": {"n": {">=": 0}}}


class Slowly:
    """Compares one item in 10 ms; all of them take five minutes."""

    def __init__(self) -> None:
        self.began, self.compared = threading.Event(), 0

    def __call__(self, condition: Condition, value: object) -> bool:
        self.began.set()
        self.compared += 1
        time.sleep(0.01)
        return True


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Slowly:
    made = Slowly()
    monkeypatch.setattr(Condition, "holds", lambda condition, value: made(condition, value))
    return made


@pytest.fixture(scope="module")
def numbers() -> Explorer:
    """Items that all say something else."""
    index = CodeIndex(2)
    index.add(np.random.default_rng(0).normal(size=(ITEMS, 2)), range(ITEMS), [{"n": n} for n in range(ITEMS)])
    made = Explorer(index, None, "numbers", StoredPictures(Path("nowhere")))
    made.prepare()
    return made


def served(explorer: Explorer, seconds: float) -> Iterator[httpx.Client]:
    with serving(create_app(explorer, Limits(search_seconds=seconds))) as client:
        yield client


@pytest.fixture
def hurried(numbers: Explorer, slowly: Slowly) -> Iterator[httpx.Client]:
    yield from served(numbers, 0.2)


@pytest.fixture
def patient(numbers: Explorer, slowly: Slowly) -> Iterator[httpx.Client]:
    yield from served(numbers, 3600)


def count(client: httpx.Client, status: int) -> int:
    wanted = f'eigenmap_requests_total{{route="/api/search",status="{status}"}} '
    lines = client.get("/metrics").text.splitlines()
    return next((int(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), 0)


def test_a_search_that_takes_too_long_is_given_up(hurried: httpx.Client, slowly: Slowly) -> None:
    answer = hurried.post("/api/search", json=SLOW)
    assert answer.status_code == 504 and "0.2 seconds" in answer.json()["detail"]
    assert "content-security-policy" in answer.headers and count(hurried, 504) == 1
    assert "504" in hurried.get("/openapi.json").json()["paths"]["/api/search"]["post"]["responses"]
    until_free(hurried)
    assert 0 < slowly.compared < ITEMS // 2


def until_free(client: httpx.Client) -> None:
    """The thread that searches is free again; as long as it is not, other searches wait."""
    while client.get("/api/search", params={"id": 0}).status_code == 504:
        pass


def test_a_search_whose_client_has_gone_is_stopped_and_counted(patient: httpx.Client, slowly: Slowly) -> None:
    body = b'{"id": 0, "where": {"n": {">=": 0}}}'
    head = f"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection((patient.base_url.host, patient.base_url.port or 80), timeout=60) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        assert slowly.began.wait(60)
    assert patient.get("/api/search", params={"id": 0}).status_code == 200  # after it, on the same thread
    assert slowly.compared < ITEMS // 2
    last = time.monotonic() + 60
    while count(patient, 499) != 1:
        assert time.monotonic() < last


def test_a_server_that_stops_does_not_wait_for_a_search(numbers: Explorer, slowly: Slowly) -> None:
    """The application is told to end while it searches; uvicorn cancels what is under way after its grace."""
    answers: list[httpx.Response] = []
    with serving(create_app(numbers, Limits(search_seconds=3600)), grace=1) as client:
        place = f"{client.base_url}/api/search"
        asking = threading.Thread(target=lambda: answers.append(httpx.post(place, json=SLOW, timeout=300)))
        asking.start()
        assert slowly.began.wait(60)
    asking.join(60)
    assert [answer.status_code for answer in answers] == [503] and "stopping" in answers[0].json()["detail"]
    assert "content-security-policy" in answers[0].headers and slowly.compared < ITEMS // 2
