"""The application behind a real socket, in a thread of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI

from eigenmap.service.server import listen


@contextmanager
def serving(app: FastAPI, grace: int | None = None) -> Iterator[httpx.Client]:
    """A client of the application, which runs until the block ends; `grace`: seconds for what is under way then."""
    with listen("127.0.0.1", 0) as listening:
        config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=grace)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.005)
            with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(30)
    assert not thread.is_alive()
