"""Number of steps that fit into a given time, measured on this machine."""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import nn

from eigenmap.core.errors import EigenmapError
from eigenmap.training.config import TrainingConfig
from eigenmap.training.launch import fast_arithmetic, start
from eigenmap.training.loop import Learner, Relation, small_crops

if TYPE_CHECKING:
    from lightning_fabric import Fabric


MOST_STEPS = 1_000_000
"""Steps that no time limit exceeds at first."""


def steps_for_budget(seconds: float, step_seconds: float, least: int = 1, most: int = MOST_STEPS) -> int:
    """Return the number of steps of `step_seconds` that fit into `seconds`, limited to least..most.

    >>> steps_for_budget(60, 0.25, least=100, most=1000)
    240
    """
    if not 1 <= least <= most:
        raise EigenmapError(f"least ({least}) must be at least 1 and at most `most` ({most}).")
    return min(max(math.floor(seconds / step_seconds), least), most)


FEW_STEPS = 20
"""Warn about fewer steps than this."""


def budget_in_words(steps: int, what: str, minutes: float) -> str:
    """Describe the length of training that a time limit allows.

    >>> budget_in_words(240, "16 images", 1.0)
    'About 240 steps of 16 images fit into 1 min; the estimate is corrected during training.'
    >>> budget_in_words(4, "256 images", 1.0)
    'Only about 4 steps of 256 images fit into 1 min: allow more time, or use a smaller batch.'
    """
    minutes = float(f"{minutes:.3g}")
    if steps < FEW_STEPS:
        count = "1 step" if steps == 1 else f"{steps} steps"
        return f"Only about {count} of {what} fit into {minutes:g} min: allow more time, or use a smaller batch."
    return f"About {steps:,} steps of {what} fit into {minutes:g} min; the estimate is corrected during training."


def measure_step(
    network: nn.Module,
    relation: Relation,
    objective: nn.Module,
    config: TrainingConfig,
    fabric: Fabric | None = None,
    steps: int = 20,
    warmup: int = 3,
    at_most: float = 5.0,
) -> float:
    """Return the seconds of the fastest training step, including its batch, after `warmup` uncounted steps.

    The fastest is used because other load on the machine only makes steps slower. Measurement stops after
    `at_most` seconds, and so does the warm-up, after which one more step is taken, so that a slow machine does not use
    up its training time. Network and objective are copied and stay unchanged.
    """
    fabric = fabric or start(config)
    learner = Learner(fabric, copy.deepcopy(network), copy.deepcopy(objective), config)

    def seconds(step: int) -> float:
        began = time.perf_counter()
        learner.step(step, relation.batch(step), crops=small_crops(relation, config, step))
        _finish(fabric.device)
        return time.perf_counter() - began

    numbers = itertools.count()
    with fast_arithmetic(fabric.device):
        _until(at_most, warmup, lambda: seconds(next(numbers)), fabric)
        fastest = min(_until(at_most, steps, lambda: seconds(next(numbers)), fabric))
    return fabric.broadcast(fastest)


def _until(at_most: float, steps: int, seconds: Callable[[], float], fabric: Fabric) -> list[float]:
    """Take up to `steps` steps until they have taken `at_most` seconds; all processes stop at the same step."""
    taken: list[float] = []
    for _ in range(steps):
        taken.append(seconds())
        late: bool = fabric.broadcast(sum(taken) > at_most)
        if late:
            break
    return taken


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
