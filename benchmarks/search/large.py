"""Ten million items on disk: time to open, and bytes read and memory used by a search, cold and warm."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.common.codes import CHUNK, Floats, Mixture
from benchmarks.common.timing import status_bytes
from eigenmap.search import CodeIndex

DIMS = (8, 16, 32, 64, 128, 256)
FUNNEL = [(16, 2000), (64, 200), (256, 10)]


def fill(path: Path, mixture: Mixture, items: int, seconds: float) -> bool:
    """Add chunks until the index is full or time is up; return True if it is full. Each added chunk is durable."""
    began = time.monotonic()
    index = CodeIndex.open(path) if path.exists() else _new(path, mixture.means.shape[1])
    while len(index) < items:
        if time.monotonic() - began > seconds:
            print(f"{len(index):,} of {items:,}")
            return False
        first = len(index)
        index.upsert(mixture.chunk(first // CHUNK), range(first, first + CHUNK))
    return True


def _new(path: Path, n_components: int) -> CodeIndex:
    path.parent.mkdir(parents=True, exist_ok=True)
    return CodeIndex(n_components, where=path, precision="float16")


class Peak:
    """Peak of memory that is not mapped from files, while the block runs."""

    def __enter__(self) -> Peak:
        self.bytes, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.01):
            self.bytes = max(self.bytes, status_bytes("RssAnon"))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def drop_from_cache(path: Path) -> None:
    """Drop the files from the system's cache, so that the next read comes from the disk."""
    for file in path.glob("*.bin"):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_large(path: Path, queries: Floats, memory_bytes: int) -> dict[str, Any]:
    """Open, search at each length with a cold and then a warm cache, and finally add an item."""
    drop_from_cache(path)
    began = time.perf_counter()
    index = CodeIndex.open(path, memory_bytes=memory_bytes)
    opened = time.perf_counter() - began
    searches = {}
    settings: dict[str, dict[str, Any]] = {f"{dim} features": {"dim": dim} for dim in DIMS}
    settings["funnel"] = {"funnel": FUNNEL}
    for name, options in settings.items():
        index = CodeIndex.open(path, memory_bytes=memory_bytes)
        drop_from_cache(path)
        before, held, read = time.perf_counter(), status_bytes("RssAnon"), _bytes_read()
        with Peak() as peak:
            index.search(queries, **options)
        cold = time.perf_counter() - before
        read = _bytes_read() - read
        before = time.perf_counter()
        index.search(queries, **options)
        searches[name] = {
            "cold_seconds": cold,
            "warm_seconds": time.perf_counter() - before,
            "cold_bytes_read": read,
            "peak_extra_bytes": max(0, peak.bytes - held),
        }
        print(name, searches[name], flush=True)
    items = len(index)
    index, held = CodeIndex.open(path, memory_bytes=memory_bytes), status_bytes("RssAnon")
    before = time.perf_counter()
    with Peak() as peak:
        index.add(queries[:1], [items])  # the first change by a process, which looks up its id among all
    added = {"seconds": time.perf_counter() - before, "peak_extra_bytes": max(0, peak.bytes - held)}
    size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    return {
        "items": items,
        "open_seconds": opened,
        "disk_bytes": size,
        "memory_bytes": memory_bytes,
        "searches": searches,
        "first_addition": added,
    }
