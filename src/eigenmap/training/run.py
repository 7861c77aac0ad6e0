"""Run folder: checkpoint and metrics, started or resumed together, written by the first process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import FOLDER, PLAIN, Lock, make_folder, sync_directory
from eigenmap.model import CHECKPOINT, DESCRIPTION
from eigenmap.training import checkpoint
from eigenmap.training.config import Setting
from eigenmap.training.metrics import MetricsFile

if TYPE_CHECKING:
    from eigenmap.training.loop import Learner

METRICS_FILE = "metrics.jsonl"


def claim(folder: Path) -> Lock | None:
    """Refuse a folder in which another process trains; the claim ends when it is closed, or with this process."""
    if not FOLDER:
        return None  # Windows cannot open folders
    try:
        return Lock(os.open(folder, os.O_RDONLY | FOLDER | PLAIN), wait=False)
    except BlockingIOError:
        raise EigenmapError(f"another process is training in {folder}: wait for it or choose another.") from None


class Run:
    """Files of a learner in the folder `out` (None: no files).

    run = Run("runs/mine", learner, settings)
    step, position, seconds = run.begin(resume=True)
    run.metrics.write(record)
    run.save(step, position, seconds)
    """

    metrics: MetricsFile

    def __init__(self, out: str | Path | None, learner: Learner, settings: dict[str, Setting]) -> None:
        self.learner, self.settings = learner, settings
        self.folder = None if out is None else Path(out)
        self._claim: Lock | None = None

    def begin(self, resume: bool) -> tuple[int, float, float]:
        """Restore the learner from the last checkpoint; return steps, position in the schedule and seconds."""
        fabric, config = self.learner.fabric, self.learner.config
        step, position, seconds = 0, 0.0, 0.0
        metrics_file = None
        try:
            if self.folder is not None:
                make_folder(self.folder)
                if fabric.is_global_zero:
                    self._claim = claim(self.folder)
                if resume and (self.folder / CHECKPOINT).exists():
                    step, position, seconds = self._restore(self.folder / CHECKPOINT)
                elif fabric.is_global_zero:
                    # This run must not resume from an earlier run's checkpoint, and an earlier description beside new
                    # weights would make a damaged model.
                    (self.folder / CHECKPOINT).unlink(missing_ok=True)
                    if not resume:
                        (self.folder / DESCRIPTION).unlink(missing_ok=True)
                    sync_directory(self.folder)  # otherwise a power cut would restore them
                metrics_file = self.folder / METRICS_FILE if fabric.is_global_zero else None
            self.metrics = MetricsFile(metrics_file, step, config.tensorboard)
        except OSError as error:
            self.close()
            raise EigenmapError(f"cannot write to the folder {self.folder}: {error.strerror}.") from error
        except EigenmapError:
            self.close()
            raise
        self.metrics.history = fabric.broadcast(self.metrics.history)
        return step, position, seconds

    def close(self) -> None:
        """Complete the metrics and release the folder."""
        if hasattr(self, "metrics"):
            self.metrics.close()
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    def save(self, step: int, position: float, seconds: float) -> None:
        """Replace the checkpoint; it and the metrics up to it are durable when this returns."""
        learner = self.learner
        if self.folder is None or not learner.fabric.is_global_zero:
            return
        now = checkpoint.Checkpoint(
            step=step,
            seconds=seconds,
            settings=self.settings,
            network=learner.network.state_dict(),
            objective=learner.objective.state_dict(),
            optimizer=learner.optimizer.state_dict(),
            position=position,
            threads=torch.get_num_threads(),
            average={} if learner.average is None else learner.average.state,
        )
        self.metrics.sync()
        checkpoint.save(now, self.folder / CHECKPOINT)

    def _restore(self, path: Path) -> tuple[int, float, float]:
        saved = checkpoint.load(path)
        saved.require(self.settings, path)
        try:
            self.learner.network.load_state_dict(saved.network)
            self.learner.objective.load_state_dict(saved.objective)
            self.learner.optimizer.load_state_dict(saved.optimizer)
            if self.learner.average is not None:
                self.learner.average.load(saved.average)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise EigenmapError(
                f"{path} cannot be resumed: it belongs to another network, objective or optimizer."
            ) from error
        # A run that is continued with more steps follows their schedule from here on.
        longer = saved.settings.get("steps") != self.settings["steps"]
        position = saved.step if longer or saved.position is None else saved.position
        return saved.step, position, saved.seconds
