"""Concurrency limits: excess requests wait in a short queue or are told to try again later.

A search reads every code once, no matter how many queries it answers. Queries that wait together and share their
settings (length, filter, number of results) are therefore answered by one scan: the longer the queue, the more queries
each scan answers.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from eigenmap.search import cancellation

KeyT = TypeVar("KeyT", bound=Hashable)
QueryT = TypeVar("QueryT")
AnswerT = TypeVar("AnswerT")
T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Limits of the service."""

    searches_waiting: int = 256
    searches_at_once: int = 32
    """Maximum number of queries per scan."""
    uploads_waiting: int = 16
    others_waiting: int = 512
    """Maximum number of waiting requests for pictures, gallery pages and the map."""
    requests: int = 1024
    """Maximum number of requests being answered; further ones get 503."""
    upload_bytes: int = 16 * 2**20
    upload_pixels: int = 64_000_000
    upload_seconds: float = 30.0
    body_bytes: int = 2**20
    """Maximum body size in bytes of requests other than uploads."""
    search_seconds: float = 30.0
    """Maximum time from the arrival of a search to its answer; longer searches are stopped."""
    filter_conditions: int = 64
    filter_values: int = 1000
    """Maximum number of values in all conditions of a filter together."""
    filter_characters: int = 65_536
    """Maximum number of characters in all names and texts of a filter together."""


class BusyError(Exception):
    """Too many requests are waiting; `retry_after` is in seconds."""

    def __init__(self, retry_after: int = 1) -> None:
        super().__init__("the server is busy; try again soon")
        self.retry_after = retry_after


class Slots:
    """Pool of a few threads for blocking functions, with a short queue.

    slots = Slots(threads=1, waiting=16)
    await slots.run(function, argument)
    """

    def __init__(self, threads: int, waiting: int, name: str) -> None:
        self._threads: Executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + waiting
        self.taken = 0

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[None]:
        """Reserve a slot before the body is read, so that few bodies are in memory."""
        if self.taken >= self._most:
            raise BusyError
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function when its turn comes and return the result."""
        async with self.taking():
            return await self.run_taken(function, *arguments)

    async def run_taken(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function for a caller that already has a slot."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def close(self) -> None:
        """Start nothing more, without waiting for running functions."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class QueryBatcher(Generic[KeyT, QueryT, AnswerT]):
    """Answers queries on one thread, batching those with equal settings.

    `answer(ask, queries)` returns an answer, or an exception to raise, for each query. It is stopped
    (`eigenmap.search.cancellation`) when nobody waits for any of its answers.
    """

    def __init__(
        self,
        answer: Callable[[KeyT, Sequence[QueryT]], Sequence[AnswerT | Exception]],
        waiting: int,
        at_once: int,
    ) -> None:
        self._answer = answer
        self._most = waiting
        self._at_once = at_once
        self._groups: dict[KeyT, deque[tuple[QueryT, asyncio.Future[AnswerT]]]] = {}
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self._task: asyncio.Task[None] | None = None
        self._running: list[asyncio.Future[AnswerT]] = []
        self.waiting = 0
        self.scans = 0
        self.scan_seconds = 0.0

    def start(self) -> None:
        """Start answering; needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def ask(self, ask: KeyT, query: QueryT) -> AnswerT:
        """Return the answer to one query; raise `BusyError` if too many are waiting."""
        if self.waiting >= self._most:
            raise BusyError
        future: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._groups.setdefault(ask, deque()).append((query, future))
        self.waiting += 1
        self._wake.set()
        return await future

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            ask, taken = self._take()
            wanted = [(query, future) for query, future in taken if not future.cancelled()]
            if not wanted:
                continue
            began = time.perf_counter()
            self._running = [future for _, future in wanted]
            unwanted = _all_done(self._running)
            queries = [query for query, _ in wanted]
            try:
                answers = await loop.run_in_executor(self._thread, self._run, ask, queries, unwanted)
            except Exception as error:
                answers = [error] * len(wanted)
            self.scans += 1
            self.scan_seconds += time.perf_counter() - began
            for (_, future), answer in zip(wanted, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _run(self, ask: KeyT, queries: Sequence[QueryT], unwanted: threading.Event) -> Sequence[AnswerT | Exception]:
        with cancellation.cancel_when(unwanted.is_set):
            return self._answer(ask, queries)

    def _take(self) -> tuple[KeyT, list[tuple[QueryT, asyncio.Future[AnswerT]]]]:
        """Return the group that has waited longest, up to the maximum per scan."""
        ask = next(iter(self._groups))
        group = self._groups.pop(ask)
        taken = [group.popleft() for _ in range(min(len(group), self._at_once))]
        if group:
            self._groups[ask] = group  # at the end of the queue, so that no group waits forever
        self.waiting -= len(taken)
        if not self._groups:
            self._wake.clear()
        return ask, taken

    async def close(self) -> None:
        """Cancel waiting and running queries, without waiting for the running scan."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        waiting = [future for group in self._groups.values() for _, future in group]
        for future in [*waiting, *self._running]:
            future.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)


def _all_done(futures: Sequence[asyncio.Future[AnswerT]]) -> threading.Event:
    """Return an event that is set when all futures are done or cancelled."""
    done, left = threading.Event(), set(futures)

    def forget(future: asyncio.Future[AnswerT]) -> None:
        left.discard(future)
        if not left:
            done.set()

    for future in futures:
        future.add_done_callback(forget)
    return done
