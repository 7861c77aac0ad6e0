"""Options that all kinds of fits share: folder, length, seed, devices and reporting."""

from __future__ import annotations

import importlib.util
import math
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from eigenmap.core import clock
from eigenmap.core.arguments import is_number, seed_number, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction, logged
from eigenmap.core.processes import is_first_process
from eigenmap.fitting.run_folder import prepare
from eigenmap.model import CHECKPOINT
from eigenmap.recipes.recipe import BaseRecipe
from eigenmap.training import TrainingConfig, progress_display
from eigenmap.training.checkpoint import MOST_THREADS
from eigenmap.training.config import Accelerator
from eigenmap.training.launch import pays_to_compile
from eigenmap.training.progress import Progress, waiting

SAVING = 0.03
"""Share of a time limit that is reserved for saving the model and ending the command."""
NOTICED = 1.0
"""Shortest delay, in seconds, that is announced."""


@dataclass(frozen=True)
class RunOptions:
    """Options of a run; `steps` or `minutes` replace the length that the recipe states.

    With both, the run ends at whichever comes first.
    """

    folder: Path | None = None
    resume: bool = False
    steps: int | None = None
    minutes: float | None = None
    seed: int = 0
    device: Accelerator = "auto"
    devices: int = 1
    nodes: int = 1
    tensorboard: bool = False
    progress: Progress | None = None
    say: LogFunction = lambda line: None
    threads: int | None = None
    length_given: bool = True
    """Whether the caller gave a length; if not, a resumed run keeps its own."""
    began: float = field(default_factory=clock.began)
    """Moment of `time.perf_counter` from which `minutes` count: the start of the command or of the fit."""

    @classmethod
    def checked(
        cls,
        *,
        out: str | Path | None,
        resume: bool,
        force: bool,
        seed: int,
        device: Accelerator,
        devices: int,
        nodes: int = 1,
        tensorboard: bool,
        progress: bool | Progress,
        say: LogFunction | None,
        minutes: float | None,
        steps: int | None = None,
        threads: int | None = None,
        length_given: bool = True,
    ) -> RunOptions:
        """Validate the options of a caller before any data is read."""
        began = clock.began()
        say = logged(say)
        seed = seed_number(seed)
        folder = prepare(out, resume=resume, force=force)
        if resume and folder is not None and not (folder / CHECKPOINT).is_file():
            say(f"There is no checkpoint in {folder} to resume from; training starts from the beginning.")
        if device not in get_args(Accelerator):
            raise EigenmapError(f"device must be one of {', '.join(get_args(Accelerator))}, not {device!r}.")
        if not isinstance(progress, bool | None) and not hasattr(progress, "start"):
            raise EigenmapError(
                f"progress must be True, False or an object like that of training.progress_display(), not {progress!r}."
            )
        if tensorboard and importlib.util.find_spec("tensorboard") is None:
            raise EigenmapError("TensorBoard is not installed: pip install 'eigenmap[tensorboard]', or leave it out.")
        if threads is not None:
            whole_number(threads, "threads", high=MOST_THREADS)
        shown = progress_display() if progress is True else progress or None
        return cls(
            folder=folder,
            resume=resume,
            steps=steps,
            minutes=minutes,
            seed=seed,
            device=device,
            devices=devices,
            nodes=nodes,
            tensorboard=tensorboard,
            progress=shown,
            say=say,
            threads=threads,
            length_given=length_given,
            began=began,
        )

    def ends(self) -> float | None:
        """Return the moment of `time.perf_counter` at which training and ordering must end; None without `minutes`.

        To be called when the data have been read. Imports and reading count up to half of the minutes, so that there
        is time to train in any case; a small part is reserved for saving the model.
        """
        if self.minutes is None:
            return None
        now, whole = time.perf_counter(), 60 * self.minutes
        used = now - self.began
        if used > max(whole / 2, NOTICED):
            self.say(
                f"Starting and reading took {used:.0f} s, more than half of the {self.minutes:g} min; half is kept for "
                "training and ordering the features."
            )
        return now + (1 - SAVING) * whole - min(used, whole / 2)

    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Show in the first process that something besides training goes on."""
        return waiting(self.progress if is_first_process() else None, what)

    def config(self, recipe: BaseRecipe, steps: int) -> TrainingConfig:
        """Return the training configuration of a recipe and these options, for a number of steps."""
        shared = {field.name for field in fields(TrainingConfig)} & {field.name for field in fields(recipe)}
        settings: dict[str, Any] = {name: getattr(recipe, name) for name in shared}
        if settings["compile"] == "auto":
            settings["compile"] = pays_to_compile(self.device, steps)
        return TrainingConfig(
            **settings
            | {
                "steps": steps,
                "warmup_steps": math.floor(recipe.warmup * steps),
                "seed": self.seed,
                "log_every": max(1, steps // 100),
                "check_every": max(recipe.fewest_steps_to_a_check, steps // 10),
                "checkpoint_every": max(1, steps // 10),
                "tensorboard": self.tensorboard,
                "accelerator": self.device,
                "devices": self.devices,
                "nodes": self.nodes,
            }
        )


def check_length(steps: int | None, minutes: float | None, epochs: float | None = None) -> None:
    """Refuse a length of training that is invalid, or in epochs and something else."""
    if epochs is not None and (steps is not None or minutes is not None):
        raise EigenmapError("Give the length of training in epochs, or in steps or minutes, not both.")
    if steps is not None:
        whole_number(steps, "steps")
    if minutes is not None and not (is_number(minutes) and minutes > 0):
        raise EigenmapError(f"minutes must be a number above 0, not {minutes!r}.")
