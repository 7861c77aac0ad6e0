"""`eigenmap serve` as a process: started, asked, stopped while it answers."""

from __future__ import annotations

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

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
