"""Incoming requests: bodies limited in size and time, and detection of disconnected clients."""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

LINGER_SECONDS = 1.0
"""Seconds spent discarding the rest of a body after an early answer, so that the client sees the answer."""


class Incoming:
    """Messages of one request, shared by the application, which reads the body, and a watcher.

    `most_bytes` and `seconds` limit what the application reads.
    """

    def __init__(self, receive: Receive, headers: Headers, most_bytes: int, seconds: float) -> None:
        self._receive = receive
        self._most_bytes = most_bytes
        self._last = time.monotonic() + seconds
        self._seen = 0
        self._given = False
        self._read = asyncio.Event()
        self._gone = asyncio.Event()
        self.length = _declared_length(headers)
        """Length of the body in bytes, or None if the request does not announce it."""
        if self.length == 0:
            self._read.set()

    @property
    def read(self) -> bool:
        """True once the entire body has arrived."""
        return self._read.is_set()

    @property
    def left(self) -> bool:
        """True once the client has disconnected."""
        return self._gone.is_set()

    @property
    def too_long(self) -> bool:
        """True if the announced length exceeds the limit."""
        return self.length is not None and self.length > self._most_bytes

    async def receive(self) -> Message:
        """Return the next message for the application; raise `HTTPException` if the body is too long or too slow."""
        if self.read and self._given:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        self._given = True
        if self.read:
            return {"type": "http.request", "body": b"", "more_body": False}
        try:
            message = await asyncio.wait_for(self._next(), self._last - time.monotonic())
        except asyncio.TimeoutError:
            raise HTTPException(408, "the request body took too long to arrive") from None
        if self._seen > self._most_bytes:
            raise HTTPException(413, too_long(self._most_bytes))
        return message

    async def _next(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if message["type"] == "http.disconnect":
            self._gone.set()
        if not message.get("more_body", False):
            self._read.set()
        return message

    async def gone(self) -> None:
        """Return when the client has disconnected or been answered; waits until the body has been read."""
        await self._read.wait()
        while not self._gone.is_set():
            await self._next()

    async def drop_rest(self, most_bytes: int) -> None:
        """Read and discard the rest of the body, up to `most_bytes` and for a short time.

        Closing a connection while the client is still sending resets it, and the answer is lost.
        """
        last, most = time.monotonic() + LINGER_SECONDS, self._seen + most_bytes
        try:
            while not self.read and self._seen < most:
                await asyncio.wait_for(self._next(), last - time.monotonic())
        except asyncio.TimeoutError:
            pass


def too_long(most_bytes: int) -> str:
    """Return the error message for a body longer than `most_bytes`."""
    return f"the body of this request may have at most {most_bytes:,} bytes"


def _declared_length(headers: Headers) -> int | None:
    """Return the body length from the headers: 0 without a body, None if the length is unknown."""
    if "transfer-encoding" in headers:
        return None
    given = headers.get("content-length", "0")
    return int(given) if given.isascii() and given.isdigit() else None
