"""Many answers in a few minutes, while the index is changed and replaced all the time: memory per 1,000 answers.

    python -m benchmarks.reliability.growth --rounds 60000

The same server, clients and faults as in `requests`, but the index is replaced and changed several times as often, and
the memory that the server can reach (`reachable`) is read every second. Half of the answers are warm-up.
What is kept per answer, per change or per replacement shows after minutes here; in half an hour of ordinary load
(`steady`) it could hide.

Memory counts as growing if the slope of Theil and Sen over the second half is at least 16 bytes per answer, the
smallest block of the C library, or a tenth of one of Python's blocks, and its 95 % interval is above zero.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.timing import status_bytes
from benchmarks.reliability import outcome, reachable
from benchmarks.reliability.outcome import Outcome
from benchmarks.reliability.requests import Load, make_indexes
from benchmarks.reliability.steady import COMMAND, LEAST_BLOCKS, LEAST_BYTES, open_files

UPLOADS = 6
"""One in so many requests is an upload."""
PER = 1000
PAUSE_S = 1.0
"""Seconds between two readings of memory."""
NAMES = ("answers", "bytes", "blocks", "anonymous", "mapped", "open_files")
"""Columns of the samples: resident memory is that of the process itself, and of files it has mapped."""


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    with tempfile.TemporaryDirectory(prefix="growth") as name:
        folder = Path(name)
        load = Watched(folder, make_indexes(folder), given.seed, found)
        uploads = given.rounds // UPLOADS
        load.run(given.rounds - uploads, uploads)
        judge(np.array(load.samples, float), found)


class Watched(Load):
    """A server whose memory is read while it answers."""

    REPLACE_S, ADD_S = 0.4, 0.1

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.samples: list[tuple[float, ...]] = []

    @contextmanager
    def _server(self) -> Iterator[subprocess.Popen[str]]:
        sizes = self.place.with_name("sizes")
        program = f"from benchmarks.reliability import reachable; reachable.report({str(sizes)!r}, {PAUSE_S})\n"
        program += COMMAND[-1]
        words = [sys.executable, "-c", program, "serve", str(self.place), "--port", "0", "--quiet"]
        with self._started(words, reachable.EXACT) as process:
            watcher = threading.Thread(target=self._watch, args=(process, sizes))
            watcher.start()
            try:
                yield process
            finally:
                self.stopping.set()
                watcher.join()

    def _watch(self, process: subprocess.Popen[str], sizes: Path) -> None:
        last = (0, 0)
        while not self.stopping.wait(0.5):
            now = reachable.read(sizes)
            if now == last:
                continue
            last = now
            with suppress(OSError):  # the process has ended
                resident = [status_bytes(name, process.pid) for name in ("RssAnon", "RssFile")]
                self.samples.append((self.found.rounds, *now, *resident, open_files(process.pid)))


def judge(samples: Any, found: Outcome) -> None:
    """Fit slopes per answer to the second half of the samples."""
    from scipy.stats import theilslopes

    kept = samples[samples[:, 0] >= samples[-1, 0] / 2] if len(samples) else samples
    if len(kept) < 10:
        found.fail(f"only {len(kept)} samples after the warm-up")
        return
    measured: dict[str, Any] = {"answers": int(kept[-1, 0] - kept[0, 0]), "samples": len(kept)}
    for column, (name, least) in enumerate((("bytes", LEAST_BYTES), ("blocks", LEAST_BLOCKS)), start=1):
        fitted = theilslopes(kept[:, column], kept[:, 0], 0.95)
        slope, low, high = (float(value) for value in (fitted.slope, fitted.low_slope, fitted.high_slope))
        measured[f"{name}_per_{PER}"] = [PER * slope, PER * low, PER * high]
        if slope >= least and low > 0:
            found.fail(f"the server keeps {slope:.1f} {name} per answer")
    tenths = [part[:, NAMES.index("anonymous")] for part in np.array_split(samples, 10)]
    measured["resident_mb_by_tenth"] = [round(float(np.median(part)) / 1e6, 1) for part in tenths]
    quarter = max(1, len(kept) // 4)
    for name in NAMES[1:]:
        values = kept[:, NAMES.index(name)]
        measured[name] = [float(np.median(part)) for part in (values[:quarter], values[-quarter:])]
    found.measured.update(measured)


if __name__ == "__main__":
    outcome.run("growth", __doc__, 60_000, experiment)
