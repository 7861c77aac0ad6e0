"""Listening: one process, one event loop, a socket that is there before anything is announced."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError
from eigenmap.service.security import is_loopback

if TYPE_CHECKING:
    from fastapi import FastAPI

SHORTEST_TOKEN = 16

_GRACE_SECONDS = 5
_LAST_WORDS_SECONDS = 1.0
_LAST_SECONDS = 9.0


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to be reachable from elsewhere without a token, or with one that can be guessed."""
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise EigenmapError(f"a token has {SHORTEST_TOKEN} characters or more, all of them printable ASCII")
    if token is None and not is_loopback(host):
        raise EigenmapError(
            f"{host} can be reached from other machines, so that --token is needed; "
            "without --host the page is served to this machine only"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 takes a free one."""
    if not 0 <= port <= 65_535:
        raise EigenmapError(f"a port is a whole number from 0 to 65535, not {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
        # Connections inherit it. Without it an answer of two packets waits 40 ms for the client's acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except socket.gaierror as error:
        raise EigenmapError(f"{host} is no address of this machine; --host 0.0.0.0 takes all it has") from error
    except OSError as error:
        # Python appends the address, which is named already.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        option = "--host" if error.errno == errno.EADDRNOTAVAIL else "--port"
        raise EigenmapError(f"cannot listen on {host}, port {port}: {reason}; {option} names another") from error


def url(host: str, listening: socket.socket, token: str | None) -> str:
    """What to open in a browser."""
    name = host if is_loopback(host) else socket.gethostname()
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"http://{name}:{listening.getsockname()[1]}/" + ("" if token is None else f"?token={token}")


def serve(app: FastAPI, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until SIGINT or SIGTERM; then take no more requests and finish those that were accepted.

    What takes longer than `_GRACE_SECONDS` to finish is given up, and after `_LAST_SECONDS` the process ends whatever
    a thread of it may be doing: all that this service does is reading.
    """
    import uvicorn

    # Odd pictures make Pillow warn; whatever matters becomes an answer.
    warnings.filterwarnings("ignore", module=r"PIL\.")

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets)
            if self.server_state.tasks:  # given up: they still say so
                await asyncio.wait(list(self.server_state.tasks), timeout=_LAST_WORDS_SECONDS)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            super().handle_exit(sig, frame)
            last = threading.Timer(_LAST_SECONDS, os._exit, [128 + sig])
            last.daemon = True
            last.start()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=15,
    )
    Server(config).run(sockets=[listening])
