"""What arrives with a request: its body, bounded in bytes and time, and the news that the client has gone."""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

LINGER_SECONDS = 1.0
"""How long the rest of a body is read and dropped after an early answer, so that the client sees the answer."""


class Incoming:
    """The messages of one request, shared between the application, which reads the body, and a watcher.

    `most_bytes` and `seconds` bound what the application reads.
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
        """Length of the body in bytes; None if the request does not announce it."""
        if self.length == 0:
            self._read.set()

    @property
    def read(self) -> bool:
        """Whether the whole body has arrived."""
        return self._read.is_set()

    @property
    def left(self) -> bool:
        """Whether the client has gone."""
        return self._gone.is_set()

    @property
    def too_long(self) -> bool:
        """Whether the body says of itself that it is longer than allowed."""
        return self.length is not None and self.length > self._most_bytes

    async def receive(self) -> Message:
        """The next message, for the application; `HTTPException` for a body that is too long or too slow."""
        if self.read and self._given:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        self._given = True
        if self.read:
            return {"type": "http.request", "body": b"", "more_body": False}
        try:
            message = await asyncio.wait_for(self._next(), self._last - time.monotonic())
        except asyncio.TimeoutError:
            raise HTTPException(408, "the body of the request took too long to arrive") from None
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
        """Return when the client has gone, or has its answer; nobody looks while the body is being read."""
        await self._read.wait()
        while not self._gone.is_set():
            await self._next()

    async def drop_rest(self, most_bytes: int) -> None:
        """Read what is left of the body and forget it, up to so many bytes and for a moment.

        A connection that is closed while the client still sends is reset, and the answer is lost with it.
        """
        last, most = time.monotonic() + LINGER_SECONDS, self._seen + most_bytes
        try:
            while not self.read and self._seen < most:
                await asyncio.wait_for(self._next(), last - time.monotonic())
        except asyncio.TimeoutError:
            pass


def too_long(most_bytes: int) -> str:
    """The sentence for a body that is longer than so many bytes."""
    return f"the body of this request may have {most_bytes:,} bytes at most"


def _declared_length(headers: Headers) -> int | None:
    """What the headers say: 0 where there is no body, None where its length is not known beforehand."""
    if "transfer-encoding" in headers:
        return None
    given = headers.get("content-length", "0")
    return int(given) if given.isascii() and given.isdigit() else None
