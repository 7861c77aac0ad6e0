"""The runs of the retrieval study: methods, their settings, and how a run is named.

A job is one training; all code variants (own order, aligned, PCA, random features) are measured on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eigenmap.recipes import Recipe

BATCH = 512


@dataclass(frozen=True)
class Method:
    """An objective and how it is optimised; `rates` is the grid every method of that optimiser gets, at batch 512.

    SGD clips the norm of the gradient at 1: without it every spectral objective exploded at rate 0.12 and a short
    warm-up (SCL: |psi| 19 -> 2,500 in 20 steps). LARS is as the paper has it, without clipping.
    """

    objective: str
    optimizer: str = "sgd"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rates(self) -> tuple[float, float, float]:
        return (0.12, 0.3, 0.75) if self.optimizer == "sgd" else (0.3, 0.6, 1.2)

    @property
    def clip_norm(self) -> float | None:
        return 1.0 if self.optimizer == "sgd" else None


METHODS: dict[str, Method] = {
    # Candidates for our default.
    "nested": Method("nested"),
    "gram": Method("neuralef-gram"),
    # Rivals.
    "matryoshka-scl": Method("matryoshka-scl"),
    "scl": Method("scl"),
    "paper": Method("neuralef", "lars"),
    "paper-unordered": Method("neuralef-unordered", "lars"),
    "barlow-twins": Method("barlow-twins", "lars"),
    "vicreg": Method("vicreg", "lars"),
    "simclr": Method("simclr"),
}


@dataclass(frozen=True)
class Job:
    """One training run."""

    data: str
    method: str
    rate: float
    epochs: int
    seed: int = 0
    n_components: int = 2048
    batch_size: int = BATCH

    @property
    def name(self) -> str:
        return (
            f"retrieval-{self.data}-{self.method}-lr{self.rate:g}-e{self.epochs}"
            f"-k{self.n_components}-b{self.batch_size}-s{self.seed}"
        )

    def recipe(self) -> Recipe:
        """The settings of the run: the same network, views and schedule for every method."""
        method = METHODS[self.method]
        return Recipe(
            name=self.name,
            encoder="resnet18",
            n_components=self.n_components,
            objective=method.objective,
            objective_options=method.options,
            views="cifar",
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer=method.optimizer,  # type: ignore[arg-type]
            lr=self.rate * self.batch_size / BATCH,
            weight_decay=5e-4 if method.optimizer == "sgd" else 1e-6,
            warmup=0.1,
            clip_norm=method.clip_norm,
            precision="bf16-mixed",
            channels_last=True,
            compile=True,
        )
