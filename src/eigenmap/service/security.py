"""Access control, request limits and security headers.

One ASGI layer wraps the entire application, including its error handlers, so that every answer has the same headers and
is counted. Without a token, the service answers only requests whose Host header names this machine, which defeats DNS
rebinding. With a token, clients send `Authorization: Bearer ...` or the cookie that `/?token=...` sets. In both cases,
requests that a browser sends on behalf of another origin are refused, as Go's `http.CrossOriginProtection` does.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigenmap.service.incoming import Incoming, too_long
from eigenmap.service.scheduling import Limits

_log = logging.getLogger("uvicorn.error")

Count = Callable[[str, int, float], None]
"""Called with route, status and seconds of every answer."""
COOKIE = "eigenmap"
OPEN_PATHS = frozenset({"/api/health"})
"""Paths answered without a token, since it is not secret that the service is running."""
UPLOADS = "/api/search/image"
CLIENT_GONE = 499
"""Status recorded when the client disconnected before the answer; proxies log the same one."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS = {"http": 80, "https": 443}

_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address is this machine itself.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def hostname(header: str) -> str:
    """Return the name in a Host header, without the port.

    >>> hostname("localhost:8000"), hostname("[::1]:8000")
    ('localhost', '[::1]')
    """
    return header[: header.index("]") + 1] if header.startswith("[") and "]" in header else header.partition(":")[0]


def is_foreign(method: str, headers: Headers) -> bool:
    """Tell whether a browser sent this request on behalf of another origin; following a link here is allowed.

    Programs other than browsers send neither header.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        followed_link = method in _SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"
        return site not in ("same-origin", "none") and not followed_link
    origin = headers.get("origin")
    return origin is not None and method not in _SAFE_METHODS and not _is_origin_of(origin, headers.get("host", ""))


def _is_origin_of(origin: str, host: str) -> bool:
    """Tell whether an Origin header names the host and port of a Host header."""
    try:
        theirs = urlsplit(origin)
        ours = urlsplit(f"{theirs.scheme}://{host}")
        port = _DEFAULT_PORTS.get(theirs.scheme)
        same_port = (theirs.port or port) == (ours.port or port)
    except ValueError:
        return False
    return theirs.hostname is not None and theirs.hostname == ours.hostname and same_port


class Guard:
    """ASGI layer in front of the application."""

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None, count: Count) -> None:
        self._app = app
        self._count = count
        self._limits = limits
        self._token = token
        # The cookie is derived from the token and does not reveal it. So is its name, since a browser keeps one cookie
        # of each name for all ports of a host, on which other services may run.
        self._cookie = None if token is None else _digest(token, b"cookie")
        self._cookie_name = COOKIE if token is None else f"{COOKIE}-{_digest(token, b'name')[:8]}"
        self.active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or pass on with headers added and the body limited."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        most_bytes = self._limits.upload_bytes if scope["path"] == UPLOADS else self._limits.body_bytes
        incoming = Incoming(receive, headers, most_bytes, self._limits.upload_seconds)
        answer = _Answer(scope, incoming, send, self._count, self._limits.upload_bytes)
        if self.active >= self._limits.requests:
            await _refuse(answer.send, 503, "the server is busy; try again soon", {"Retry-After": "1"})
        elif self._token is None and not is_loopback(hostname(headers.get("host", ""))):
            reason = "this service answers only requests to localhost; use `eigenmap serve --host` to change that"
            await _refuse(answer.send, 421, reason)
        elif is_foreign(scope["method"], headers):
            await _refuse(answer.send, 403, "this service answers only its own page, not pages of other sites")
        elif (cookie := self._asked_for_cookie(scope)) is not None:
            await _answer(answer.send, 303, b"", {"Location": "/", "Set-Cookie": cookie})
        elif not self._may(scope, headers):
            reason = "a token is required: open /?token=... once"
            await _refuse(answer.send, 401, reason, {"WWW-Authenticate": "Bearer"})
        elif incoming.too_long:
            await _refuse(answer.send, 413, too_long(most_bytes))
        else:
            self.active += 1
            try:
                await self._pass_on(scope, incoming, answer)
            except asyncio.CancelledError:  # the server is stopping and did not wait for this request
                if not answer.started:
                    await _refuse(answer.send, 503, "the server is stopping", {"Retry-After": "5"})
            finally:
                self.active -= 1

    async def _pass_on(self, scope: Scope, incoming: Incoming, answer: _Answer) -> None:
        """Let the application answer while the client is connected."""
        failure: Exception | None = None
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                await incoming.gone()
                group.cancel_scope.cancel()

            group.start_soon(watch)
            try:
                await self._app(scope, incoming.receive, answer.send)
            except Exception as error:
                failure = error
            group.cancel_scope.cancel()
        if not answer.started and incoming.left:
            answer.count(CLIENT_GONE)
        elif failure is not None and answer.started:
            raise failure  # closes the connection: a partial answer must not look complete
        elif isinstance(failure, RecursionError):
            await _refuse(answer.send, 400, "the request is too deeply nested")
        elif failure is not None:
            _log.error("Error while answering %s", scope["path"], exc_info=failure)
            await _refuse(answer.send, 500, "internal error; see the server log")

    def _asked_for_cookie(self, scope: Scope) -> str | None:
        """Return the cookie for a browser that opened `/?token=...` with the right token."""
        if self._token is None or scope["path"] != "/" or not scope["query_string"]:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not _same(given, self._token):
            return None
        return f"{self._cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"

    def _may(self, scope: Scope, headers: Headers) -> bool:
        if self._token is None or scope["path"] in OPEN_PATHS:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(given, self._token):
            return True
        # Parsed as browsers write them: `http.cookies` stops at the first cookie that another program wrote carelessly.
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie_name)
        return cookie is not None and self._cookie is not None and _same(cookie, self._cookie)


class _Answer:
    """One outgoing answer: adds the common headers and counts the answer when it begins."""

    def __init__(self, scope: Scope, incoming: Incoming, send: Send, count: Count, most_dropped: int) -> None:
        self._began = time.perf_counter()
        self._scope = scope
        self._incoming = incoming
        self._send = send
        self._count = count
        self._most_dropped = most_dropped
        self.started = False
        self._lingers = True

    def count(self, status: int) -> None:
        """Record the request under its route."""
        route = getattr(self._scope.get("route"), "path", "none")
        self._count(route, status, time.perf_counter() - self._began)

    async def send(self, message: Message) -> None:
        """Send a message from the application."""
        if message["type"] == "http.response.start":
            self._begin(message)
        elif self._lingers and not self._incoming.read and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._incoming.drop_rest(self._most_dropped)
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _begin(self, message: Message) -> None:
        self.started = True
        headers = MutableHeaders(scope=message)
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        headers.setdefault("Cache-Control", "no-store")
        if not self._incoming.read:
            headers["Connection"] = "close"  # the rest of the body is not read
            self._lingers = message["status"] != 408
        self.count(message["status"])


def _digest(token: str, purpose: bytes) -> str:
    return hmac.new(token.encode(), purpose, hashlib.sha256).hexdigest()


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))


async def _refuse(send: Send, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
    body = json.dumps({"detail": reason}).encode("ascii")
    await _answer(send, status, body, {"Content-Type": "application/json", **(headers or {})})


async def _answer(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    lines: list[Any] = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    lines.append((b"content-length", str(len(body)).encode("ascii")))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
