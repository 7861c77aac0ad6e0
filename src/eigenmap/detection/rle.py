"""COCO's run-length encoding of masks: alternating lengths of runs of 0 and 1, column by column, as compact text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


def runs_of(mask: Mask) -> list[int]:
    """Return the run lengths of a mask (height, width), column by column, starting with a run of 0.

    >>> runs_of(np.array([[False, True], [True, True]]))
    [1, 3]
    """
    flat = np.concatenate([[False], mask.T.reshape(-1), [False]])
    edges = np.flatnonzero(flat[1:-1] != flat[:-2])
    return [int(run) for run in np.diff(np.concatenate([[0], edges, [mask.size]]))]


def mask_of(runs: Sequence[int], height: int, width: int) -> Mask:
    """Return the mask with these run lengths; the inverse of `runs_of`."""
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(width, height).T


def to_text(runs: Sequence[int]) -> str:
    """Encode run lengths as COCO does: from the fourth on, differences from two runs earlier; 5 bits per character."""
    text = []
    for place, run in enumerate(runs):
        value, more = run - (runs[place - 2] if place > 2 else 0), True
        while more:
            bits, value = value & 0x1F, value >> 5
            more = value != (-1 if bits & 0x10 else 0)
            text.append(chr((bits | 0x20 if more else bits) + 48))
    return "".join(text)


def from_text(text: str) -> list[int]:
    """Decode run lengths written by `to_text` or COCO's tools."""
    runs: list[int] = []
    value, shift = 0, 0
    for character in text:
        bits = ord(character) - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if not bits & 0x20:
            value -= (1 << shift) if bits & 0x10 else 0
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value, shift = 0, 0
    return runs
