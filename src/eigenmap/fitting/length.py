"""Length of a new or resumed run, in steps or until a deadline, and its number of threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.problem import Problem, Task
from eigenmap.training import TrainingConfig, budget_in_words, measure_step, steps_for_budget
from eigenmap.training.checkpoint import Checkpoint
from eigenmap.training.threads import fastest_threads, is_fixed
from eigenmap.training.time_budget import MOST_STEPS

if TYPE_CHECKING:
    from lightning_fabric import Fabric


A_REST = 0.05
"""Share of its time that a run may leave unused because no further step or check would fit."""
MEASURING = 0.05
"""Maximum share of a time limit in which the duration of a step is measured."""


class Length(NamedTuple):
    """Training configuration, with its number of steps, and the seconds and steps after which the run ends."""

    config: TrainingConfig
    deadline: float | None = None
    most_steps: int | None = None


def asked_steps(task: Task, options: RunOptions, saved: Checkpoint | None) -> int:
    """Return the steps of the whole run: those requested, else those of the resumed run, else the recipe's."""
    if saved is not None and task.steps == 0:
        raise EigenmapError(
            f"{options.folder} has the checkpoint of a training, but these settings train nothing: give the settings "
            "of that run to resume it, or use force=True to start over."
        )
    begun = None if saved is None else steps_of(saved)
    if begun is not None and (options.minutes is not None or not options.length_given):
        return begun
    steps = options.steps or task.steps
    if saved is not None and begun is not None and steps > begun:
        options.say(
            f"The run of {begun:,} steps is continued to {steps:,}: from step {saved.step:,} on, the learning rate "
            "follows the longer schedule."
        )
    return steps


def steps_of(saved: Checkpoint) -> int | None:
    """Return the number of steps in a run's schedule."""
    steps = saved.settings.get("steps")
    return steps if isinstance(steps, int) else None


def settle(
    task: Task,
    problem: Problem,
    config: TrainingConfig,
    fabric: Fabric,
    options: RunOptions,
    saved: Checkpoint | None,
    ends: float | None,
) -> Length:
    """Choose the number of threads, and turn a time limit into steps and a deadline.

    `ends` is the moment of `time.perf_counter` at which the limit is reached. The time spent here counts, as does that
    of ordering the features afterwards, for which up to half of the time is reserved.
    """
    seconds = settle_threads(problem, config, fabric, options, saved)
    if ends is None or options.minutes is None:
        return Length(config)
    if saved is None:
        assert problem.relation is not None
        at_most = MEASURING * 60 * options.minutes
        seconds = seconds or measure_step(
            problem.network, problem.relation, problem.objective, config, fabric, at_most=min(5.0, at_most)
        )
        left = ends - time.perf_counter()
        # At least one step, even if time is short.
        deadline = max(training_seconds(task, problem, left, seconds), seconds)
        most = options.steps or MOST_STEPS
        steps, deadline = fabric.broadcast((steps_for_budget(deadline, seconds, most=most), deadline))
        if steps < most:
            options.say(budget_in_words(steps, task.step_in_words, options.minutes))
        return Length(options.config(task.recipe, steps), deadline, options.steps)
    # The limit of a resumed run includes its earlier parts.
    left = ends - time.perf_counter()
    deadline = fabric.broadcast(training_seconds(task, problem, left, saved.seconds / max(1, saved.step)))
    return _resumed(task, config, options, saved, deadline)


def training_seconds(task: Task, problem: Problem, left: float, step_seconds: float) -> float:
    """Return what ordering the features leaves of the time for training: half of it at least."""
    return left - min(problem.seconds_to_align(step_seconds, task.recipe.batch_size), left / 2)


def _resumed(task: Task, config: TrainingConfig, options: RunOptions, saved: Checkpoint, deadline: float) -> Length:
    """Return the length of a resumed run with a deadline, which includes the seconds before the resume.

    A run whose schedule has ended gets as many further steps as fit, with the schedule of the longer run.
    """
    left = deadline - saved.seconds
    ended = (saved.step if saved.position is None else saved.position) >= config.steps
    if left <= 0 or (ended and left < A_REST * deadline):
        options.say(f"The run has had its {options.minutes:g} min already: there is nothing left to train.")
        return Length(config, deadline, options.steps)
    further = int(left * saved.step / max(saved.seconds, 1e-9))
    if options.steps is not None:
        further = min(further, options.steps - saved.step)
    if not ended or further < 1:
        return Length(config, deadline, options.steps)
    options.say(f"The run has ended after {saved.step:,} steps and is continued, by about {further:,}.")
    return Length(options.config(task.recipe, saved.step + further), deadline, options.steps)


def settle_threads(
    problem: Problem, config: TrainingConfig, fabric: Fabric, options: RunOptions, saved: Checkpoint | None
) -> float | None:
    """Set the number of threads; return the seconds of a step if they were measured.

    The number is the caller's, else that of the environment, else that of the resumed run, which then continues bit for
    bit. If none of these is given, it is measured, but only for a single process on the CPU.
    """
    if options.threads is not None:
        torch.set_num_threads(options.threads)
        return None
    if fabric.device.type != "cpu" or fabric.world_size > 1 or is_fixed():
        return None
    most = torch.get_num_threads()
    if saved is not None and saved.threads is not None:
        torch.set_num_threads(min(saved.threads, most))
        return None
    assert problem.relation is not None
    measured = fastest_threads(problem.network, problem.relation, problem.objective, config, fabric)
    torch.set_num_threads(measured.threads)
    if measured.threads < most:
        options.say(f"Training with {measured.threads} of {most} threads: more would be slower on this machine now.")
    return measured.seconds
