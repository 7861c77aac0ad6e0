"""Load on `eigenmap serve`: latency and requests per second at 1, 16 and 128 clients, and at twice its capacity.

    python -m benchmarks.service.load        # about four minutes

The server is a separate process, and the clients are coroutines of this one, on the same machine. Every request is a
search by the id of a random item for 24 results, as the page sends it. Codes are random with a decaying spectrum, since
the time of an exact search does not depend on the stored values.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import harness
from benchmarks.common.timing import status_bytes
from benchmarks.service import RESULTS

ITEMS, FEATURES, TOP = 100_000, 256, 24
CLIENTS = (1, 16, 128)
LENGTHS = (8, 32, 128, 256)
ANNOUNCED = {200, 429, 503}


@dataclass
class Tally:
    """Answers to a load: their times in milliseconds, by status."""

    times: dict[int, list[float]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, status: int, milliseconds: float) -> None:
        self.times.setdefault(status, []).append(milliseconds)

    def summary(self) -> dict[str, Any]:
        good = np.array(self.times.get(200, [0.0]))
        return {
            "requests_per_second": len(self.times.get(200, [])) / self.seconds,
            "p50_ms": float(np.percentile(good, 50)),
            "p99_ms": float(np.percentile(good, 99)),
            "statuses": {str(status): len(times) for status, times in sorted(self.times.items())},
        }


class Connection:
    """One keep-alive connection, with just enough HTTP to send a request and read an answer."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> int:
        """Return the status of the answer; 0 if a new connection got none either.

        A server may close an idle connection, so a failed request is repeated on a new one.
        """
        fresh = self.streams is None
        status = await self._attempt(path)
        return await self._attempt(path) if status == 0 and not fresh else status

    async def _attempt(self, path: str) -> int:
        try:
            if self.streams is None:
                self.streams = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self.streams
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            return int(head[9:12])
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


Asking = Callable[[random.Random], str]
"""Function that returns the path of the next request."""


def mixed(items: int) -> Asking:
    """Return searches like those of a slider: each at a random length, log-uniform from 1 to all."""
    return lambda rng: _search(rng, items, round(FEATURES ** rng.random()))


def at(dim: int, items: int) -> Asking:
    return lambda rng: _search(rng, items, dim)


def _search(rng: random.Random, items: int, dim: int) -> str:
    return f"/api/search?id=item-{rng.randrange(items)}&dim={dim}&top={TOP}"


async def closed_loop(port: int, clients: int, seconds: float, path: Asking) -> Tally:
    """Run several clients, each of which sends its next request as soon as it has an answer."""
    tally, began = Tally(), time.perf_counter()

    async def client(number: int) -> None:
        connection, rng = Connection(port), random.Random(number)
        while time.perf_counter() - began < seconds:
            sent = time.perf_counter()
            status = await connection.get(path(rng))
            tally.add(status, 1000 * (time.perf_counter() - sent))
        connection.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    tally.seconds = time.perf_counter() - began
    return tally


async def open_loop(
    port: int, rate: float, seconds: float, path: Asking, watch: Callable[[float], None]
) -> tuple[Tally, float]:
    """Send requests at a fixed rate, answered or not; return the tally and the actual rate."""
    tally, rng, free, tasks = Tally(), random.Random(0), [Connection(port) for _ in range(900)], set()

    async def one() -> None:
        connection = free.pop()
        sent = time.perf_counter()
        status = await connection.get(path(rng))
        tally.add(status, 1000 * (time.perf_counter() - sent))
        free.append(connection)

    began, sent, watched = time.perf_counter(), 0, 0.0
    while (now := time.perf_counter() - began) < seconds:
        while sent < now * rate and free:
            task = asyncio.create_task(one())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        if now >= watched:
            watch(now)
            watched += seconds / 120
        await asyncio.sleep(0.002)
    await asyncio.gather(*tasks)
    tally.seconds = time.perf_counter() - began
    for connection in free:
        connection.close()
    return tally, sent / seconds


async def recovery(port: int, path: Asking, bound_ms: float) -> tuple[float, list[float]]:
    """Return the seconds until five consecutive answers are 200 within the bound, and the times of all answers."""
    connection, rng, times, good = Connection(port), random.Random(1), [], 0
    began = time.perf_counter()
    while good < 5 and time.perf_counter() - began < 30:
        sent = time.perf_counter()
        status = await connection.get(path(rng))
        times.append(1000 * (time.perf_counter() - sent))
        good = good + 1 if status == 200 and times[-1] <= bound_ms else 0
    connection.close()
    return time.perf_counter() - began, times


def make_index(path: Path, items: int) -> None:
    from eigenmap.search import CodeIndex

    rng = np.random.default_rng(0)
    codes = rng.normal(size=(items, FEATURES)).astype(np.float32) * np.linspace(1, 0.05, FEATURES, dtype=np.float32)
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    index = CodeIndex(FEATURES)
    index.add(codes, [f"item-{i}" for i in range(items)], [{"label": f"class {i % 10}"} for i in range(items)])
    index.save(path)


@contextmanager
def served(index: Path) -> Iterator[tuple[int, int]]:
    """Run `eigenmap serve` in a separate process; yield its port and process id."""
    code = "from eigenmap.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", str(index), "--port", "0", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1]), process.pid
    finally:
        process.terminate()
        process.communicate(timeout=60)


def resident(pid: int) -> float:
    """Return the memory of a process in thousands of KiB, including mapped files."""
    return status_bytes("VmRSS", pid) / 1024 / 1000


async def measure(port: int, pid: int, items: int, seconds: float, overload_seconds: float) -> dict[str, Any]:
    await wait_until_ready(port)
    await closed_loop(port, 4, min(seconds, 3), mixed(items))
    rows = {}
    for name, path in (("mixed lengths", mixed(items)), ("32 features", at(32, items))):
        for clients in CLIENTS:
            rows[f"{name}, {clients}"] = (await closed_loop(port, clients, seconds, path)).summary()
            print(name, clients, rows[f"{name}, {clients}"], flush=True)
    alone = {str(dim): (await closed_loop(port, 1, seconds / 2, at(dim, items))).summary() for dim in LENGTHS}
    sustainable = max(rows[f"mixed lengths, {clients}"]["requests_per_second"] for clients in CLIENTS)
    memory: list[tuple[float, float]] = []
    tally, rate = await open_loop(
        port, 2 * sustainable, overload_seconds, mixed(items), lambda now: memory.append((now, resident(pid)))
    )
    bound = max(100.0, 2 * rows["mixed lengths, 1"]["p99_ms"])
    seconds_to_recover, after = await recovery(port, mixed(items), bound)
    late = [mb for now, mb in memory if now > overload_seconds / 4] or [memory[-1][1]]
    return {
        "rows": rows,
        "alone": alone,
        "overload": {
            **tally.summary(),
            "seconds": overload_seconds,
            "sustainable_per_second": sustainable,
            "sent_per_second": rate,
            "memory_mb": {"first": memory[0][1], "lowest": min(late), "highest": max(late), "last": memory[-1][1]},
            "recovered_after_seconds": seconds_to_recover,
            "first_answers_after_ms": after[:5],
            "unannounced": sum(n for s, n in tally.summary()["statuses"].items() if int(s) not in ANNOUNCED),
        },
    }


async def wait_until_ready(port: int) -> None:
    """Wait until the server has prepared random features and quality, which it does in the background."""
    connection = Connection(port)
    while await connection.get("/api/search?id=item-0&features=random") != 200:
        await asyncio.sleep(0.5)
    connection.close()


def run(seconds: float, overload_seconds: float, items: int = ITEMS) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        make_index(Path(folder) / "big.index", items)
        with served(Path(folder) / "big.index") as (port, pid):
            found = asyncio.run(measure(port, pid, items, seconds, overload_seconds))
    protocol = {"items": items, "features": FEATURES, "top": TOP, "seconds": seconds, "cores": os.cpu_count()}
    return {"protocol": protocol, **found, **harness.environment()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="duration of each closed loop")
    parser.add_argument("--overload-seconds", type=float, default=120)
    parser.add_argument("--json", type=Path, default=RESULTS / "serve.json", help="result file")
    options = parser.parse_args()
    result = run(options.seconds, options.overload_seconds)
    harness.write(options.json, result)
    print(json.dumps(result["overload"], indent=1))


if __name__ == "__main__":
    main()
