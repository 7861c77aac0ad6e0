from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from eigenmap.search import cancellation
from eigenmap.service.scheduling import BusyError, QueryBatcher, Slots


class Recorder:
    """Answers a query by its double, remembers what came together, and can be held up."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.go = threading.Event()
        self.began = threading.Event()

    def __call__(self, ask: str, queries: Sequence[int]) -> list[int | Exception]:
        self.began.set()
        assert self.go.wait(10)
        self.calls.append((ask, list(queries)))
        if ask == "broken":
            raise RuntimeError("everything is broken")
        return [ValueError("odd") if query < 0 else 2 * query for query in queries]


async def started(recorder: Recorder, batches: QueryBatcher[str, int, int]) -> asyncio.Task[int]:
    """A first query that is being answered, so that all others wait."""
    batches.start()
    first = asyncio.create_task(batches.ask("first", 1))
    await asyncio.to_thread(recorder.began.wait, 10)
    return first


def test_queries_that_wait_together_and_ask_the_same_are_answered_together() -> None:
    async def main() -> None:
        recorder = Recorder()
        batches: QueryBatcher[str, int, int] = QueryBatcher(recorder, waiting=10, at_once=3)
        first = await started(recorder, batches)
        asks = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("a", 5), ("b", 6)]
        later = [asyncio.create_task(batches.ask(*each)) for each in asks]
        await asyncio.sleep(0)
        assert batches.waiting == 6
        recorder.go.set()
        assert await asyncio.gather(first, *later) == [2, 2, 4, 6, 8, 10, 12]
        assert recorder.calls == [("first", [1]), ("a", [1, 3, 4]), ("b", [2, 6]), ("a", [5])]
        assert (batches.waiting, batches.scans) == (0, 4)
        await batches.close()

    asyncio.run(main())


def test_one_query_too_many_is_told_to_come_back() -> None:
    async def main() -> None:
        recorder = Recorder()
        batches: QueryBatcher[str, int, int] = QueryBatcher(recorder, waiting=2, at_once=8)
        first = await started(recorder, batches)
        later = [asyncio.create_task(batches.ask("a", n)) for n in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError) as busy:
            await batches.ask("a", 3)
        assert busy.value.retry_after == 1
        recorder.go.set()
        assert await asyncio.gather(first, *later) == [2, 2, 4]
        assert await batches.ask("a", 3) == 6  # there is room again
        await batches.close()

    asyncio.run(main())


def test_an_error_belongs_to_its_query_or_to_the_whole_scan() -> None:
    async def main() -> None:
        recorder = Recorder()
        recorder.go.set()
        batches: QueryBatcher[str, int, int] = QueryBatcher(recorder, waiting=9, at_once=8)
        batches.start()
        good, odd, broken = await asyncio.gather(
            batches.ask("a", 1), batches.ask("a", -1), batches.ask("broken", 1), return_exceptions=True
        )
        assert good == 2 and isinstance(odd, ValueError) and isinstance(broken, RuntimeError)
        assert await batches.ask("a", 2) == 4  # life goes on
        await batches.close()

    asyncio.run(main())


def test_a_query_whose_client_has_gone_is_not_answered() -> None:
    async def main() -> None:
        recorder = Recorder()
        batches: QueryBatcher[str, int, int] = QueryBatcher(recorder, waiting=9, at_once=8)
        first = await started(recorder, batches)
        gone, stays = asyncio.create_task(batches.ask("a", 1)), asyncio.create_task(batches.ask("a", 2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        recorder.go.set()
        assert await asyncio.gather(first, stays) == [2, 4]
        assert recorder.calls[-1] == ("a", [2])
        await batches.close()

    asyncio.run(main())


class Endless:
    """Compares one item after the other and never comes to an end, unless it is stopped."""

    def __init__(self) -> None:
        self.began, self.stopped = threading.Event(), threading.Event()

    def __call__(self, ask: str, queries: Sequence[int]) -> list[int | Exception]:
        if ask == "short":
            return list(queries)
        self.began.set()
        try:
            while True:
                cancellation.raise_if_cancelled()
                time.sleep(0.001)
        except cancellation.SearchCancelledError:
            self.stopped.set()
            raise


def test_what_nobody_waits_for_any_more_is_stopped() -> None:
    async def main() -> None:
        endless = Endless()
        batches: QueryBatcher[str, int, int] = QueryBatcher(endless, waiting=9, at_once=8)
        batches.start()
        first = asyncio.create_task(batches.ask("short", 0))
        both = [asyncio.create_task(batches.ask("long", n)) for n in (1, 2)]
        assert await first == 0
        await asyncio.to_thread(endless.began.wait, 60)
        both[0].cancel()
        await asyncio.sleep(0.05)
        assert not endless.stopped.is_set()  # the other still waits
        both[1].cancel()
        assert await asyncio.to_thread(endless.stopped.wait, 60)
        assert await batches.ask("short", 3) == 3  # the thread is free again
        await batches.close()

    asyncio.run(main())


def test_closing_stops_what_runs() -> None:
    async def main() -> None:
        endless = Endless()
        batches: QueryBatcher[str, int, int] = QueryBatcher(endless, waiting=9, at_once=8)
        batches.start()
        runs = asyncio.create_task(batches.ask("long", 1))
        await asyncio.to_thread(endless.began.wait, 60)
        await batches.close()
        with pytest.raises(asyncio.CancelledError):
            await runs
        assert await asyncio.to_thread(endless.stopped.wait, 60)

    asyncio.run(main())


def test_closing_ends_what_waits() -> None:
    async def main() -> None:
        recorder = Recorder()
        batches: QueryBatcher[str, int, int] = QueryBatcher(recorder, waiting=9, at_once=8)
        await started(recorder, batches)
        waits = asyncio.create_task(batches.ask("a", 1))
        await asyncio.sleep(0)
        recorder.go.set()
        await batches.close()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(main())


def test_slots_run_what_fits_and_refuse_the_rest() -> None:
    async def main() -> None:
        slots, go = Slots(1, 1, "test"), threading.Event()
        running = [asyncio.create_task(slots.run(go.wait, 10)) for _ in range(2)]
        await asyncio.sleep(0)
        assert slots.taken == 2
        with pytest.raises(BusyError):
            await slots.run(go.wait, 10)
        go.set()
        assert await asyncio.gather(*running) == [True, True]
        assert slots.taken == 0
        assert await slots.run(sum, [1, 2]) == 3
        slots.close()

    asyncio.run(main())
