"""Well-behaved and misbehaving clients of the explorer's API: requests, uploads, cut-off requests, slow readers."""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

LIMIT_S = 120.0
"""Seconds after which a request counts as unanswered."""
ODD = (
    "",
    "x",
    "-1",
    "0",
    "1e9",
    "nan",
    "null",
    "true",
    "\x00",
    "é",
    "../../etc/passwd",
    "a" * 9000,
    "9" * 30,
    "[]",
    "{}",
)
SEARCHED = ("ordered", "random")


class Request(NamedTuple):
    """A request, and the operation of the schema that it belongs to."""

    method: str
    path: str
    operation: str
    body: bytes | None = None
    kind: str = "application/json"


class Asker:
    """Random requests: most are valid, others have odd values, unknown names or bodies that are not JSON."""

    def __init__(self, seed: int, ids: Sequence[str], pictures: Sequence[bytes]) -> None:
        self.chance, self.ids, self.pictures = random.Random(seed), ids, pictures

    def request(self) -> Request:
        chance = self.chance
        make = chance.choices(
            (self._search, self._posted, self._keyed, self._listed, self._plain), weights=(4, 3, 2, 3, 1)
        )[0]
        return make()

    def upload(self) -> Request:
        body = self.chance.choice(self.pictures)
        query = self._query({"top": self._number(12), "dim": self._number(8), "features": self._of(SEARCHED)})
        return Request("POST", f"/api/search/image{query}", "/api/search/image", body, "application/octet-stream")

    def _search(self) -> Request:
        names = {"id": self._id(), "dim": self._number(8), "top": self._number(50), "features": self._of(SEARCHED)}
        more = {"pictures": self._of(("true", "false")), "where": self._of(("label=disc", "n>=3", "", "=", "label>"))}
        return Request("GET", f"/api/search{self._query(names | more)}", "/api/search")

    def _posted(self) -> Request:
        chance = self.chance
        body: dict[str, Any] = {
            "id": self._id(),
            "top": chance.choice((1, 24, 200, 0, "x")),
            "dim": chance.choice((1, 8, 99)),
        }
        if chance.random() < 0.5:
            body = {"vector": [chance.gauss(0, 1) for _ in range(chance.choice((8, 6, 1, 300)))]}
        if chance.random() < 0.3:
            body["where"] = chance.choice(
                ({"label": "disc"}, {"n": {">=": 3}}, {"n": {"?": 1}}, {"a": {"b": {"c": 1}}}, 3)
            )
        content = json.dumps(body).encode()
        if chance.random() < 0.15:
            content = chance.choice((b"", b"{", b"[" * 5000, content[:-3], b"\xff\xfe", b"null"))
        return Request("POST", "/api/search", "/api/search", content)

    def _keyed(self) -> Request:
        from eigenmap.service.explorer import key_of

        what = self._of(("items", "images"))
        name = self._id()
        key = key_of(name) if self.chance.random() < 0.8 else quote(name, safe="")
        return Request("GET", f"/api/{what}/{key or 'x'}", f"/api/{what}/{{key}}")

    def _listed(self) -> Request:
        number, first = self._number(10), self._of(("most", "least"))
        feature = quote(number, safe="") or "1"
        choices = (
            Request(
                "GET", f"/api/features{self._query({'first': number, 'count': self._number(64)})}", "/api/features"
            ),
            Request(
                "GET",
                f"/api/features/{feature}/items{self._query({'first': first, 'pictures': 'true'})}",
                "/api/features/{number}/items",
            ),
            Request("GET", f"/api/map{self._query({'x': number, 'y': self._number(8)})}", "/api/map"),
            Request("GET", f"/api/items{self._query({'number': number, 'pictures': 'true'})}", "/api/items"),
        )
        return self.chance.choice(choices)

    def _plain(self) -> Request:
        path = self._of(("/api/about", "/api/lengths", "/api/quality", "/api/health", "/metrics"))
        return Request("GET", path, path)

    def _id(self) -> str:
        return self.chance.choice(self.ids) if self.chance.random() < 0.85 else self.chance.choice(ODD)

    def _number(self, most: int) -> str:
        return str(self.chance.randint(1, most)) if self.chance.random() < 0.85 else self.chance.choice(ODD)

    def _of(self, values: Sequence[str]) -> str:
        return self.chance.choice(values)

    def _query(self, values: dict[str, str]) -> str:
        kept = {name: value for name, value in values.items() if self.chance.random() < 0.6 and len(value) < 4000}
        return f"?{urlencode(kept)}" if kept else ""


class Client:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection: http.client.HTTPConnection | None = None

    def ask(self, request: Request) -> tuple[int, bytes]:
        """Return status and body; raise OSError or HTTPException if a new connection gets no answer either."""
        fresh = self.connection is None
        try:
            return self._ask(request)
        except (OSError, http.client.HTTPException):
            self.close()
            if fresh:
                raise
        return self._ask(request)  # a server may close a connection that was idle

    def _ask(self, request: Request) -> tuple[int, bytes]:
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        headers = {} if request.body is None else {"Content-Type": request.kind}
        self.connection.request(request.method, request.path, request.body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def cut_off(port: int, request: Request, chance: random.Random) -> None:
    """Send part or all of a request and disconnect without reading, sometimes with a reset."""
    data = _raw(request)
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        connection.sendall(data[: chance.randrange(1, len(data) + 1)])
        if chance.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def read_slowly(port: int, request: Request, seconds: float) -> int:
    """Read an answer a few bytes at a time; return the number of bytes received."""
    ends, count = time.monotonic() + seconds, 0
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(_raw(request))
        while time.monotonic() < ends:
            try:
                piece = connection.recv(256)
            except OSError:
                break
            if not piece:
                break
            count += len(piece)
            time.sleep(0.02)
    return count


def _raw(request: Request) -> bytes:
    body = request.body or b""
    head = f"{request.method} {request.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
