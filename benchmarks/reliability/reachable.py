"""Memory that a process can still reach: bytes that the C library has handed out, and blocks that Python has.

Resident memory also contains what the two keep for later, which depends on chance and never shrinks. A thread in the
measured process collects garbage, reads both numbers and writes them to a file.

Before it reads, it fills Python's table of interned strings with strings that are dropped at once. Entries of dropped
strings are not reused: `pathlib` interns the parts of every path, and when the entries are used up, Python rebuilds the
table, once at twice its size and then again and again at the same size. In a server this is a single step of 1.92 MB
after some thousand changes of its index, which is not a leak and would move a slope (`interned` shows it).

What a thread has freed and the C library keeps for it, up to 175 kB per thread, also counts as handed out, and fills up
over tens of thousands of answers, since sizes differ. With the environment `EXACT` the C library keeps nothing for
threads.

    python -c "from benchmarks.reliability import reachable; reachable.report('sizes'); ..."
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

EXACT = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""Further environment of a measured process."""
PAUSE_S = 5.0
DROPPED = 100_000
"""Number of strings interned and dropped before each reading: more than two readings rebuild a table of 60,000."""


class _Numbers(ctypes.Structure):
    """Result of `mallinfo2`, from malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "top",
        )
    ]


def sizes() -> tuple[int, int]:
    """Return bytes handed out by the C library, and blocks handed out by Python, after a garbage collection."""
    drop(DROPPED)
    gc.collect()
    return handed_out(), sys.getallocatedblocks()


def handed_out() -> int:
    """Return the bytes that the C library has handed out."""
    numbers = _asked()()
    return int(numbers.uordblks + numbers.hblkhd)


@cache
def _asked() -> Any:
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Numbers
    return ask


def drop(count: int) -> None:
    """Intern strings and drop them at once."""
    for number in range(count):
        sys.intern(f"dropped {number}")


def report(path: str, pause_s: float = PAUSE_S) -> None:
    """Write the sizes to a file every few seconds, as long as the process lives."""
    threading.Thread(target=_report, args=(Path(path), pause_s), daemon=True).start()


def _report(path: Path, pause_s: float) -> None:
    partial = path.with_name(f"{path.name}.new")
    while True:
        partial.write_text(" ".join(map(str, sizes())))
        partial.replace(path)
        time.sleep(pause_s)


def read(path: Path) -> tuple[int, int]:
    """Return the sizes that were written last; zeros if there are none yet."""
    if not path.exists():
        return 0, 0
    taken, blocks = path.read_text().split()
    return int(taken), int(blocks)
