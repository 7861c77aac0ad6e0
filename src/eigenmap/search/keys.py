"""Lookup of rows by id: through a dictionary in memory, or through stored hashes of 8 bytes per row on disk.

On disk, a lookup hashes the requested ids, marks them in a small table, and filters the stored hashes through it; the
few remaining rows are compared in full. Ten million rows take a few hundredths of a second and no lasting memory; a
dictionary would take a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eigenmap.search.backend import Id, RowNumbers
from eigenmap.search.text_store import Texts

Hashes = NDArray[np.uint64]

Holds = Callable[[int, Id], bool]
"""Tells whether a row exists and has an id, in a given state of the index."""

_ROWS_AT_ONCE = 1 << 18
"""Number of hashes processed at a time, which stay in the processor's cache."""
_FEWEST_BITS, _MOST_BITS = 12, 24


def hashes_of(texts: Sequence[bytes]) -> Hashes:
    """Return one hash per text, the same on every machine.

    >>> int(hashes_of([b"a"])[0]) == int(hashes_of([b"b", b"a"])[1])
    True
    """
    joined = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(joined, "<u8")


def rows_with(stored: Hashes, wanted: Hashes) -> RowNumbers:
    """Return the rows whose hash is among the wanted ones, in order.

    >>> rows_with(np.array([7, 5, 7], np.uint64), np.array([7], np.uint64)).tolist()
    [0, 2]
    """
    bits = min(_MOST_BITS, max(_FEWEST_BITS, len(wanted).bit_length() + 8))  # at most one row in 256 passes
    shift = np.uint64(64 - bits)
    table = np.zeros(1 << bits, bool)
    table[wanted >> shift] = True
    known = np.sort(wanted)
    found: list[RowNumbers] = [np.empty(0, np.int64)]
    for start in range(0, len(stored), _ROWS_AT_ONCE):
        part = np.asarray(stored[start : start + _ROWS_AT_ONCE])
        rows = np.flatnonzero(table[part >> shift])
        left = part[rows]
        place = np.minimum(np.searchsorted(known, left), len(known) - 1)
        found.append(start + rows[known[place] == left])
    return np.concatenate(found)


class Keys(Protocol):
    """Lookup of rows by id."""

    def find(self, ids: Sequence[Id], holds: Holds) -> dict[Id, int]:
        """Return the rows of those ids that exist."""
        ...


class Places:
    """All rows that each id ever had in an index in memory; append-only and shared by all snapshots.

    >>> places = Places()
    >>> places.extend(["a", "b", "a"], 0)
    >>> places.find(["a", "c"], lambda row, name: row < 2)
    {'a': 0}
    """

    def __init__(self) -> None:
        self._rows: dict[Id, int | list[int]] = {}

    def extend(self, ids: Sequence[Id], first: int) -> None:
        """Record the ids of the next rows, starting at `first`."""
        for row, name in enumerate(ids, first):
            before = self._rows.get(name)
            if before is None:
                self._rows[name] = row
            elif isinstance(before, int):
                self._rows[name] = [before, row]
            else:
                before.append(row)

    def find(self, ids: Sequence[Id], holds: Holds) -> dict[Id, int]:
        """Return the rows of those ids that exist, newest first: a snapshot does not see later rows."""
        found: dict[Id, int] = {}
        for name in ids:
            rows = self._rows.get(name, [])
            newest_first = [rows] if isinstance(rows, int) else reversed(rows)
            row = next((row for row in newest_first if holds(row, name)), None)
            if row is not None:
                found[name] = row
        return found


class StoredHashes:
    """Hashes of the ids of an index on disk, computed when first needed if an earlier version stored none."""

    def __init__(self, names: Texts, stored: Hashes | None) -> None:
        self._names = names
        self._stored = stored

    @property
    def hashes(self) -> Hashes:
        """Return one hash per row."""
        if self._stored is None:
            self._stored = hashes_of(list(self._names))
        return self._stored

    def find(self, ids: Sequence[Id], holds: Holds) -> dict[Id, int]:
        """Return the rows of those ids that exist."""
        found: dict[Id, int] = {}
        by_text = {id_bytes(name): name for name in ids}
        for row in rows_with(self.hashes, hashes_of(list(by_text))).tolist():
            name = by_text.get(self._names[row])
            if name is not None and holds(row, name):
                found[name] = row
        return found


def id_bytes(name: Id) -> bytes:
    """Serialise an id for storage."""
    return str(name).encode("utf-8", "surrogatepass")
