"""Bit allocation: division of the features of an ordered code among a fixed number of bytes.

One byte describes a group of neighbouring features. If they are Gaussian with variances v_1 >= v_2 >= ..., R = 8 bits
can reduce their mean squared error to that of reverse water-filling [1]:

    D = sum_j min(v_j, theta),   where theta is such that  sum_j max(0, log2(v_j / theta)) / 2 = R

Groups are consecutive, from the first feature, and do not cross column blocks; features after the last group are not
stored and cost their variance. Dynamic programming over the ends of groups finds the split with the least total error.

[1] T. Cover, J. Thomas: Elements of Information Theory, section 10.3.3

>>> allocate_bytes(np.array([64.0, 1.0, 1.0, 1.0, 0.01, 0.001]), 2, [(0, 6)])
[(0, 2), (2, 5)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

BITS = 8


def allocate_bytes(
    variance: NDArray[np.float64], n_bytes: int, blocks: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the groups [first, end) of features that share a byte, at most `n_bytes` of them, in feature order."""
    k = len(variance)
    unstored = np.append(np.cumsum(variance[::-1])[::-1], 0.0)  # error of storing nothing from feature j onwards
    errors = {first: group_errors(variance[first:end]) for start, end in blocks for first in range(start, end)}
    # least[j]: least error of the features before j with the groups so far; came[m][j]: start of the last group.
    least = np.full(k + 1, np.inf)
    least[0] = 0.0
    best, best_end, best_count = unstored[0], 0, 0
    came: list[NDArray[np.int64]] = []
    for count in range(1, n_bytes + 1):
        following, origin = np.full(k + 1, np.inf), np.zeros(k + 1, np.int64)
        for first in np.flatnonzero(np.isfinite(least[:k])).tolist():
            ends = slice(first + 1, first + 1 + len(errors[first]))
            total = least[first] + errors[first]
            better = total < following[ends]
            following[ends][better] = total[better]
            origin[ends][better] = first
        least = following
        came.append(origin)
        end = int(np.argmin(least + unstored))
        if least[end] + unstored[end] < best:
            best, best_end, best_count = float(least[end] + unstored[end]), end, count
    groups: list[tuple[int, int]] = []
    end = best_end
    for origin in reversed(came[:best_count]):
        groups.append((int(origin[end]), end))
        end = int(origin[end])
    return groups[::-1]


def group_errors(variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the error of a group of the first feature, of the first two, ..., described by `BITS` bits."""
    errors = np.empty(len(variance))
    described: list[float] = []  # binary logarithms of the variances above the water, the smallest first
    total, theta, below = 0.0, -math.inf, 0.0
    for j, v in enumerate(variance.tolist()):
        bits = math.log2(v) if v > 0 else -math.inf
        if bits > theta:  # another feature only raises the water, so none that is below it can emerge
            heappush(described, bits)
            total += bits
            theta = (total - 2 * BITS) / len(described)
            while described[0] <= theta:
                bits = heappop(described)
                below += 2.0**bits
                total -= bits
                theta = (total - 2 * BITS) / len(described)
        else:
            below += v
        errors[j] = len(described) * 2.0**theta + below
    return errors


def water_filling(variance: NDArray[np.float64], bits: float) -> float:
    """Return the least mean squared error, summed over independent Gaussians, with this many bits."""
    v = np.sort(variance[variance > 0])[::-1]
    if not len(v):
        return 0.0
    active = np.arange(1, len(v) + 1)
    theta = 2.0 ** ((np.cumsum(np.log2(v)) - 2 * bits) / active)  # if exactly the first `active` are described
    m = int(np.flatnonzero(theta < v)[-1])
    return float((m + 1) * theta[m] + v[m + 1 :].sum())
