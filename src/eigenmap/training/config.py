"""Training configuration, validated before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from eigenmap.core.arguments import is_number, seed_number, whole_number
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Optimizer = Literal["adamw", "sgd", "lars", "lamb"]
Decay = Literal["cosine", "linear", "late"]
TrainingPrecision = Literal["32-true", "bf16-mixed"]
Accelerator = Literal["auto", "cpu", "cuda", "mps"]
Setting = str | int | float | bool | None

RESUME_ANYHOW = {"resume": "with any value"}
"""Metadata of a field that does not change what a step computes: a run may be resumed with another value. (Another
number of processes or another device changes the rounding.)"""
LATER = {"resume": "with the default if it is not set"}
"""Metadata of a setting that older checkpoints do not have; their value is the default."""


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """Settings that recipes pass unchanged to the training loop; declared only here."""

    optimizer: Optimizer = "adamw"
    lr: float = 2e-3
    weight_decay: float = 1e-2
    momentum: float = 0.9
    final_lr_fraction: float = 0.001
    clip_norm: float | None = None
    projector_lr_scale: float = 1.0
    precision: TrainingPrecision = "32-true"
    decay: Decay = field(default="cosine", metadata=LATER)
    clip_relative: float | None = field(default=None, metadata=LATER)
    weight_average: float = field(default=0.0, metadata=LATER)


@dataclass(frozen=True)
class TrainingConfig(Optimisation):
    """Training settings; the defaults are the small-CNN recipe of the catalogue demo.

    The learning rate at step s is `lr` times `optim.schedule`: linear warm-up over `warmup_steps`, then `decay` to
    `final_lr_fraction`; for the projector it is also multiplied by `projector_lr_scale`. One-dimensional parameters
    (biases, norms) have no weight decay. `momentum` applies to SGD and LARS. Gradients with a norm above `clip_norm`
    are clipped to it; 0 or None disables clipping. `clip_relative` also limits the gradient of every unit to this share
    of its weights' norm (see `clipping.py`). `weight_average` is the momentum of an average of the weights that
    replaces them after the last step (see `average.py`); 0 means none. `accumulate` divides every batch into that many
    chunks without changing the objective (see `accumulate.py`). `crops` is the number of small crops that a batch has
    beside its two views.

        TrainingConfig(steps=1000, optimizer="sgd", lr=0.3, warmup_steps=50, clip_norm=1.0)
    """

    steps: int
    warmup_steps: int = 0
    seed: int = 0
    accumulate: int = 1
    crops: int = field(default=0, metadata=LATER)
    channels_last: bool = False
    compile: bool = False
    log_every: int = field(default=50, metadata=RESUME_ANYHOW)
    check_every: int = field(default=100, metadata=RESUME_ANYHOW)
    checkpoint_every: int = field(default=500, metadata=RESUME_ANYHOW)
    tensorboard: bool = field(default=False, metadata=RESUME_ANYHOW)
    accelerator: Accelerator = field(default="auto", metadata=RESUME_ANYHOW)
    devices: int = field(default=1, metadata=RESUME_ANYHOW)
    nodes: int = field(default=1, metadata=RESUME_ANYHOW)

    def __post_init__(self) -> None:
        for name in ("steps", "accumulate", "log_every", "check_every", "checkpoint_every", "devices", "nodes"):
            whole_number(getattr(self, name), name)
        seed_number(self.seed)
        whole_number(self.crops, "crops", low=0)
        for name in ("lr", "projector_lr_scale", "weight_decay", "momentum", "final_lr_fraction", "weight_average"):
            _require(is_number(getattr(self, name)), name, getattr(self, name), "a finite number")
        for name in ("lr", "projector_lr_scale"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        _require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")
        for name, allowed in (
            ("optimizer", Optimizer),
            ("precision", TrainingPrecision),
            ("accelerator", Accelerator),
            ("decay", Decay),
        ):
            choices = get_args(allowed)
            _require(getattr(self, name) in choices, name, getattr(self, name), "one of " + ", ".join(choices))
        _require(0 <= self.momentum < 1, "momentum", self.momentum, "in [0, 1)")
        _require(0 <= self.weight_average < 1, "weight_average", self.weight_average, "in [0, 1)")
        _require(0 <= self.final_lr_fraction <= 1, "final_lr_fraction", self.final_lr_fraction, "in [0, 1]")
        _require(self.clip_norm is None or self.clip_norm >= 0, "clip_norm", self.clip_norm, "0 or more, or None")
        relative = self.clip_relative
        usable = relative is None or (is_number(relative) and relative > 0)
        _require(usable, "clip_relative", relative, "a number above 0, or None")
        _require(self.accumulate == 1 or self.crops == 0, "crops", self.crops, "0 if accumulate is above 1")
        _require(
            0 <= self.warmup_steps <= self.steps,
            "warmup_steps",
            self.warmup_steps,
            f"in 0..steps ({self.steps})",
        )

    def trajectory(self) -> dict[str, Setting]:
        """Return the settings that determine the computation: a checkpoint resumes only if they are equal."""
        return settings_to_resume(self)


def settings_to_resume(settings: DataclassInstance) -> dict[str, Any]:
    """Return the fields that must be equal to resume a run, without later ones at their default."""
    return {
        each.name: getattr(settings, each.name)
        for each in fields(settings)
        if each.metadata != RESUME_ANYHOW
        and not (each.metadata == LATER and getattr(settings, each.name) == each.default)
    }


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise EigenmapError(f"{name} must be {allowed}, not {value!r}.")
