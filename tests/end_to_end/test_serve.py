"""`eigenmap serve` as a process: started, asked, stopped while it answers."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.process import COMMAND, ENVIRONMENT, eigenmap
from tests.service.pictures import encoded


@pytest.fixture(scope="module")
def index(fitted: Path) -> Path:
    eigenmap("index", "runs/mine", "PHOTOS", "--out", "served.index", cwd=fitted)
    return fitted / "served.index"


def start(*args: object) -> tuple[subprocess.Popen[str], str]:
    command = [*COMMAND, "serve", *map(str, args), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_finishes_what_was_begun(index: Path, blow: signal.Signals) -> None:
    """The last byte of an upload arrives after the signal, and its answer is whole all the same."""
    process, address = start(index)
    url = httpx.URL(address)
    picture = encoded("PNG")
    head = f"POST /api/search/image?top=3 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(picture)}\r\n\r\n"
    with socket.create_connection((url.host, url.port or 80), timeout=30) as connection:
        connection.sendall(head.encode() + picture[:-1])
        while "eigenmap_uploads_waiting 1" not in httpx.get(f"{address}metrics").text:
            assert process.poll() is None
        process.send_signal(blow)
        with pytest.raises(httpx.TransportError):  # no new requests from now on
            while True:
                httpx.get(f"{address}api/health", timeout=5)
        connection.sendall(picture[-1:])
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 OK") and b'"vector":[' in answer and answer.endswith(b"}")
    out, err = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM) and "Traceback" not in err and out == ""
    if blow is signal.SIGINT:
        assert process.returncode == 0 and err.endswith("Stopped.\n")


def test_a_token_from_the_environment(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "EIGENMAP_TOKEN", "a-secret-of-some-length")
    process, address = start(index, "--quiet")
    try:
        assert address.endswith("/?token=a-secret-of-some-length")
        with httpx.Client(follow_redirects=True) as browser:
            page = browser.get(address)
            assert page.status_code == 200 and "eigenmap explorer" in page.text and "token" not in str(page.url)
        assert httpx.get(str(page.url)).status_code == 401
    finally:
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert err == ""


def test_many_at_once_get_the_answers_they_would_get_alone(index: Path) -> None:
    process, address = start(index)
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            asked = [{"id": f"disc/{i}.png", "dim": dim, "top": 5} for i in (1, 5, 7, 11) for dim in (2, 4, 16)]
            alone = [client.get("/api/search", params=one).json()["items"] for one in asked]
            together: list[object] = [None] * len(asked)

            def ask(number: int) -> None:
                together[number] = client.get("/api/search", params=asked[number]).json()["items"]

            threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(asked))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [[i["id"] for i in one] for one in together] == [[i["id"] for i in one] for one in alone]  # type: ignore[attr-defined]
    finally:
        process.terminate()
        process.communicate(timeout=30)
