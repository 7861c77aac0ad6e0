"""Number of CPU threads of a run, chosen by measuring a few of its steps.

Threads wait for each other at the end of every operation. If another program occupies one of two cores, every operation
waits for the thread on that core, and two threads are several times slower than one.
"""

from __future__ import annotations

import copy
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from eigenmap.training.config import TrainingConfig
from eigenmap.training.loop import Learner, Relation, small_crops

if TYPE_CHECKING:
    from lightning_fabric import Fabric

ROUNDS = 3
AT_MOST = 4.0
"""Stop measuring after this many seconds, at the end of the current round."""
SLOW = 0.5
"""If a step would take longer than this many seconds, forward passes of a part of its batch are timed instead of whole
steps: with too many threads a step may take ten times as long."""
PART = 8
"""The part is one over this."""
STEP = 6
"""A step takes about as long as this many forward passes of one view."""
SHORT = 10.0
"""Runs that take fewer seconds than this keep their number of threads."""
WORTH_IT = 0.85
"""Use fewer threads only if a step then takes less than this share of the time, so that noise does not decide."""


class Measured(NamedTuple):
    """A number of threads and the seconds per step with it."""

    threads: int
    seconds: float


@contextmanager
def restored_threads() -> Iterator[None]:
    """Leave the caller's number of threads as it was."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def is_fixed() -> bool:
    """Tell whether the number of threads is fixed by the environment or by torch itself."""
    return bool(os.environ.get("OMP_NUM_THREADS")) or torch.get_num_threads() == 1


def candidates(most: int) -> list[int]:
    """Return the numbers of threads to compare, fewest first.

    >>> candidates(2), candidates(12)
    ([1, 2], [1, 3, 6, 12])
    """
    found = [most]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found[::-1]


def fastest_threads(
    network: nn.Module, relation: Relation, objective: nn.Module, config: TrainingConfig, fabric: Fabric
) -> Measured:
    """Time steps with different numbers of threads in turn, and return the best number.

    Network and objective are copied and stay unchanged. The current number of threads is the largest one tried.
    """
    most = torch.get_num_threads()
    learner = Learner(fabric, copy.deepcopy(network), copy.deepcopy(objective), config)
    with restored_threads():
        torch.set_num_threads(1)
        x = relation.batch(0).x
        part = x[: max(2, len(x) // PART)]
        scale = STEP * len(x) / len(part)
        _forward_seconds(learner, part)  # the first pass is slower than the others
        if scale * _forward_seconds(learner, part) > SLOW:
            typical = _typical(candidates(most), lambda: scale * _forward_seconds(learner, part))
        else:
            _seconds(learner, relation, 0)
            steps = itertools.count(1)
            typical = _typical(candidates(most), lambda: _seconds(learner, relation, next(steps)))
    if typical[most] * config.steps < SHORT:
        return Measured(most, typical[most])
    return best(typical)


def _typical(numbers: list[int], measure: Callable[[], float]) -> dict[int, float]:
    """Return the median of what is measured with each number of threads, in turn."""
    taken: dict[int, list[float]] = {threads: [] for threads in numbers}
    began = time.perf_counter()
    for _ in range(ROUNDS):
        for threads, seconds in taken.items():
            torch.set_num_threads(threads)
            seconds.append(measure())
        if time.perf_counter() - began > AT_MOST:
            break
    return {threads: statistics.median(seconds) for threads, seconds in taken.items()}


def best(typical: dict[int, float]) -> Measured:
    """Return the fastest number of threads; the largest unless another one is clearly faster.

    >>> best({1: 2.5, 2: 14.0}), best({1: 1.6, 2: 1.7})
    (Measured(threads=1, seconds=2.5), Measured(threads=2, seconds=1.7))
    """
    most = max(typical)
    fastest = min(typical, key=lambda threads: typical[threads])
    chosen = fastest if typical[fastest] < WORTH_IT * typical[most] else most
    return Measured(chosen, typical[chosen])


def _seconds(learner: Learner, relation: Relation, step: int) -> float:
    began = time.perf_counter()
    learner.step(step, relation.batch(step), crops=small_crops(relation, learner.config, step))
    return time.perf_counter() - began


@torch.no_grad()
def _forward_seconds(learner: Learner, x: Tensor) -> float:
    began = time.perf_counter()
    learner.network(x)
    return time.perf_counter() - began
