"""All results so far in one file, so that a machine that is taken away takes little work with it.

with archived(results, Path("results.tar.gz")):
    measure()  # the file is written again every few seconds, and when the block ends
"""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEPT = (".json", ".jsonl", ".log", ".txt")
EVERY = 20.0
"""Seconds between two copies."""


def archive(folder: Path, file: Path) -> None:
    """Write the results and logs in a folder, and in the folders there, into one file, in place of the last one."""
    partial = file.with_name(f"{file.name}.partial")
    with tarfile.open(partial, "w:gz") as made:
        for path in sorted(path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.suffix in KEPT):
            content = path.read_bytes()  # a log may grow while it is copied
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mtime = len(content), path.stat().st_mtime
            made.addfile(entry, io.BytesIO(content))
    partial.replace(file)


@contextmanager
def archived(folder: Path, file: Path, every: float = EVERY) -> Iterator[None]:
    """Keep the file up to date while the block runs, and write it once more however the block ends."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(every):
            archive(folder, file)

    copies = threading.Thread(target=repeat, daemon=True)
    copies.start()
    try:
        yield
    finally:
        ended.set()
        copies.join()
        archive(folder, file)
