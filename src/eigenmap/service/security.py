"""Who may ask, how much they may send, and what a browser is told about every answer.

One ASGI layer in front of everything. Without a token the service answers only requests that name this machine as
their host: a page elsewhere whose name was pointed at 127.0.0.1 (DNS rebinding) is refused. With a token it is wanted
as `Authorization: Bearer ...`, or as the cookie that the address `/?token=...` sets.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigenmap.service.work import Limits

Count = Callable[[str, int, float], None]
"""Told route, status and seconds of every answer."""
COOKIE = "eigenmap"
OPEN_PATHS = frozenset({"/api/health"})
"""Answered without a token: whether the service lives is no secret."""
UPLOADS = "/api/search/image"

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
    """Whether a host name or address is this machine itself.

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
    """The name in a Host header, without the port.

    >>> hostname("localhost:8000"), hostname("[::1]:8000")
    ('localhost', '[::1]')
    """
    return header[: header.index("]") + 1] if header.startswith("[") and "]" in header else header.partition(":")[0]


class Guard:
    """The layer in front of the application."""

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None, count: Count) -> None:
        self._app = app
        self._count = count
        self._limits = limits
        self._token = token
        # What the cookie holds is not the token itself: a cookie that leaks opens this service until it restarts.
        self._cookie = None if token is None else hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()
        self.active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or pass on with headers added and the body bounded."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = self._observed(scope, send)
        headers = Headers(scope=scope)
        if self.active >= self._limits.requests:
            await _refuse(send, 503, "the server is busy; try again soon", {"Retry-After": "1"})
        elif self._token is None and not is_loopback(hostname(headers.get("host", ""))):
            await _refuse(send, 421, "this service answers to localhost only; `eigenmap serve --host` changes that")
        elif (cookie := self._asked_for_cookie(scope)) is not None:
            await _answer(send, 303, b"", {"Location": "/", "Set-Cookie": cookie})
        elif not self._may(scope, headers):
            await _refuse(send, 401, "a token is needed: open /?token=... once", {"WWW-Authenticate": "Bearer"})
        else:
            self.active += 1
            try:
                await self._app(scope, self._bounded(scope, receive), send)
            finally:
                self.active -= 1

    def _observed(self, scope: Scope, send: Send) -> Send:
        """`send` that adds headers, and counts the answer when it begins."""
        began = time.perf_counter()

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
                if message["status"] in (408, 413):
                    headers["Connection"] = "close"  # nobody reads the rest of the body
                route = getattr(scope.get("route"), "path", "none")
                self._count(route, message["status"], time.perf_counter() - began)
            await send(message)

        return observed

    def _asked_for_cookie(self, scope: Scope) -> str | None:
        """The cookie for a browser that opened `/?token=...` with the right token."""
        if self._token is None or scope["path"] != "/" or not scope["query_string"]:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not _same(given, self._token):
            return None
        return f"{COOKIE}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"

    def _may(self, scope: Scope, headers: Headers) -> bool:
        if self._token is None or scope["path"] in OPEN_PATHS:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(given, self._token):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return COOKIE in cookies and self._cookie is not None and _same(cookies[COOKIE].value, self._cookie)

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """`receive` that gives up on a body that is too long or too slow; uploads have limits of their own."""
        if scope["path"] == UPLOADS:
            return receive
        seen, last = 0, time.monotonic() + self._limits.upload_seconds

        async def bounded() -> Message:
            nonlocal seen
            try:
                message = await asyncio.wait_for(receive(), last - time.monotonic())
            except asyncio.TimeoutError:
                raise HTTPException(408, "the body of the request took too long to arrive") from None
            seen += len(message.get("body", b""))
            if seen > self._limits.body_bytes:
                raise HTTPException(413, f"the body of a request may have {self._limits.body_bytes:,} bytes at most")
            return message

        return bounded


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
