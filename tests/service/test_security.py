from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from eigenmap.service.app import create_app
from eigenmap.service.security import Guard, hostname, is_loopback
from eigenmap.service.state import Explorer
from eigenmap.service.work import Limits
from tests.service.running import serving

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def closed(explorer: Explorer) -> Iterator[httpx.Client]:
    """The same service with a token."""
    with serving(create_app(explorer, token=TOKEN)) as client:
        yield client


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True), ("LOCALHOST", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True),
        ("[::1]", True), ("0.0.0.0", False), ("::", False), ("192.168.1.2", False), ("evil.example", False),
        ("127.0.0.1.evil.example", False), ("localhost.evil.example", False), ("", False),
    ],
)  # fmt: skip
def test_what_is_this_machine(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


def test_the_name_in_a_host_header() -> None:
    assert [hostname(h) for h in ("a:1", "a", "[::1]:8", "[::1]", "[", "")] == ["a", "a", "[::1]", "[::1]", "[", ""]


def test_a_page_elsewhere_whose_name_points_here_is_refused(client: httpx.Client) -> None:
    for host in ("evil.example", "evil.example:8000", "192.168.0.5"):
        answer = client.get("/api/about", headers={"Host": host})
        assert answer.status_code == 421 and "localhost only" in answer.json()["detail"]
    for host in ("localhost", "localhost:9", "[::1]:80", "127.0.0.1"):
        assert client.get("/api/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/about", "/api/nothing", "/api/search", "/metrics"])
def test_every_answer_has_security_headers(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert (headers["referrer-policy"] == "no-referrer" and "server" not in headers) or headers["server"] == "uvicorn"
    assert headers["cache-control"] in ("no-store", "no-cache")


def test_no_other_origin_may_read_answers(client: httpx.Client) -> None:
    answer = client.get("/api/about", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_without_the_token_nothing_but_health_is_answered(closed: httpx.Client) -> None:
    for path in ("/", "/static/app.js", "/api/about", "/openapi.json", "/metrics", "/api/images/YQ", "/?token=wrong"):
        answer = closed.get(path)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer", path
    assert closed.get("/api/health").status_code == 200
    for words in ("Bearer wrong-token-entirely", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x"):
        assert closed.get("/api/about", headers={"Authorization": words}).status_code == 401
    for cookie in ("eigenmap=x", f"eigenmap={TOKEN}", "eigenmap", ";;;=\x01"):
        assert closed.get("/api/about", headers={"Cookie": cookie}).status_code == 401


def test_the_token_opens_the_service(closed: httpx.Client) -> None:
    good = {"Authorization": f"Bearer {TOKEN}"}
    assert closed.get("/api/about", headers=good).status_code == 200
    assert closed.get("/api/about", headers=good | {"Host": "anything.example"}).status_code == 200


def test_a_browser_gets_a_cookie_that_is_not_the_token(closed: httpx.Client) -> None:
    answer = closed.get("/", params={"token": TOKEN})
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    word = cookie.split(";")[0]
    closed.cookies.clear()
    assert closed.get("/", headers={"Cookie": word}).status_code == 200
    assert closed.get("/api/about", headers={"Cookie": word}).status_code == 200


def test_a_long_body_is_given_up(client: httpx.Client) -> None:
    answer = client.post("/api/search", content=b"[" * (2**20 + 1), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413 and "1,048,576 bytes at most" in answer.json()["detail"]

    def long() -> Iterator[bytes]:
        for _ in range(500):
            yield b" " * 65_536

    try:  # the server answers before it has read everything, and closes the connection
        assert client.post("/api/search", content=long()).status_code == 413
    except httpx.TransportError:
        assert client.get("/api/health").status_code == 200


@pytest.mark.parametrize("path", ["/api/search", "/api/search/image"])
def test_a_body_that_does_not_arrive_is_given_up(explorer: Explorer, path: str) -> None:
    with serving(create_app(explorer, Limits(upload_seconds=0.2))) as client:
        place = (client.base_url.host, client.base_url.port or 80)
        with socket.create_connection(place, timeout=20) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{{".encode())
            answer = b""
            while chunk := connection.recv(65_536):  # until the server closes the connection
                answer += chunk
    assert answer.startswith(b"HTTP/1.1 408 ") and b"to arrive" in answer


def test_more_requests_than_fit_are_told_to_come_back() -> None:
    async def main() -> None:
        go, answers = asyncio.Event(), []

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        counted: list[tuple[str, int]] = []
        guard = Guard(slow, Limits(requests=2), None, lambda route, status, seconds: counted.append((route, status)))

        async def ask() -> None:
            async def receive() -> Message:
                await asyncio.sleep(3600)  # nothing more to come
                raise AssertionError

            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    answers.append(message)

            scope: dict[str, Any] = {
                "type": "http", "path": "/", "query_string": b"", "headers": [(b"host", b"localhost")], "method": "GET",
            }  # fmt: skip
            await guard(scope, receive, send)

        waiting = [asyncio.create_task(ask()) for _ in range(2)]
        await asyncio.sleep(0)
        await ask()
        assert [answer["status"] for answer in answers] == [503]
        assert (b"retry-after", b"1") in answers[0]["headers"]
        go.set()
        await asyncio.gather(*waiting)
        await ask()
        assert [answer["status"] for answer in answers] == [503, 200, 200, 200]
        assert counted == [("none", 503), *[("none", 200)] * 3]

    asyncio.run(main())
