"""How many steps fit into the time there is, measured on the machine that will take them."""

from __future__ import annotations

import copy
import math
import time
from typing import TYPE_CHECKING

import torch
from torch import nn

from eigenmap.errors import EigenmapError
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
    """Mean seconds of a training step, batch included, after `warmup` steps that are not counted.

    Counting ends after `at_most` seconds, so that on a slow machine it does not use up the time it is to divide.
    It trains copies: network and objective stay as they are.
    """
    fabric = fabric or start(config)
    learner = Learner(fabric, copy.deepcopy(network), copy.deepcopy(objective), config)
    for step in range(warmup):
        learner.step(step, relation.batch(step))
    _finish(fabric.device)
    began = time.perf_counter()
    for taken in range(1, steps + 1):
        learner.step(warmup + taken, relation.batch(warmup + taken))
        _finish(fabric.device)
        # All processes have to stop at the same step.
        if fabric.broadcast(time.perf_counter() - began > at_most):
            break
    return fabric.broadcast((time.perf_counter() - began) / taken)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
