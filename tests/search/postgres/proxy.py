"""A proxy between clients and a PostgreSQL server, which cuts a connection at a chosen message."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Literal
from urllib.parse import parse_qs, urlsplit

Cut = Literal["before", "sent", "answered", "silent", "terminated"]
"""Cut before the message is passed on, right after, or when the server has answered it; cut only the client off, so
that the server believes it to be there; or let the server end the session before it gets the message."""

_QUERY, _COPIED = b"QS", b"cd"
"""Messages that are counted: queries such as COMMIT and the end of each statement, and what COPY sends."""


class Proxy:
    """Passes everything on until a cut is planned, and again after it."""

    def __init__(self, server: str, terminate: Callable[[], object]) -> None:
        self.server, self.terminate = server, terminate
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.links: list[_Link] = []
        self.plan("before", number=-1)

    def plan(self, cut: Cut, *, number: int | None = None, blackout: bool = False) -> None:
        """Cut at the message of this number from now on, or at the next COMMIT; then answer nobody, if `blackout`."""
        self.cut: Cut = cut
        self.number, self.blackout, self.refusing = number, blackout, False
        self.seen, self.done = 0, False

    def is_due(self, kind: bytes, message: bytes) -> bool:
        """Whether the cut is now."""
        if self.done or kind not in _QUERY + _COPIED or (self.cut == "answered" and kind in _COPIED):
            return False
        self.seen += 1
        self.done = message[5:].startswith(b"COMMIT") if self.number is None else self.seen == self.number
        self.refusing = self.done and self.blackout
        return self.done

    def serve(self) -> None:
        """Accept clients until the proxy is closed."""
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                if self.refusing:
                    client.close()
                else:
                    self.links.append(_Link(self, client))


class _Link:
    """One connection: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.proxy, self.client = proxy, client
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(proxy.server)
        self.muted, self.answered = False, threading.Event()
        self.threads = [threading.Thread(target=self._up), threading.Thread(target=self._down)]
        for thread in self.threads:
            thread.start()

    def _up(self) -> None:
        with suppress(OSError, struct.error), self.client.makefile("rb") as stream:
            self.server.sendall(_message(stream))  # the first has no kind
            while kind := stream.read(1):
                message = kind + _message(stream)
                if self.proxy.is_due(kind, message) and self._cut(message):
                    return
                self.server.sendall(message)
        self.close()

    def _cut(self, message: bytes) -> bool:
        """Do what is planned, and say whether the message is dealt with."""
        if self.proxy.cut == "terminated":
            self.proxy.terminate()
            return False
        if self.proxy.cut == "silent":
            _end(self.client)
            return True
        if self.proxy.cut != "before":
            self.muted = True
            self.server.sendall(message)
            if self.proxy.cut == "answered":
                assert self.answered.wait(60)
        self.close()
        return True

    def _down(self) -> None:
        with suppress(OSError):
            while data := self.server.recv(65536):
                if self.muted:
                    self.answered.set()
                else:
                    self.client.sendall(data)
        self.close()

    def close(self) -> None:
        """End both sides."""
        _end(self.client)
        _end(self.server)


def _message(stream: IO[bytes]) -> bytes:
    length = stream.read(4)
    return length + stream.read(struct.unpack("!i", length)[0] - 4)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str, terminate: Callable[[], object]) -> Iterator[tuple[str, Proxy]]:
    """The address of a database through a proxy, and the proxy."""
    parts = urlsplit(url)
    proxy = Proxy(f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432", terminate)
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    host = f"127.0.0.1:{proxy.listening.getsockname()[1]}"
    try:
        yield f"postgresql://postgres@{host}{parts.path}?sslmode=disable&gssencmode=disable", proxy
    finally:
        _end(proxy.listening)
        proxy.listening.close()
        thread.join()
        for link in proxy.links:
            link.close()
            for each in link.threads:
                each.join()
            link.client.close()
            link.server.close()
