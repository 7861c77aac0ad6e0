"""HTTP server: one process, one event loop, listening before its address is announced."""

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
from urllib.parse import urlencode

from eigenmap.core.errors import EigenmapError
from eigenmap.service.security import is_loopback

if TYPE_CHECKING:
    from fastapi import FastAPI

SHORTEST_TOKEN = 16

_GRACE_SECONDS = 5
_LAST_WORDS_SECONDS = 1.0
_LAST_SECONDS = 9.0


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to be reachable from other machines without a token; refuse a token that can be guessed."""
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise EigenmapError(f"a token needs at least {SHORTEST_TOKEN} characters, all printable ASCII")
    if token is None and not is_loopback(host):
        raise EigenmapError(
            f"{host} can be reached from other machines, which requires token=; "
            "without host= the page is served to this machine only"
        )


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 chooses a free port."""
    if not 0 <= port <= 65_535:
        raise EigenmapError(f"port must be a whole number from 0 to 65535, not {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    name = host.strip("[]")
    try:
        name.encode("idna")  # checked first, because `create_server` leaves its socket open if this fails
        listening = socket.create_server((name, port), family=family, backlog=2048)
        # Accepted connections inherit this. Without it, an answer of two packets waits 40 ms for an acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (socket.gaierror, UnicodeError) as error:
        raise EigenmapError(f"{host} is not an address of this machine; use host=0.0.0.0 for all of them") from error
    except OSError as error:
        # Python appends the address, which the message already contains.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        argument = "host=" if error.errno == errno.EADDRNOTAVAIL else "port="
        raise EigenmapError(f"cannot listen on {host}, port {port}: {reason}; use another {argument}") from error


def url(host: str, listening: socket.socket, token: str | None) -> str:
    """Return the address to open in a browser, with any token in it."""
    name = host if is_loopback(host) else socket.gethostname()
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"http://{name}:{listening.getsockname()[1]}/" + ("" if token is None else f"?{urlencode({'token': token})}")


def serve(app: FastAPI, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until SIGINT or SIGTERM, then finish accepted requests.

    Requests that take longer than `_GRACE_SECONDS` are cancelled. After `_LAST_SECONDS` the process exits even if a
    thread is still busy, which is safe because the service only reads.
    """
    import uvicorn

    # Odd pictures make Pillow warn; anything that matters becomes an error response.
    warnings.filterwarnings("ignore", module=r"PIL\.")

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets)
            if self.server_state.tasks:  # cancelled requests still send an answer
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
