"""Files of an index that we read; with `verify` no damage of them goes unnoticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.service.thumbnails import StoredPictures, store
from tests.end_to_end.photos import pictures

K = 8
FILES = ("index.json", "codec.json", "log", "features-0-8.bin", "ids.bin", "ids.ends", "metadata.bin", "metadata.ends")
"""Of every index of eight features."""
NAMES = [f"{number}.png" for number in range(12)]


def write_index(folder: Path) -> None:
    """An index with small pictures, whose log has several lines."""
    rows = np.random.default_rng(0).normal(size=(12, K)).astype(np.float32)
    index = CodeIndex(K, where=folder / "an.index")
    index.add(rows[:8], NAMES[:8], [{"n": number, "kind": "a"} for number in range(8)])
    index.add(rows[8:], NAMES[8:], [{"n": number} for number in range(4)])
    index.delete(NAMES[:2])
    index.upsert(rows[2:3] * 2, NAMES[2:3])
    store(folder / "an.index", NAMES[2:], pictures(10).transpose(0, 3, 1, 2))


def read_index(folder: Path) -> Any:
    """Everything that a search, a filter and the explorer read, after a check."""
    path = folder / "an.index"
    index, stored = CodeIndex.open(path), StoredPictures(path)
    index.verify()
    if not len(index):
        return "empty"
    found = index.search(np.eye(2, K, dtype=np.float32), top=5)
    some = index.search(np.eye(2, K, dtype=np.float32), top=5, where={"kind": "a"})
    shown = [stored.read(name) for name in NAMES]
    return (
        sorted(index.ids),
        index.codes(sorted(index.ids)).tobytes(),
        found.ids,
        some.ids,
        json.dumps(found.scores.tolist()),
        shown,
    )


def earlier_states(folder: Path, read: Callable[[Path], Any]) -> list[Any]:
    """Results after each change: with the lines of its log that were there then."""
    log = folder / "an.index" / "log"
    whole, results = log.read_bytes(), []
    lines = whole.splitlines(keepends=True)
    for count in range(len(lines)):
        log.write_bytes(b"".join(lines[:count]))
        with suppress(EigenmapError):
            results.append(read(folder))
    log.write_bytes(whole)
    return results


def read_unverified(folder: Path) -> Any:
    """The same without a check: an answer may be wrong, and is an answer."""
    index = CodeIndex.open(folder / "an.index")
    if not len(index):
        return "empty"
    found = index.search(np.eye(2, K, dtype=np.float32), top=5)
    assert found.scores.dtype == np.float32 and len(found.ids) == 2
    return sorted(map(str, index.ids)), found.ids


def write_compact(folder: Path) -> None:
    """An index of compact codes, with an approximate index beside them."""
    rows = np.random.default_rng(0).normal(size=(300, K)).astype(np.float32)
    index = CodeIndex(K, where=folder / "an.index", precision="bits", bytes_per_item=4)
    index.add(rows, range(300))


def read_compact(folder: Path) -> Any:
    index = CodeIndex.open(folder / "an.index")
    index.verify()
    if not len(index):
        return "empty"
    return index.search(np.eye(2, K, dtype=np.float32), top=5).ids, index.codes(range(300)).tobytes()
