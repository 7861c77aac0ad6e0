"""`eigenmap serve` as a process: started, asked, stopped while it answers."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from eigenmap.search import CodeIndex
from eigenmap.service.explorer import key_of
from tests.end_to_end.process import ENVIRONMENT, LIMIT, eigenmap, finish, serving
from tests.service.pictures import encoded


@pytest.fixture(scope="module")
def index(fitted: Path) -> Path:
    eigenmap("index", "runs/mine", "PHOTOS", "--out", "served.index", cwd=fitted)
    return fitted / "served.index"


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_finishes_what_was_begun(index: Path, blow: signal.Signals) -> None:
    """The last byte of an upload arrives after the signal, and its answer is whole all the same."""
    with serving(index) as (process, address), httpx.Client(base_url=address, timeout=LIMIT) as client:
        picture = encoded("PNG")
        head = f"POST /api/search/image?top=3 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(picture)}\r\n\r\n"
        with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=LIMIT) as connection:
            connection.sendall(head.encode() + picture[:-1])
            while "eigenmap_uploads_waiting 1" not in client.get("/metrics").text:
                assert process.poll() is None
            process.send_signal(blow)
            with pytest.raises(httpx.TransportError):  # no new requests from now on
                while True:
                    httpx.get(f"{address}api/health", timeout=LIMIT)
            connection.sendall(picture[-1:])
            answer = b""
            while chunk := connection.recv(65_536):
                answer += chunk
        assert answer.startswith(b"HTTP/1.1 200 OK") and b'"vector":[' in answer and answer.endswith(b"}")
        ended = finish(process)
    assert ended.code in (0, -signal.SIGTERM) and "Traceback" not in ended.err and ended.out == ""
    if blow is signal.SIGINT:
        assert ended.code == 0 and ended.err.endswith("Stopped.\n")


SLOW = """
import time
from eigenmap.search.filters import Condition

def slowly(condition, value):
    open(MARK, "w").close()
    time.sleep(0.01)
    return True

Condition.holds = slowly
"""
"""Comparing one item takes 10 ms."""
STUCK = """
import ctypes
from eigenmap.service.explorer import Explorer

def stuck(explorer, ask, queries):
    open(MARK, "w").close()
    ctypes.CDLL(None).sleep(3600)

Explorer.answer = stuck
"""
"""A search is somewhere in C for an hour, where nothing can be said to it."""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index whose items all say something else: by a filter, each is compared."""
    place, count = tmp_path_factory.mktemp("numbers") / "numbers.index", 50_000
    index = CodeIndex(2, where=place)
    index.add(np.random.default_rng(0).normal(size=(count, 2)), range(count), [{"n": n} for n in range(count)])
    return place


def asked(address: str, where: dict[str, Any] | None) -> list[int]:
    """The status of a search, or nothing where the server went without an answer."""
    try:
        answer = httpx.post(f"{address}api/search", json={"id": 0, "where": where}, timeout=LIMIT)
    except httpx.TransportError:
        return []
    return [answer.status_code]


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("what", [SLOW, STUCK], ids=["slow", "stuck"])
def test_a_stop_does_not_wait_for_ever(numbers: Path, tmp_path: Path, blow: signal.Signals, what: str) -> None:
    """A search that would take minutes, or that nothing can stop, is under way when the signal comes."""
    mark = tmp_path / "began"
    before = f"MARK = {str(mark)!r}{what}"
    with serving(numbers, "--timeout", 3600, before=before) as (process, address), ThreadPoolExecutor(1) as pool:
        asking = pool.submit(asked, address, {"n": {">=": 0}})
        while not mark.exists():
            assert process.poll() is None and not asking.done()
        process.send_signal(blow)
        ended = finish(process)
        assert asking.result(timeout=LIMIT) in ([503], [])  # told, if there was time for it
    assert ended.code in (0, -blow, 128 + blow) and "Traceback" not in ended.err


def test_a_filter_of_very_many_values_is_refused_and_a_large_one_answered(numbers: Path) -> None:
    with serving(numbers) as (process, address):
        assert asked(address, {"n": list(range(120_000))}) == [422]
        assert asked(address, {"n": {"!=": list(range(120_000))}}) == [422]
        assert asked(address, {"n": list(range(1000))}) == [200]
        process.terminate()
        ended = finish(process)
    assert ended.code in (0, -signal.SIGTERM) and "Traceback" not in ended.err


def test_a_fifo_in_the_folder_holds_nothing_up(index: Path, home: Path, tmp_path: Path) -> None:
    """Neither a picture that is asked for nor the end of the server waits for somebody who writes into it."""
    photos = shutil.copytree(home / "PHOTOS", tmp_path / "PHOTOS")
    (photos / "disc" / "1.png").unlink()
    os.mkfifo(photos / "disc" / "1.png")
    os.mkfifo(photos / "disc" / "not-indexed.png")
    with serving(index, "--images", photos) as (process, address), httpx.Client(base_url=address) as client:
        for name, size in (("disc/1.png", 16), ("disc/5.png", 256)):
            answer = client.get(f"/api/images/{key_of(name)}", timeout=60)
            assert answer.status_code == 200 and Image.open(io.BytesIO(answer.content)).width == size
        assert client.get(f"/api/images/{key_of('disc/not-indexed.png')}", timeout=60).status_code == 404
        process.terminate()
        ended = finish(process)
    assert ended.code in (0, -signal.SIGTERM) and ended.err.count("\n") == 1


def test_an_index_of_another_model_takes_the_place_of_the_served_one(
    index: Path, second_model: Path, fitted: Path, tmp_path: Path
) -> None:
    """`eigenmap index --force` with a new model: the server goes over to it, and old vectors are refused."""
    place = shutil.copytree(index, tmp_path / "photos.index")
    with serving(place) as (_, address), httpx.Client(base_url=address, timeout=LIMIT) as client:
        old = client.post("/api/search/image", content=encoded("PNG")).json()
        eigenmap("index", second_model, "PHOTOS", "--out", place, "--force", cwd=fitted)
        vector = {"vector": old["vector"], "model": old["model"]}
        statuses = {503}
        while statuses == {503}:
            statuses = {client.post("/api/search", json=vector).status_code}
        assert statuses == {409}
        new = client.post("/api/search/image", content=encoded("PNG")).json()
        assert new["model"] != old["model"] and len(new["vector"]) == 8
        assert client.get("/api/about").json()["n_components"] == 8


def test_a_token_from_the_environment(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "EIGENMAP_TOKEN", "a-secret-of-some-length")
    with serving(index, "--quiet") as (process, address):
        assert address.endswith("/?token=a-secret-of-some-length")
        with httpx.Client(follow_redirects=True, timeout=LIMIT) as browser:
            page = browser.get(address)
            assert page.status_code == 200 and "eigenmap explorer" in page.text and "token" not in str(page.url)
        assert httpx.get(str(page.url), timeout=LIMIT).status_code == 401
        process.terminate()
        assert finish(process).err == ""


def test_many_at_once_get_the_answers_they_would_get_alone(index: Path) -> None:
    asked = [{"id": f"disc/{i}.png", "dim": dim, "top": 5} for i in (1, 5, 7, 11) for dim in (2, 4, 16)]
    with serving(index) as (_, address), httpx.Client(base_url=address, timeout=LIMIT) as client:

        def ask(one: dict[str, Any]) -> list[str]:
            return [item["id"] for item in client.get("/api/search", params=one).json()["items"]]

        alone = [ask(one) for one in asked]
        with ThreadPoolExecutor(len(asked)) as pool:
            assert list(pool.map(ask, asked)) == alone
