"""Seconds and memory of a piece of work, on a CPU or a GPU."""

from __future__ import annotations

import re
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch


def wait(device: torch.device | str) -> None:
    """Wait until a GPU has finished its work; do nothing on a CPU."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


class Clock:
    """Seconds since its creation, and peak GPU memory since then; waits for the device."""

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        wait(self.device)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self.began = time.perf_counter()

    def seconds(self) -> float:
        wait(self.device)
        return time.perf_counter() - self.began

    def peak_gb(self) -> float | None:
        return torch.cuda.max_memory_allocated(self.device) / 1e9 if self.device.type == "cuda" else None


def mean_seconds(work: Callable[[int], object], device: torch.device | str, repeat: int, warmup: int = 1) -> float:
    """Return the mean seconds of `work(step)` over `repeat` steps, after some uncounted ones."""
    for step in range(warmup):
        work(step)
    wait(device)
    began = time.perf_counter()
    for step in range(warmup, warmup + repeat):
        work(step)
    wait(device)
    return (time.perf_counter() - began) / repeat


def each_seconds(work: Callable[[], object], device: torch.device | str, times: int) -> list[float]:
    """Return the seconds of each of several calls."""
    taken = []
    for _ in range(times):
        clock = Clock(device)
        work()
        taken.append(clock.seconds())
    return taken


def median_seconds(work: Callable[[], object], device: torch.device | str, times: int) -> float:
    """Return the median seconds of several calls, after an uncounted one if there are several."""
    return statistics.median(each_seconds(work, device, times + (times > 1))[1 if times > 1 else 0 :])


def peak_mb() -> float:
    """Return the peak memory of this process in MiB, including that of its parent at the fork."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def status_bytes(field: str, pid: int | str = "self") -> int:
    """Return a field of /proc/PID/status: VmRSS is resident memory, VmHWM its peak, RssAnon anonymous memory."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0
