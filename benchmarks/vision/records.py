"""One long run of the vision study: train with checkpoints, pause when time is up, measure at the end.

    python -m benchmarks vision run --stage records --data FOLDER --results R --seconds 560

A run that would take longer pauses in time. It leaves its checkpoint in R/runs/NAME and a small one in R/NAME.carry.00,
R/NAME.carry.01 and so on. The same command continues it, from the first on the same machine, or from the others on
another (`carry.py` says what is lost). A run that is killed loses the epochs since its last checkpoint.

The result is written after the last epoch. Candidates hold out a tenth of the training images, by which the best of
them is chosen (kNN accuracy of the stored code); records hold out a fiftieth, since nothing is chosen any more. Nothing
is chosen on test images.

If the rate of the records is constant until its decay in the last fifth, a longer one is at first the same run as a
shorter one. It then continues from the last checkpoint of that one before the decay: R/runs/NAME/before-decay.pt, or
R/NAME.before-decay.carry.00 and so on, on another machine. Its seconds include what it shares.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import time as now
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import harness
from benchmarks.common.sweep import PAUSED
from benchmarks.vision import carry
from benchmarks.vision.jobs import BETWEEN, Job
from benchmarks.vision.measure import Target, Trained, accuracy, target
from benchmarks.vision.retrieval import add_job, given_job
from benchmarks.vision.transfer import aligned_code
from eigenmap.evaluation.neighbours import knn_accuracy
from eigenmap.fitting import pipeline
from eigenmap.fitting.align import align_outputs
from eigenmap.fitting.images import ImageTask
from eigenmap.fitting.options import RunOptions
from eigenmap.model import CHECKPOINT, ImageInput
from eigenmap.recipes.recipe import BaseRecipe
from eigenmap.relations.images import split_held_out
from eigenmap.training import CollapseError, DivergedError, TrainingConfig
from eigenmap.training.progress import Silent
from eigenmap.training.run import METRICS_FILE

PROTOCOL = (
    "CIFAR-10, ResNet-18, final epoch; kNN (200 neighbours) and linear probes among all training images; the code is "
    "the stored one, of both outputs; {share} of the training images are not trained on"
)
UNDECAYED = "before-decay.pt"


class PausedError(Exception):
    """Raised when time is up, just after a checkpoint."""


class Checkpoints(Silent):
    """Keeps a copy of one checkpoint, and ends a run after one of its own if the next would come too late."""

    def __init__(self, folder: Path, until: float, every: int, kept: int) -> None:
        self.folder, self.until, self.every, self.kept = folder, until, every, kept
        self.first, self.last = 0, 0.0

    def start(self, step: int, steps: int) -> None:
        self.first, self.last = step, now()

    def advance(self, step: int) -> None:
        if step == self.kept + 1 and self.kept:
            shutil.copyfile(self.folder / CHECKPOINT, self.folder / UNDECAYED)
        if step - 1 > self.first and step % self.every == 1:
            took, self.last = now() - self.last, now()
            if self.last + took > self.until:
                raise PausedError(f"paused at step {step - 1}")


@dataclass(frozen=True)
class LongRun(RunOptions):
    """Options of a run with its own distance between checkpoints, in steps."""

    every: int = 1

    def config(self, recipe: BaseRecipe, steps: int) -> TrainingConfig:
        return replace(super().config(recipe, steps), checkpoint_every=self.every)


def run(job: Job, data: Path, folder: Path, *, until: float = math.inf, compiled: bool = True) -> dict[str, Any]:
    """Train a job, or continue it from its folder, and measure it; raise `PausedError` if time is up before."""
    on = target(data, job.data)
    images, share = on.train.images, job.held_out
    recipe = job.recipe().but(compile=compiled)
    rows, held = split_held_out(len(images), fraction=share, seed=job.seed)
    image = ImageInput(recipe.image_size or images.shape[-1], images.shape[1])
    per_epoch = len(rows) // recipe.batch_size
    every = max(2, BETWEEN * per_epoch)
    checkpoints = Checkpoints(folder, until, every, job.undecayed * per_epoch)
    options = LongRun(folder, resume=True, seed=job.seed, progress=checkpoints, every=every)
    result: dict[str, Any] = {
        "benchmark": job.part,
        "protocol": PROTOCOL.format(share=f"{share:.0%}"),
        "held_out_share": share,
        "job": asdict(job),
        "recipe": asdict(recipe),
        **harness.environment(),
    }
    try:
        done = pipeline.train(ImageTask(recipe, images, rows, held, image), options)
    except (CollapseError, DivergedError) as error:
        return {**result, "collapsed": str(error)}
    result["seconds_training"] = done.result.seconds
    result["images_per_second"] = done.result.steps * recipe.batch_size / done.result.seconds
    result["history"] = [record for record in done.result.history if "effective_rank" in record]
    began = time.perf_counter()
    result |= measure(Trained(done.problem, recipe.n_components), on, held)
    return result | {"seconds_measuring": time.perf_counter() - began}


@torch.no_grad()
def measure(trained: Trained, on: Target, held: Tensor) -> dict[str, float]:
    """Measure the encoder, by kNN and linear probes, and the stored code of both outputs, by kNN."""
    known, tested = (trained.outputs(part.images) for part in (on.train, on.test))
    labels, asked = on.train.labels, on.test.labels
    result = accuracy(known["encoder"], labels, tested["encoder"], asked, held, ("ridge", "sgd"))
    staged = align_outputs(trained.evidence, ("both",), trained.n_components)["both"]
    code = aligned_code("staged", "both", staged)
    of_known, of_tested = (code(x["encoder"], x["projector"]) for x in (known, tested))
    rest = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, held.cpu(), False)
    on_device = rest.to(of_known.device)
    result["knn_code_held_out"] = knn_accuracy(of_known[~on_device], labels[~rest], of_known[on_device], labels[rest])
    result["knn_code_test"] = knn_accuracy(of_tested, asked, of_known, labels)
    return result


@dataclass(frozen=True)
class Files:
    """Checkpoints of a run: its own in a folder, and small copies that can be carried to another machine."""

    job: Job
    results: Path

    @property
    def folder(self) -> Path:
        return self.results / "runs" / self.job.name

    @property
    def carried(self) -> Path:
        return self.results / f"{self.job.name}.carry"

    @property
    def undecayed(self) -> Path:
        """Return the small copy of the last checkpoint before the decay, from which a longer run continues."""
        return self.results / f"{self.job.name}.before-decay.carry"

    @property
    def shorter(self) -> Files | None:
        shorter = self.job.shorter()
        return None if shorter is None else replace(self, job=shorter)

    def begin(self) -> None:
        """Put the checkpoint from which the run continues into its folder, if there is any."""
        if (self.folder / CHECKPOINT).is_file():
            return
        if carry.parts(self.carried):
            carry.unpack(self.carried, self.folder / CHECKPOINT)
        elif self.shorter is not None:
            self.shorter.hand_on(self.folder)

    def hand_on(self, folder: Path) -> None:
        """Put the last checkpoint before the decay into the folder of a longer run."""
        if (self.folder / UNDECAYED).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / METRICS_FILE, folder / METRICS_FILE)
            shutil.copyfile(self.folder / UNDECAYED, folder / CHECKPOINT)
        elif carry.parts(self.undecayed):
            carry.unpack(self.undecayed, folder / CHECKPOINT)

    def pack(self, *, finished: bool) -> None:
        """Make the small copies that are needed from now on, and remove the others."""
        if finished:
            carry.remove(self.carried)
        else:
            carry.pack(self.folder / CHECKPOINT, self.carried)
        if (self.folder / UNDECAYED).is_file():
            carry.pack(self.folder / UNDECAYED, self.undecayed)
        if self.shorter is not None:
            carry.remove(self.shorter.undecayed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_job(parser)
    parser.add_argument("--until", type=float, default=math.inf, help="Unix time at which to pause")
    given = parser.parse_args()
    job = given_job(given)
    if now() > given.until:
        print(f"{job.name}: not begun, time is up", flush=True)
        sys.exit(PAUSED)
    files = Files(job, given.results)
    files.begin()
    try:
        result = run(job, given.data, files.folder, until=given.until, compiled=not given.eager)
    except PausedError as pause:
        files.pack(finished=False)
        print(f"{job.name}: {pause}", flush=True)
        sys.exit(PAUSED)
    harness.write(given.results / f"{job.name}.json", result)
    files.pack(finished=True)
    kept = ("collapsed", "knn_code_held_out", "knn_code_test", "knn_test", "linear_ridge_test", "linear_sgd_test")
    print(job.name, {name: result[name] for name in kept if name in result}, flush=True)


if __name__ == "__main__":
    main()
