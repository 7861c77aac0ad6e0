"""Time budget: how many steps fit into the given time, measured on the machine that will take them."""

from __future__ import annotations

import copy
import math
import time
from typing import TYPE_CHECKING

import torch
from torch import nn

from eigenmap.core.errors import EigenmapError
from eigenmap.training.config import TrainingConfig
from eigenmap.training.launch import start
from eigenmap.training.loop import Learner, Relation

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def steps_for_budget(seconds: float, step_seconds: float, least: int = 1, most: int = 1_000_000) -> int:
    """The number of steps of `step_seconds` that fit into `seconds`, kept in least..most.

    >>> steps_for_budget(60, 0.25, least=100, most=1000)
    240
    """
    if not 1 <= least <= most:
        raise EigenmapError(f"least ({least}) must be at least 1 and at most `most` ({most}).")
    return min(max(math.floor(seconds / step_seconds), least), most)


def budget_in_words(steps: int, what: str, step_seconds: float, minutes: float) -> str:
    """What a length of training came to: so many steps, or the fewest that make sense although they take longer.

    >>> budget_in_words(240, "16 images", 0.25, 1.0)
    '240 steps of 16 images fit into 1 min.'
    >>> budget_in_words(20, "16 images", 6.0, 1.0)
    '20 steps of 16 images, the fewest that make sense, will take about 2 min, not 1.'
    """
    needed = steps * step_seconds / 60
    if needed <= minutes:
        return f"{steps:,} steps of {what} fit into {minutes:g} min."
    return f"{steps:,} steps of {what}, the fewest that make sense, will take about {needed:.2g} min, not {minutes:g}."


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
    """Seconds of the fastest training step, batch included, after `warmup` steps that are not counted.

    The fastest, because whatever else the machine does in these seconds makes steps slower and never faster.
    Counting ends after `at_most` seconds, so that on a slow machine it does not use up the time it is to divide.
    It trains copies: network and objective stay as they are.
    """
    fabric = fabric or start(config)
    learner = Learner(fabric, copy.deepcopy(network), copy.deepcopy(objective), config)
    for step in range(warmup):
        learner.step(step, relation.batch(step))
    _finish(fabric.device)
    taken: list[float] = []
    for step in range(warmup, warmup + steps):
        began = time.perf_counter()
        learner.step(step, relation.batch(step))
        _finish(fabric.device)
        taken.append(time.perf_counter() - began)
        # All processes have to stop at the same step.
        if fabric.broadcast(sum(taken) > at_most):
            break
    return fabric.broadcast(min(taken))


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
