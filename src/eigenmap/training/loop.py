r"""Training loop.

    for step in range(steps):
        x, x_plus, kernel = relation.batch(step)
        psi, psi_plus = network([x; x_plus])              # one pass over both views, so that BatchNorm sees both
        objective(psi, psi_plus, kernel).backward()
        clip the gradient, set the rate, take the step

The rest of this file is bookkeeping: metrics, checks on held-out pairs, checkpoints.

Some objectives have state of their own: a predictor, prototypes, a queue, a teacher that follows the network slowly.
This state is trained by the same optimizer and stored in the same checkpoint.

A step is a function only of the weights, the states of optimizer and objective, the step's number and its position in
the schedule. The number determines the batch and seeds the random numbers inside the network (dropout). A killed run
therefore continues from its last checkpoint as if nothing had happened, bit for bit on a CPU, and health checks change
nothing. Only a run with a deadline takes its positions from the clock (`pace.py`), so it cannot be repeated exactly.

With several processes, each has a part of the batch. Objectives are functions of the *whole* batch, and the processes
average its gradients. On GPUs, BatchNorm uses the whole batch too; on CPUs, where torch has no such layer, each process
normalises its own part.

On a GPU, the host never waits for the device inside a step: losses accumulate there and are read when metrics are
written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor, nn

from eigenmap.core.batch import Batch
from eigenmap.core.devices import has_float64, moved, where_precise
from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import LearningObjective, TaughtObjective
from eigenmap.objectives.moments import average
from eigenmap.training import health
from eigenmap.training.accumulate import backward_in_chunks
from eigenmap.training.average import WeightAverage
from eigenmap.training.clipping import clip_relative_
from eigenmap.training.config import Setting, TrainingConfig
from eigenmap.training.launch import fast_arithmetic, lost_process_named, start
from eigenmap.training.metrics import Record, Window, finite
from eigenmap.training.optim import build_optimizer, schedule, set_rates
from eigenmap.training.pace import Pace
from eigenmap.training.progress import Progress, Silent
from eigenmap.training.run import Run
from eigenmap.training.teacher import Teacher

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Monitor = Callable[[nn.Module, int], Mapping[str, float]]
"""(network in evaluation mode, step) -> named values for the metrics file; called at each check."""


class Relation(Protocol):
    """Source of batches: `batch(step)` always returns the same batch for a step, on the right device."""

    def batch(self, step: int) -> Batch:
        """Return this process's part of a step's batch."""


def small_crops(relation: Relation, config: TrainingConfig, step: int) -> Tensor | None:
    """Return the small crops of a step's batch, if the configuration asks for them."""
    if config.crops == 0:
        return None
    crops = getattr(relation, "crops", None)
    if crops is None:
        raise EigenmapError(f"crops is {config.crops}, but {type(relation).__name__} has no small crops; use 0.")
    made: Tensor = crops(step)
    return made


@dataclass(frozen=True)
class TrainingResult:
    """Result of a run: number of steps, seconds (including all resumed parts) and every line of metrics."""

    steps: int
    seconds: float
    history: list[Record]


class Learner:
    """Network, objective and optimizer on their device: everything that a step changes."""

    def __init__(self, fabric: Fabric, network: nn.Module, objective: nn.Module, config: TrainingConfig) -> None:
        if fabric.world_size > 1 and fabric.device.type == "cuda":
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
        if config.channels_last:
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.fabric, self.config = fabric, config
        self.network = network.train()
        # A single process with undivided batches can replay the network as a CUDA graph: two launches per step.
        alone = config.compile and config.accumulate == 1 and _alone_on_gpu(fabric)
        self.graphs = alone and config.crops == 0
        mode = "reduce-overhead" if self.graphs else "default"
        # `module` is the same network as run by Fabric: compiled, in mixed precision, distributed.
        # Small crops have another size than views: each gets code of its own, which is faster than code for any size.
        runner = cast(nn.Module, torch.compile(network, mode=mode, dynamic=False)) if config.compile else network
        if isinstance(objective, LearningObjective):
            if config.crops:
                raise EigenmapError(
                    f"crops is {config.crops}, but {type(objective).__name__} has state of its own for two views; "
                    "use 0, or another objective."
                )
            _begin(objective, network, config.seed)
        objective = objective.to(fabric.device)
        self.learned = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        # Fusing the objective's dozens of small operations keeps the host faster than the device.
        fuse = alone and getattr(objective, "fusible", False)
        self.objective = cast(nn.Module, torch.compile(objective, dynamic=False)) if fuse else objective
        self.module, self.optimizer = fabric.setup(runner, build_optimizer(network, config, objective))
        if isinstance(objective, TaughtObjective):  # only now do all processes have the same weights
            objective.teacher = Teacher(network, objective.groups)
        self.average = WeightAverage(network, config.weight_average) if config.weight_average else None

    def step(
        self, step: int, batch: Batch, position: float | None = None, crops: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Take one step at a position in the schedule (default: `step`); loss and gradient norm stay on the device.

        `crops` (n, B, ...) are further, smaller inputs; row b of each is related to row b of both views.
        """
        config = self.config
        batch = self._placed(batch)
        position = step if position is None else position
        self.optimizer.zero_grad()
        if config.accumulate == 1:
            psi, psi_plus = self.codes(step, batch.x, batch.x_plus)
            loss = self.loss(step, psi, psi_plus, batch)
            if crops is not None:
                loss = self._with_crops(step, loss, (psi, psi_plus), crops)
            self.fabric.backward(loss)
        else:
            loss = backward_in_chunks(self, step, batch, config.accumulate)
        for parameter in self.learned:  # the network's gradients are already averaged
            if parameter.grad is not None:
                parameter.grad = average(parameter.grad)
        trained = [*self.network.parameters(), *self.learned]
        if config.clip_relative is not None:
            clip_relative_(trained, config.clip_relative)
        norm = nn.utils.clip_grad_norm_(trained, config.clip_norm or float("inf"))  # infinity only measures
        lengths = config.steps, config.warmup_steps
        set_rates(self.optimizer, schedule(position, *lengths, config.final_lr_fraction, config.decay))
        self.optimizer.step()
        self._follow(position)
        if self.average is not None:
            self.average.follow(self.network, step)
        return loss.detach(), norm

    def _placed(self, batch: Batch) -> Batch:
        """Move a batch to a device that has no float64: it was made on the CPU (see `launch.data_place`)."""
        device = self.fabric.device
        if has_float64(device):
            return batch
        kernel = None if batch.kernel is None else moved(batch.kernel, device)
        return Batch(moved(batch.x, device), moved(batch.x_plus, device), kernel)

    def _follow(self, position: float) -> None:
        """Update the objective's state after a step, and move its teacher towards the network."""
        objective = self.objective
        if isinstance(objective, LearningObjective):
            objective.after_step()
        if isinstance(objective, TaughtObjective) and isinstance(objective.teacher, Teacher):
            objective.teacher.follow(self.network, objective.momentum(min(1.0, (position + 1) / self.config.steps)))

    def codes(self, step: int, x: Tensor, x_plus: Tensor, chunk: int = 0) -> tuple[Tensor, Tensor]:
        """Return codes of both views from one forward pass, with the random numbers of this step, chunk and process."""
        self._seed_pass(step, chunk)
        views = self._joined(x, x_plus)
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        _, psi = self.module(views)
        return psi[: len(x)], psi[len(x) :]

    def _with_crops(self, step: int, loss: Tensor, views: tuple[Tensor, Tensor], crops: Tensor) -> Tensor:
        """Return the mean loss over the two views and over each small crop paired with each of the views."""
        self._seed_pass(step, chunk=1)
        _, psi = self.module(self._laid_out(crops.flatten(0, 1)))
        losses = [self.objective(crop, view) for crop in psi.chunk(len(crops)) for view in views]
        return torch.stack([loss, *losses]).mean()

    def loss(self, step: int, psi: Tensor, psi_plus: Tensor, batch: Batch) -> Tensor:
        """Return the loss; its random numbers are the same on all processes and for all chunks."""
        teacher = getattr(self.objective, "teacher", None)
        targets = () if teacher is None else (self._targets(step, teacher, batch),)
        self._seed(step, 0)
        loss: Tensor = self.objective(psi, psi_plus, batch.kernel, *targets)
        return loss

    def _targets(self, step: int, teacher: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the teacher's codes of both views, with the same dropout and chunks as for the network."""
        chunks = self.config.accumulate
        codes = []
        for chunk, views in enumerate(
            zip(batch.x.tensor_split(chunks), batch.x_plus.tensor_split(chunks), strict=True)
        ):
            self._seed_pass(step, chunk)
            joined = self._joined(*views)
            with self.fabric.autocast():
                psi: Tensor = teacher(joined, torch.randperm(len(joined)))
            codes.append(psi.tensor_split([len(views[0])]))
        first, second = (torch.cat(side) for side in zip(*codes, strict=True))
        return first, second

    def _joined(self, x: Tensor, x_plus: Tensor) -> Tensor:
        return self._laid_out(torch.cat([x, x_plus]))

    def _laid_out(self, views: Tensor) -> Tensor:
        if self.config.channels_last and views.ndim == 4:
            views = views.contiguous(memory_format=torch.channels_last)
        return views

    def _seed_pass(self, step: int, chunk: int) -> None:
        """Seed a forward pass with random numbers of its own for every step, chunk and process."""
        self._seed(step, 1 + chunk * self.fabric.world_size + self.fabric.global_rank)

    def _seed(self, step: int, stream: int) -> None:
        seed = self.config.seed
        for number in (step, stream):
            seed = (seed * 0x9E3779B97F4A7C15 + number) % 2**63
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type == "cuda":
            torch.cuda.manual_seed(seed)


def _begin(objective: LearningObjective, network: nn.Module, seed: int) -> None:
    k = getattr(network, "n_components", None)
    if not isinstance(k, int):
        raise EigenmapError(
            f"{type(objective).__name__} needs the length of codes: give the network an attribute n_components."
        )
    objective.begin(k, seed)


def _alone_on_gpu(fabric: Fabric) -> bool:
    return fabric.device.type == "cuda" and fabric.world_size == 1


def train(
    network: nn.Module,
    relation: Relation,
    objective: nn.Module,
    config: TrainingConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    held_out: health.HeldOutPairs | None = None,
    monitor: Monitor | None = None,
    progress: Progress | None = None,
    settings: Mapping[str, Setting] | None = None,
    fabric: Fabric | None = None,
    deadline: float | None = None,
    most_steps: int | None = None,
) -> TrainingResult:
    """Train `network` in place and leave it in evaluation mode, on the device it was trained on.

        network = Network(build_encoder("small-cnn", channels=1), n_components=128)
        train(network, relation, build("nested"), TrainingConfig(steps=1000), out="runs/mine")

    - `network`: x -> (features, psi); `objective`: (psi, psi_plus, kernel) -> loss.
    - `out`: folder for `checkpoint.pt` and `metrics.jsonl`; without it nothing is written.
    - `resume`: continue from the checkpoint in `out`, or from the beginning if there is none yet.
    - `held_out`: pairs that are not trained on, for the check that stops a run whose features collapse.
    - `monitor`: measures further values at each check.
    - `settings`: further settings that must be equal when the run is resumed (objective, batch size, data ...).
    - `fabric`: result of `launch.start(config)`, for a relation that needs its device and its part of the batch.
    - `deadline`: time limit in seconds for the whole run, including resumed parts; the learning-rate schedule is
      stretched or shortened to end there (see `pace.py`).
    - `most_steps`: number of steps of the whole run after which it ends even before the deadline.
    """
    fabric = fabric or start(config)
    learner = Learner(fabric, network, objective, config)
    run = Run(out, learner, settings={**config.trajectory(), **(settings or {})})
    step, position, seconds = run.begin(resume)
    show = progress if progress is not None and fabric.is_global_zero else Silent()
    window = Window(seconds)
    pace = Pace(config.steps, position, deadline, seconds, math.inf if most_steps is None else most_steps - step)
    alone = fabric.world_size == 1
    with (
        closing(run),
        _shown(show, step, step + pace.left),
        lost_process_named(fabric.world_size),
        fast_arithmetic(fabric.device),
    ):
        while not pace.ended:
            batch = relation.batch(step)
            loss, norm = learner.step(step, batch, pace.position, small_crops(relation, config, step))
            window.add(loss, norm, images=len(batch.x) * fabric.world_size)
            step += 1
            pace.advance(window.seconds(), replan=alone)
            show.advance(step)
            check, checkpoint = pace.reaches(config.check_every), pace.reaches(config.checkpoint_every)
            if check or checkpoint or pace.reaches(config.log_every):
                record = window.read(step, rate=learner.optimizer.param_groups[0]["lr"])
                health.require_finite(record, config)
                if check:
                    record.update(check_health(learner, held_out, monitor, step))
                run.metrics.write(record)
                if deadline is not None:
                    _replan(show, step + pace.left)
                show.report(record, check)
                health.require_features(run.metrics.history, config)
                if checkpoint:
                    run.save(step, pace.position, seconds=record["seconds"])
                pace.paused(window.seconds())
                if deadline is not None and not alone and not pace.ended:
                    # Clocks differ, but all processes must take the same steps: those that the first one plans.
                    pace.replan(window.seconds())
                    pace.left = fabric.broadcast(pace.left)
                window.clear()
    if learner.average is not None:
        learner.average.copy_to(network)
    if fabric.world_size > 1:
        for buffer in network.buffers():  # running averages: on CPUs each process has its own; use the first one's
            torch.distributed.broadcast(buffer, 0)
    network.eval()
    return TrainingResult(step, window.seconds(), run.metrics.history)


@contextmanager
def _shown(show: Progress, step: int, steps: int) -> Iterator[None]:
    """Show the progress of a run from a step on, for as long as the context lasts."""
    show.start(step, steps)
    try:
        yield
    finally:
        show.stop()


def _replan(show: Progress, steps: int) -> None:
    """Correct the displayed number of steps, if the display supports it."""
    replan = getattr(show, "replan", None)
    if replan is not None:
        replan(steps)


@torch.no_grad()
def check_health(learner: Learner, held_out: health.HeldOutPairs | None, monitor: Monitor | None, step: int) -> Record:
    """Evaluate the network in evaluation mode; measured by the first process and broadcast to all."""
    network, values = learner.network, Record()
    if learner.fabric.is_global_zero:
        network.eval()
        with where_precise(network, learner.fabric.device):
            if held_out is not None:
                values.update(asdict(health.measure(network, held_out)))  # type: ignore[typeddict-item]
            if monitor is not None:
                values["monitor"] = finite(monitor(network, step))
        network.train()
    return learner.fabric.broadcast(values)
