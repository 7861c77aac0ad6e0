"""Table 1 at small scale: eight methods, ResNet-18, CIFAR-10, 50 epochs, in one loop.

    python -m benchmarks.paper.table_1 --data FOLDER --method byol --seed 0 --results FOLDER

FOLDER contains cifar10.npz (see `benchmarks/vision/sets.py`). Encoder, views, batch and schedule are the same for every
method; projector, temperature and momentum are the customary ones. A tenth of the training images is held out. The
encoder's output is measured at the final epoch, by a linear probe in closed form and by nearest neighbours.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import harness
from benchmarks.paper import RESULTS
from benchmarks.vision import jobs as vision
from benchmarks.vision.measure import Trained, measure_accuracy, target
from eigenmap.fitting import pipeline
from eigenmap.fitting.images import ImageTask
from eigenmap.fitting.options import RunOptions
from eigenmap.model import ImageInput
from eigenmap.recipes import Recipe
from eigenmap.relations.images import split_held_out
from eigenmap.training import CollapseError, DivergedError
from eigenmap.training.progress import Silent

DATA, EPOCHS, RATE = "cifar10", 50, 0.3
PROTOCOL = (
    "linear probe in closed form and 200 nearest neighbours on the encoder's output; all training images, all test "
    "images, final epoch; a tenth of the training images is not trained on"
)


@dataclass(frozen=True)
class Method:
    """An objective with its customary projector, 2,048 hidden units and `n_components` outputs.

    It is optimised by SGD at rate 0.3, the middle of the grid of the vision study.
    """

    objective: str
    n_components: int
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1, 2)
    cost: float = 1.0
    """Cost of a step relative to a step of SCL: a teacher also sees every view."""


METHODS: dict[str, Method] = {
    "swav": Method("swav", 128, {"prototypes": 512}),
    "moco": Method("moco", 128, {"temperature": 0.1, "momentum": 0.99, "queue": 4096}, cost=1.6),
    "byol": Method("byol", 256, {"momentum": 0.99, "hidden": 1024}, cost=1.4),
    "simsiam": Method("simsiam", 2048, seeds=(0,)),
}
"""Methods that this study trains itself."""

SHARED: dict[str, tuple[vision.Job, ...]] = {
    "simclr": tuple(vision.Job(DATA, "simclr", 0.75, EPOCHS, seed) for seed in (0, 1, 2)),
    "scl": tuple(vision.Job(DATA, "scl", 0.75, EPOCHS, seed) for seed in (0, 1, 2)),
    "barlow-twins": (vision.Job(DATA, "barlow-twins", 0.75, EPOCHS),),
    "paper": tuple(vision.Job(DATA, "paper", 0.6, EPOCHS, seed) for seed in (0, 1, 2)),
    "paper-unordered": (vision.Job(DATA, "paper-unordered", 0.3, EPOCHS),),
}
"""Methods whose runs come from the vision study, at the rates chosen there, with otherwise equal settings."""


@dataclass(frozen=True)
class Job:
    """One training run of this study."""

    method: str
    seed: int = 0
    epochs: int = EPOCHS

    @property
    def name(self) -> str:
        return f"table-1-{DATA}-{self.method}-lr{RATE:g}-e{self.epochs}-s{self.seed}"

    def recipe(self) -> Recipe:
        """Return the recipe of the vision study with another objective and projector."""
        method = METHODS[self.method]
        return (
            vision.Job(DATA, "scl", RATE, self.epochs, self.seed)
            .recipe()
            .named(self.name)
            .but(
                objective=method.objective,
                objective_options=dict(method.options),
                n_components=method.n_components,
                hidden=2048,
            )
        )


def every() -> list[Job]:
    """All runs, one seed of each method first."""
    return sorted((Job(name, seed) for name, method in METHODS.items() for seed in method.seeds), key=lambda j: j.seed)


class Checks(Silent):
    """Collects the results of every check on held-out pairs."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def report(self, record: Any, check: bool) -> None:
        self.records += [record] if check else []


def run(job: Job, data: Path, compiled: bool = True) -> dict[str, Any]:
    """Train and measure."""
    on = target(data, DATA)
    images = on.train.images
    recipe = job.recipe().but(compile=compiled)
    rows, held = split_held_out(len(images), fraction=0.1, seed=job.seed)
    result: dict[str, Any] = {
        "benchmark": "table-1",
        "protocol": PROTOCOL,
        "job": asdict(job),
        "recipe": asdict(recipe),
        **harness.environment(),
    }
    checks = Checks()
    task = ImageTask(recipe, images, rows, held, ImageInput(images.shape[-1], images.shape[1]))
    try:
        done = pipeline.train(task, RunOptions(seed=job.seed, progress=checks))
    except (CollapseError, DivergedError) as error:
        return {**result, "collapsed": str(error), "history": checks.records}
    found = measure_accuracy(Trained(done.problem, recipe.n_components), on, held)
    return result | {
        "seconds_training": done.result.seconds,
        "images_per_second": done.result.steps * recipe.batch_size / done.result.seconds,
        "peak_gpu_gib": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
        "history": checks.records,
        **found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cifar10.npz")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--eager", action="store_true", help="do not compile the network")
    given = parser.parse_args()
    job = Job(given.method, given.seed, given.epochs)
    result = run(job, given.data, compiled=not given.eager)
    harness.write(given.results / f"{job.name}.json", result)
    print(job.name, {name: result.get(name) for name in ("knn_held_out", "knn_test", "linear_ridge_test", "collapsed")})


if __name__ == "__main__":
    main()
