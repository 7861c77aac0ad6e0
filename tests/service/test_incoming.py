from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message

from eigenmap.service.incoming import Incoming


class Client:
    """Sends parts of a body with pauses, and then goes or stays."""

    def __init__(self, *parts: bytes, pause: float = 0, goes: bool = False) -> None:
        self.parts, self.pause, self.goes, self.asked = list(parts), pause, goes, 0

    async def receive(self) -> Message:
        self.asked += 1
        await asyncio.sleep(self.pause)
        if self.parts:
            body = self.parts.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self.parts)}
        if not self.goes:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}


def incoming(client: Client, seconds: float = 10, **headers: str) -> Incoming:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Incoming(client.receive, Headers(named), most_bytes=4, seconds=seconds)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 30))


async def body_of(arriving: Incoming) -> bytes:
    body, more = b"", True
    while more:
        message = await arriving.receive()
        body, more = body + message["body"], message["more_body"]
    return body


def test_a_body_is_read_up_to_its_limit() -> None:
    async def main() -> None:
        whole = incoming(Client(b"ab", b"cd"), content_length="4")
        assert await body_of(whole) == b"abcd" and whole.read
        long = incoming(Client(b"ab", b"cd", b"e", b"f"), transfer_encoding="chunked")
        assert long.length is None and not long.too_long
        with pytest.raises(HTTPException) as refused:
            await body_of(long)
        assert refused.value.status_code == 413 and "4 bytes" in refused.value.detail

    run(main())


def test_a_length_that_is_declared_is_known_before_anything_is_read() -> None:
    async def main() -> None:
        client = Client(b"x" * 100)
        assert incoming(client, content_length="10000000000").too_long
        assert not incoming(client, content_length="4").too_long
        assert client.asked == 0

    run(main())


def test_a_body_that_does_not_arrive_is_given_up() -> None:
    async def main() -> None:
        with pytest.raises(HTTPException, match="to arrive") as refused:
            await body_of(incoming(Client(b"a", pause=300), seconds=0.05, content_length="1"))
        assert refused.value.status_code == 408

    run(main())


def test_whoever_watches_hears_that_the_client_has_gone_and_the_application_too() -> None:
    async def main() -> None:
        for sent, headers in (([b"ab", b"cd"], {"content_length": "4"}), ([b""], {})):
            arriving = incoming(Client(*sent, goes=True), **headers)
            watching = asyncio.create_task(arriving.gone())
            assert await body_of(arriving) == b"".join(sent)  # the watcher takes nothing away
            await watching
            assert arriving.left and (await arriving.receive())["type"] == "http.disconnect"

    run(main())


def test_the_rest_of_a_body_is_dropped_for_a_while() -> None:
    async def main() -> None:
        client = Client(*[b"xx"] * 100)
        arriving = incoming(client, content_length="200")
        await arriving.drop_rest(most_bytes=20)
        assert client.asked == 10 and not arriving.read
        await arriving.drop_rest(most_bytes=1000)
        assert arriving.read
        silent = incoming(Client(b"x", pause=300), content_length="1")
        await silent.drop_rest(1000)  # ends all the same
        assert not silent.read

    run(main())
