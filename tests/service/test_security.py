from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer
from eigenmap.service.scheduling import Limits
from eigenmap.service.security import Guard, hostname, is_loopback
from tests.service.pictures import encoded
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
        assert answer.status_code == 421 and "localhost" in answer.json()["detail"]
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
    name = closed.get("/", params={"token": TOKEN}).headers["set-cookie"].partition("=")[0]
    closed.cookies.clear()
    for cookie in (f"{name}=x", f"{name}={TOKEN}", name, ";;;=\x01"):
        assert closed.get("/api/about", headers={"Cookie": cookie}).status_code == 401


def test_the_token_opens_the_service(closed: httpx.Client) -> None:
    good = {"Authorization": f"Bearer {TOKEN}"}
    assert closed.get("/api/about", headers=good).status_code == 200
    assert closed.get("/api/about", headers=good | {"Host": "anything.example"}).status_code == 200


@pytest.mark.parametrize("other", ['prefs={"theme":"dark"}', "a b=c", 'note="open', "x[y]=1", "plain"])
def test_cookies_of_other_programs_on_this_host_do_not_hide_ours(closed: httpx.Client, other: str) -> None:
    """A browser sends the cookies of every port of a host, whatever is in them."""
    ours = closed.get("/", params={"token": TOKEN}).headers["set-cookie"].split(";")[0]
    closed.cookies.clear()
    for cookies in (f"{other}; {ours}", f"{ours}; {other}"):
        assert closed.get("/api/about", headers={"Cookie": cookies}).status_code == 200


def test_two_services_on_one_host_do_not_take_each_others_cookies(closed: httpx.Client, explorer: Explorer) -> None:
    """A browser keeps one cookie of each name for all ports of a host."""
    with serving(create_app(explorer, token="another-horse-battery")) as other:
        jar: dict[str, str] = {}
        for client, token in ((closed, TOKEN), (other, "another-horse-battery")):
            name, _, value = client.get("/", params={"token": token}).headers["set-cookie"].split(";")[0].partition("=")
            jar[name] = value
            client.cookies.clear()
        cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
        for client in (closed, other):
            assert client.get("/api/about", headers={"Cookie": cookies}).status_code == 200


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
    assert answer.status_code == 413 and "1,048,576 bytes" in answer.json()["detail"]

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


def exchange(client: httpx.Client, request: str) -> bytes:
    """What the server says to these bytes until it closes the connection."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=120) as connection:
        connection.sendall(request.encode())
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer


@pytest.mark.parametrize(
    "line", ["POST /api/search/image", "POST /api/search", "GET /api/about", "POST /nothing", "PUT /", "GET /metrics"]
)
def test_a_body_that_says_it_is_too_long_is_refused_before_it_arrives(client: httpx.Client, line: str) -> None:
    """No byte of it is ever sent: whoever waits for one waits for ever."""
    answer = exchange(client, f"{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ") and b"connection: close" in answer.lower()
    assert b"at most" in answer and b"content-security-policy" in answer.lower()


@pytest.mark.parametrize("line", ["GET /api/about", "GET /", "POST /api/nothing", "DELETE /api/search"])
def test_a_body_that_nobody_reads_is_not_waited_for(client: httpx.Client, line: str) -> None:
    chunked = exchange(
        client, f"{line} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    )
    assert chunked.split(b" ")[1] in (b"200", b"404", b"405") and b"connection: close" in chunked.lower()


def test_a_refusal_reaches_a_client_that_is_still_sending(client: httpx.Client) -> None:
    for _ in range(30):  # a connection that is reset takes the answer with it, now and then
        answer = client.post("/api/search", content=bytes(3 * 2**20))
        assert answer.status_code == 413 and answer.headers["connection"] == "close"


OWN = {"Sec-Fetch-Site": "same-origin"}
ELSEWHERE: list[dict[str, str]] = [
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},  # a form
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Origin": "http://127.0.0.1.evil.example"},
    {"Origin": "http://["},
    {"Origin": "http://localhost:x"},
]


@pytest.mark.parametrize("headers", ELSEWHERE)
@pytest.mark.parametrize("token", [None, TOKEN])
def test_what_a_page_of_another_site_sends_is_refused(
    client: httpx.Client, closed: httpx.Client, headers: dict[str, str], token: str | None
) -> None:
    asked = client if token is None else closed
    with_token = {} if token is None else {"Authorization": f"Bearer {token}"}
    answers = [
        asked.post("/api/search/image", content=encoded("PNG"), headers=headers | with_token),
        asked.post("/api/search", json={"id": "disc/1.png"}, headers=headers | with_token),
    ]
    for answer in answers:
        assert answer.status_code == 403 and "other sites" in answer.json()["detail"]
        assert answer.headers["x-frame-options"] == "DENY"


def test_what_the_own_page_or_no_browser_sends_is_answered(client: httpx.Client, closed: httpx.Client) -> None:
    for asked, known in ((client, {}), (closed, {"Authorization": f"Bearer {TOKEN}"})):
        origin = str(asked.base_url).rstrip("/")
        for headers in ({}, OWN, {"Sec-Fetch-Site": "none"}, {"Origin": origin}, OWN | {"Origin": origin}):
            answer = asked.post("/api/search", json={"id": "disc/1.png"}, headers=headers | known)
            assert answer.status_code == 200, headers
    proxied = {"Host": "photos.example", "Origin": "https://photos.example", "Authorization": f"Bearer {TOKEN}"}
    assert closed.post("/api/search", json={"id": "disc/1.png"}, headers=proxied).status_code == 200


def test_a_link_from_another_site_is_followed_and_nothing_else_is_fetched(client: httpx.Client) -> None:
    there = {"Sec-Fetch-Site": "cross-site"}
    assert client.get("/", headers=there | {"Sec-Fetch-Mode": "navigate"}).status_code == 200
    for path in ("/api/search?id=disc/1.png", "/api/images/ZGlzYy8xLnBuZw", "/static/app.js"):
        assert client.get(path, headers=there | {"Sec-Fetch-Mode": "no-cors"}).status_code == 403


@pytest.mark.parametrize(("error", "status"), [(RuntimeError("secret"), 500), (RecursionError(), 400)])
def test_an_error_of_ours_has_the_usual_headers_and_is_counted(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(explorer, "answer", broken)
    with serving(create_app(explorer)) as client:
        answer = client.get("/api/search", params={"id": "disc/1.png"})
        assert answer.status_code == status and "secret" not in answer.text
        assert "content-security-policy" in answer.headers and answer.headers["cache-control"] == "no-store"
        assert f'eigenmap_requests_total{{route="/api/search",status="{status}"}} 1' in client.get("/metrics").text


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
