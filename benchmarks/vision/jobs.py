"""Runs of the vision study: methods, settings and names of runs.

A job is one training; all code variants (own order, aligned, PCA, random features) are measured on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from benchmarks.vision.sets import SETS, DataSet
from eigenmap import recipes
from eigenmap.recipes import Recipe
from eigenmap.training.optim import LATE

BATCH = 512

Part = Literal["retrieval", "robustness", "accuracy", "candidates", "records"]
"""Purpose of a job: codes at every length, only whether it trains, or the best classifier.

The last is that of 200 epochs (accuracy), of settings tried alone (candidates), and of the best of these (records).
"""
LONG: tuple[Part, ...] = ("candidates", "records")
"""Parts whose runs keep checkpoints and can be paused (`records.py`)."""
RECORD_EPOCHS = (200, 800, 1000)
HELD_OUT: Mapping[str, float] = {"accuracy": 0.02, "records": 0.02}
"""Share of the training images that are held out, for the alignment alone; a tenth where something is chosen."""
WARM_UP, BETWEEN = 10, 10
"""Epochs of the warm-up of a record whose rate is then constant; epochs between two checkpoints of a long run."""


@dataclass(frozen=True)
class Method:
    """An objective and its optimisation; `rates` are the optimiser's grid, at batch 512, and further rates.

    SGD clips the norm of the gradient at 1: without clipping, every spectral objective diverged at rate 0.12 with a
    short warm-up (SCL: |psi| 19 -> 2,500 in 20 steps). LARS is used as in the paper, without clipping.
    """

    objective: str
    optimizer: Literal["sgd", "lars", "lamb"] = "sgd"
    options: Mapping[str, Any] = field(default_factory=dict)
    views: str | None = None
    """Views instead of those of the set."""
    projector_lr_scale: float = 1.0
    words: str = "the default"
    """Description of the difference, for settings of the default."""

    beyond: tuple[float, ...] = ()
    """Rates outside the grid, if the best one is known to be at its edge."""
    grid_scale: float = 1.0
    """Factor of the grid, for a loss of another size."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the recipe."""
    cost: float = 1.0
    """Duration of a step in units of the default's; an estimate."""

    @property
    def grid(self) -> tuple[float, ...]:
        usual = {"sgd": (0.12, 0.3, 0.75), "lars": (0.3, 0.6, 1.2), "lamb": (0.0025, 0.005, 0.01)}[self.optimizer]
        return tuple(round(self.grid_scale * rate, 6) for rate in usual)

    @property
    def rates(self) -> tuple[float, ...]:
        return tuple(sorted((*self.grid, *self.beyond)))

    @property
    def clip_norm(self) -> float | None:
        return 1.0 if self.optimizer == "sgd" else None

    @property
    def weight_decay(self) -> float:
        return {"sgd": 5e-4, "lars": 1e-6, "lamb": 1e-2}[self.optimizer]


PUBLISHED = {"alpha": "paper", "scale": 20.0}
"""Options of the paper's objective, as in the recipes `imagenet-resnet50-*`: `scale` 20 is that of the authors' loss.

LARS adapts weight matrices to the size of their gradients, but neither biases nor BatchNorm's parameters: at `scale` 1
those would move 20 times less.
"""

METHODS: dict[str, Method] = {
    "scl": Method("scl"),  # the default, once aligned; a rival with PCA or random features
    "nested": Method("nested"),
    "gram": Method("neuralef-gram"),
    "matryoshka-scl": Method("matryoshka-scl", cost=1.3),
    "paper": Method("neuralef", "lars", PUBLISHED, beyond=(2.4, 4.8), cost=1.4),
    "paper-unordered": Method("neuralef-unordered", "lars", PUBLISHED, beyond=(0.075, 0.15, 2.4, 4.8)),
    # lambda as usual on CIFAR-10 at 2,048 features; with that of the paper's baseline, the loss stayed at its value for
    # views with nothing in common, in a trial on a CPU that left no result file.
    "barlow-twins": Method("barlow-twins", options={"lambda_": 0.0051}),
    "vicreg": Method("vicreg"),
    "simclr": Method("simclr"),
    # The other optimiser, for the robustness part. At 0.6 the loss of SCL was still falling (-10.1; SGD -11.9).
    "scl-lars": Method("scl", "lars", beyond=(2.4, 4.8)),
    "gram-lars": Method("neuralef-gram", "lars"),
    # A twentieth of the usual rates for 20 times the loss, and two of the usual ones: where the gradient is clipped,
    # its size does not matter.
    "paper-sgd": Method("neuralef", options=PUBLISHED, grid_scale=1 / 20, beyond=(0.12, 0.3)),
    # Other settings of the default, for the search behind the accuracy part.
    "scl-wide": Method("scl", views="cifar-wide", words="crops of a fifth of the image and more"),
    "scl-scale5": Method("scl", options={"scale": 5.0}, words="SCL's scale 5"),
    "scl-scale20": Method("scl", options={"scale": 20.0}, words="SCL's scale 20"),
    "scl-slow-projector": Method("scl", projector_lr_scale=0.3, words="0.3 times the rate for the projector"),
    "scl-fast-projector": Method("scl", projector_lr_scale=3.0, words="3 times the rate for the projector"),
    # Remedies for large batches, each alone. With a warm-up of 0.4, batch 2,048 has that of batch 512 in steps.
    "scl-warm": Method("scl", settings={"warmup": 0.4}, words="SGD, four tenths of the steps as warm-up"),
    "scl-relative": Method(
        "scl", settings={"clip_relative": 0.02, "clip_norm": 0.0}, words="SGD, clipping relative to the weights"
    ),
    "scl-lamb": Method("scl", "lamb", words="LAMB"),
    "scl-lars-warm": Method("scl", "lars", settings={"warmup": 0.4}, words="LARS, four tenths of the steps as warm-up"),
    "scl-average": Method("scl", settings={"weight_average": 0.98}, words="SGD, averaged weights"),
    # Candidates for records on CIFAR-10, each alone: "scl-wide" and one change.
    "scl-wide-taught": Method("scl-taught", views="cifar-wide", words="a momentum teacher for SCL", cost=1.5),
    "scl-wide-crops": Method("scl", views="cifar-wide", settings={"crops": 4}, words="four small crops", cost=2.6),
    "scl-wide-linear": Method("scl", views="cifar-wide", settings={"decay": "linear"}, words="linear decay"),
    "scl-wide-late": Method(
        "scl", views="cifar-wide", settings={"decay": "late"}, words="a constant rate, linear decay in the last fifth"
    ),
    "scl-wide-average": Method("scl", views="cifar-wide", settings={"weight_average": 0.999}, words="averaged weights"),
    "scl-wide-deep": Method(
        "scl", views="cifar-wide", settings={"projector_layers": 3}, words="a projector of three layers", cost=1.1
    ),
    "scl-cifar-simclr": Method("scl", views="cifar-simclr", words="SimCLR's views for CIFAR-10"),
    # The other leading rows with the crops of "scl-wide".
    "matryoshka-scl-wide": Method("matryoshka-scl", views="cifar-wide", cost=1.3),
    "paper-wide": Method("neuralef", "lars", PUBLISHED, views="cifar-wide", beyond=(2.4, 4.8), cost=1.4),
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
    part: Part = "retrieval"

    @property
    def name(self) -> str:
        """Name of the result; if it changes, every finished run counts as missing."""
        return (
            f"{self.part}-{self.data}-{self.method}-lr{self.rate:g}-e{self.epochs}"
            f"-k{self.n_components}-b{self.batch_size}-s{self.seed}"
        )

    @property
    def held_out(self) -> float:
        """Share of the training images that are held out."""
        return HELD_OUT.get(self.part, 0.1)

    @property
    def set(self) -> DataSet:
        return SETS[self.data]

    def recipe(self) -> Recipe:
        """Return the recipe of the run: the same network, views and schedule for every method on a set."""
        method = METHODS[self.method]
        like = recipes.get(self.set.recipe)
        return Recipe(
            name=self.method if self.constant else self.name,  # a run continues only one of the same recipe
            encoder=like.encoder,
            stem=like.stem,
            image_size=like.image_size,
            n_components=self.n_components,
            objective=method.objective,
            objective_options=method.options,
            views=method.views or self.set.views,
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer=method.optimizer,
            lr=self.rate * self.batch_size / BATCH,
            weight_decay=method.weight_decay,
            warmup=0.1,
            clip_norm=method.clip_norm,
            projector_lr_scale=method.projector_lr_scale,
            precision="bf16-mixed",
            channels_last=True,
            compile=True,
        ).but(**method.settings, **({"warmup": WARM_UP / self.epochs} if self.constant else {}))

    @property
    def constant(self) -> bool:
        """Whether the run is a record whose rate is constant at first: records of all lengths share that part."""
        return self.part == "records" and METHODS[self.method].settings.get("decay") == "late"

    @property
    def undecayed(self) -> int:
        """Epochs up to the last checkpoint before the rate falls; 0 if it is not constant before."""
        if not self.constant:
            return 0
        before = WARM_UP + LATE * (self.epochs - WARM_UP)
        return int(before) // BETWEEN * BETWEEN

    def shorter(self) -> Job | None:
        """Return the longest shorter record, which this one continues from where the rate was still constant."""
        lengths = [epochs for epochs in RECORD_EPOCHS if epochs < self.epochs and self.constant]
        return replace(self, epochs=max(lengths)) if lengths else None
