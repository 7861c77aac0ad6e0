"""Tables 2, 3 and 4 at small scale: one run of a sweep, ResNet-18 on CIFAR-10.

    python -m benchmarks.paper.probes --data FOLDER --results FOLDER --method scl --batch-size 256 --components 2048 ...

FOLDER contains cifar10.npz. Settings are those of `eigenmap reproduce`. `--scale tiny` tries the command in seconds.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import harness
from benchmarks.common.plan import Stored
from benchmarks.paper import RESULTS, table_1
from benchmarks.vision import jobs as vision
from eigenmap.reproduce import METHODS, load_sets
from eigenmap.reproduce.ablations import ProjectorKind
from eigenmap.reproduce.methods import Scale
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.sweeps import ABLATIONS, Run, table_2_runs, table_3_runs, table_4_runs

DATA = "cifar10"
PROTOCOL = (
    "linear probe in closed form and 200 nearest neighbours on the encoder's output; all training images, all test "
    "images, final epoch; a tenth of the training images is not trained on"
)
ITEMS = {"table-4": table_4_runs, "table-2": table_2_runs, "table-3": table_3_runs}
"""Most valuable first."""
SHARED_METHODS = {"scl": "scl", "barlow-twins": "barlow-twins", "unordered": "paper-unordered"}
"""Names in the vision study."""


@dataclass(frozen=True)
class Job:
    """One run with all of its settings; equal runs of several tables are one job."""

    method: str
    batch_size: int
    n_components: int
    epochs: int
    lambda_: float | None = None
    projector: ProjectorKind = "mlp"
    seed: int = 0

    @classmethod
    def of(cls, run: Run) -> Job:
        recipe = run.recipe("small")
        return cls(
            *(run.method, recipe.batch_size, recipe.n_components, round(recipe.epochs), run.lambda_, run.projector)
        )

    @property
    def name(self) -> str:
        strength = "" if self.lambda_ is None else f"-l{self.lambda_:g}"
        kind = "" if self.projector == "mlp" else f"-{self.projector}"
        return (
            f"probe-{DATA}-{self.method}{strength}{kind}-b{self.batch_size}-k{self.n_components}-e{self.epochs}"
            f"-s{self.seed}"
        )

    @property
    def others(self) -> list[str]:
        """Names of results with equal settings in the vision study and in table 1."""
        usual = self.lambda_ in (None, 0.0051) and self.projector == "mlp"
        names = []
        if usual and self.method in SHARED_METHODS:
            method, rate = SHARED_METHODS[self.method], METHODS[self.method].lr
            names.append(
                vision.Job(DATA, method, rate, self.epochs, self.seed, self.n_components, self.batch_size).name
            )
        if usual and self.method in table_1.METHODS and self.batch_size == vision.BATCH:
            names.append(table_1.Job(self.method, self.seed, self.epochs).name)
        return names

    @property
    def run(self) -> Run:
        """Return it as a run of a sweep."""
        wide = None if self.method == "simsiam" or self.epochs >= 50 else self.n_components
        return Run(self.method, self.batch_size, wide, self.epochs, self.lambda_, self.projector)

    def words(self) -> tuple[str, ...]:
        """Return the options that describe it."""
        values: dict[str, object] = {
            "method": self.method,
            "batch-size": self.batch_size,
            "components": self.n_components,
            "epochs": self.epochs,
            "projector": self.projector,
            "seed": self.seed,
        }
        values |= {} if self.lambda_ is None else {"lambda": self.lambda_}
        return tuple(word for name, value in values.items() for word in (f"--{name}", str(value)))


def every() -> dict[Job, str]:
    """Return all runs, each with the first table that needs it."""
    found: dict[Job, str] = {}
    for item, runs in ITEMS.items():
        for run in runs("small"):
            found.setdefault(Job.of(run), item)
    return found


def stored_result(job: Job, stored: Stored) -> dict[str, Any] | None:
    """The result of a run, of this study or of another with equal settings."""
    return next((found for name in (job.name, *job.others) if (found := stored.read(name)) is not None), None)


def run(job: Job, data: Path, scale: Scale = "small") -> dict[str, Any]:
    """Train and measure; the tiny scale uses its own settings, to try the command."""
    sets = load_sets(scale, data)
    sweep = job.run if scale == "small" else Run(job.method, lambda_=job.lambda_, projector=job.projector)
    recipe = sweep.recipe(scale)
    probe = Runs(sets, job.seed).probe(recipe, job.projector)
    result: dict[str, Any] = {
        "benchmark": "probe",
        "protocol": PROTOCOL,
        "job": asdict(job),
        "scale": scale,
        "recipe": asdict(recipe),
        **harness.environment(),
        "seconds_training": probe["seconds"],
    }
    if probe["collapsed"] is not None:
        return {**result, "collapsed": probe["collapsed"]}
    return result | {
        "linear_ridge_test": probe["linear"],
        "knn_test": probe["knn"],
        "knn_held_out": probe["knn_held_out"],
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cifar10.npz")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--components", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--lambda", dest="lambda_", type=float)
    parser.add_argument("--projector", choices=("mlp", *ABLATIONS), default="mlp")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", choices=("small", "tiny"), default="small")
    given = parser.parse_args(words)
    job = Job(
        *(given.method, given.batch_size, given.components, given.epochs, given.lambda_, given.projector, given.seed)
    )
    result = run(job, given.data, given.scale)
    harness.write(given.results / f"{job.name}.json", result)
    print(job.name, {name: result.get(name) for name in ("knn_held_out", "linear_ridge_test", "collapsed")})


if __name__ == "__main__":
    main()
