"""Fits taken step by step: the problem and settings of the pipeline, without its loop."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.problem import Problem, Task
from eigenmap.training import start
from eigenmap.training.loop import Learner, small_crops


@dataclass(frozen=True)
class Stepping:
    """A problem on its device, and the learner that takes its steps."""

    problem: Problem
    learner: Learner

    def step(self, step: int) -> float:
        """Take a step on the batch of that number; return its loss."""
        relation = self.problem.relation
        crops = small_crops(relation, self.learner.config, step)
        return float(self.learner.step(step, relation.batch(step), crops=crops)[0])


def stepping(task: Task, options: RunOptions) -> Stepping:
    """Return the setup of `fitting.pipeline.train` before its first step."""
    config = options.config(task.recipe, options.steps or task.steps)
    fabric = start(config)
    if fabric.device.type == "cuda":  # the arithmetic of `training.launch.fast_arithmetic`, here for the whole process
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
    problem = task.problem(fabric, config)
    return Stepping(problem, Learner(fabric, problem.network, problem.objective, config))
