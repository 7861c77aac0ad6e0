"""Which row an id has, without reading all ids: one hash of 8 bytes per row.

A look-up hashes the ids it is asked for, marks them in a small table, and passes the stored hashes through it; the few
rows that are left are compared in full. Ten million rows take some hundredths of a second and no memory that lasts,
where a dictionary of them takes a gigabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from eigenmap.search.backend import Rows

Hashes = NDArray[np.uint64]

_ROWS_AT_ONCE = 1 << 18
"""What is looked at in one go stays in the processor's cache."""
_FEWEST_BITS, _MOST_BITS = 12, 24


def hashes_of(texts: Sequence[bytes]) -> Hashes:
    """One number per text, the same on every machine.

    >>> int(hashes_of([b"a"])[0]) == int(hashes_of([b"b", b"a"])[1])
    True
    """
    joined = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(joined, "<u8")


def rows_with(stored: Hashes, wanted: Hashes) -> Rows:
    """The rows whose hash is among the wanted ones, in order.

    >>> rows_with(np.array([7, 5, 7], np.uint64), np.array([7], np.uint64)).tolist()
    [0, 2]
    """
    bits = min(_MOST_BITS, max(_FEWEST_BITS, len(wanted).bit_length() + 8))  # one row in 256 or fewer gets through
    shift = np.uint64(64 - bits)
    table = np.zeros(1 << bits, bool)
    table[wanted >> shift] = True
    known = np.sort(wanted)
    found: list[Rows] = [np.empty(0, np.int64)]
    for start in range(0, len(stored), _ROWS_AT_ONCE):
        part = np.asarray(stored[start : start + _ROWS_AT_ONCE])
        rows = np.flatnonzero(table[part >> shift])
        left = part[rows]
        place = np.minimum(np.searchsorted(known, left), len(known) - 1)
        found.append(start + rows[known[place] == left])
    return np.concatenate(found)
