"""Training: the loop, its optimizers, checkpoints, metrics and health checks."""

from eigenmap.training.config import TrainingConfig
from eigenmap.training.health import CollapseError, DivergedError
from eigenmap.training.launch import start
from eigenmap.training.loop import TrainingResult, train
from eigenmap.training.progress import progress_display
from eigenmap.training.time_budget import budget_in_words, measure_step, steps_for_budget

__all__ = [
    "CollapseError",
    "DivergedError",
    "TrainingConfig",
    "TrainingResult",
    "budget_in_words",
    "measure_step",
    "progress_display",
    "start",
    "steps_for_budget",
    "train",
]
