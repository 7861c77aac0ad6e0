"""Training runs of the paper's items, with their probes; runs with equal settings are shared.

runs = Runs(sets, folder=Path("runs"))
runs.probe(recipe_of("scl", "small"))["linear"]
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypedDict

import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write, make_folder, write_json
from eigenmap.core.processes import is_first_process
from eigenmap.data import ImageSet
from eigenmap.evaluation.classes import evaluate_classes
from eigenmap.evaluation.neighbours import knn_accuracy
from eigenmap.fitting import pipeline
from eigenmap.fitting.images import ImageTask, fit_images
from eigenmap.fitting.options import RunOptions
from eigenmap.model import CHECKPOINT, DESCRIPTION, Eigenmap
from eigenmap.networks import build_encoder, load_encoder_weights, load_state
from eigenmap.recipes import Recipe
from eigenmap.reproduce.ablations import ProjectorKind, image_task
from eigenmap.reproduce.encoding import network_outputs
from eigenmap.reproduce.sets import Sets
from eigenmap.training import CollapseError, DivergedError
from eigenmap.training.config import Accelerator
from eigenmap.training.threads import restored_threads

PROBE, ENCODER = "probe.json", "encoder.safetensors"


class Probe(TypedDict):
    """Accuracy of a trained encoder on the test images; None if training collapsed, as `collapsed` describes."""

    linear: float | None
    knn: float | None
    knn_held_out: float | None
    seconds: float
    collapsed: str | None


@dataclass
class Runs:
    """Runs on one set of images.

    Attributes:
        sets: images to learn from and to test on.
        seed: seed of everything random.
        device: "auto", "cpu" or "cuda"; `devices` of them on each of `nodes` machines.
        folder: folder of stored runs: a finished one is not repeated, an interrupted one continues.
        say: called with messages.

    """

    sets: Sets
    seed: int = 0
    device: Accelerator = "auto"
    devices: int = 1
    nodes: int = 1
    folder: Path | None = None
    say: Callable[[str], None] = lambda line: None
    _probes: dict[str, Probe] = field(default_factory=dict)

    def name(self, recipe: Recipe, projector: ProjectorKind = "mlp") -> str:
        """Return the run's name, which depends only on its settings, not on the recipe's name."""
        settings = {**asdict(recipe), "name": "", "compile": ""}
        content = json.dumps([settings, projector, self.seed, self.sets.train.digest()], sort_keys=True, default=str)
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        kind = "" if projector == "mlp" else f"-{projector}"
        return (
            f"{recipe.objective}{kind}-k{recipe.n_components}-b{recipe.batch_size}-e{recipe.epochs:g}"
            f"-s{self.seed}-{digest}"
        )

    def probe(self, recipe: Recipe, projector: ProjectorKind = "mlp") -> Probe:
        """Train, and classify the test images by the encoder's output, with closed-form ridge and 200 neighbours."""
        name = self.name(recipe, projector)
        folder = None if self.folder is None else self.folder / f"probe-{name}"
        if name not in self._probes:
            found = None if folder is None else read_probe(folder / PROBE)
            self._probes[name] = found or self._trained_and_probed(recipe, projector, folder)
        return self._probes[name]

    def encoder(self, recipe: Recipe) -> nn.Module:
        """Return the trained encoder of a recipe, on the CPU."""
        if self.folder is not None:
            probe = self.probe(recipe)
            if probe["collapsed"] is not None:
                raise EigenmapError(f"{recipe.objective} cannot be transferred: {probe['collapsed']}")
        encoder = build_encoder(recipe.encoder, self.sets.train.channels, self.sets.train.size, recipe.stem)
        if self.folder is not None:
            load_encoder_weights(encoder, self.folder / f"probe-{self.name(recipe)}" / ENCODER)
            return encoder
        task = image_task(recipe, self.sets.train, self.seed)
        done = self._train(task, None)
        load_state(encoder, {name: tensor.cpu() for name, tensor in done.problem.network.state_dict().items()})
        return encoder

    def model(self, recipe: Recipe) -> Eigenmap:
        """Return the model of a recipe, with its aligned codes."""
        folder = None if self.folder is None else self.folder / f"model-{self.name(recipe)}"
        if folder is not None and (folder / DESCRIPTION).is_file():
            self.say(f"  already in {folder}")
            model = Eigenmap.load(folder)
            model.network.to("cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu")
            return model
        return fit_images(
            self.sets.train,
            recipe=recipe,
            seed=self.seed,
            device=self.device,
            devices=self.devices,
            nodes=self.nodes,
            out=folder,
            resume=folder is not None and (folder / CHECKPOINT).is_file(),
            progress=False,
        )

    def model_unless_collapsed(self, recipe: Recipe) -> Eigenmap | None:
        """Return the model of a recipe, or say why there is none: its training collapsed or diverged."""
        try:
            return self.model(recipe)
        except (CollapseError, DivergedError) as error:
            self.say(f"  {error}")
            return None

    def _train(self, task: ImageTask, folder: Path | None) -> pipeline.Trained:
        """Train, in the stored run if there is one; leave the number of threads to the next run."""
        resume = folder is not None and (folder / CHECKPOINT).is_file()
        options = RunOptions(folder, resume, seed=self.seed, device=self.device, devices=self.devices, nodes=self.nodes)
        with restored_threads():
            return pipeline.train(task, options)

    def _trained_and_probed(self, recipe: Recipe, projector: ProjectorKind, folder: Path | None) -> Probe:
        task = image_task(recipe, self.sets.train, self.seed, projector)
        try:
            done = self._train(task, folder)
        except (CollapseError, DivergedError) as error:
            probe = Probe(linear=None, knn=None, knn_held_out=None, seconds=0.0, collapsed=str(error))
            if folder is not None and is_first_process():
                _keep(folder, probe, None)
            return probe

        def outputs(images: ImageSet) -> Tensor:
            return network_outputs(done.problem.network, task.image, images, "encoder")

        probe = probe_outputs(outputs(self.sets.train), outputs(self.sets.test), self.sets, task.held_rows)
        probe["seconds"] = done.result.seconds
        if folder is not None and done.fabric.is_global_zero:
            state = done.problem.network.state_dict()
            inside = {name: tensor for name, tensor in state.items() if name.startswith("encoder.")}
            _keep(folder, probe, {name.removeprefix("encoder."): tensor for name, tensor in inside.items()})
        return probe


def probe_outputs(train: Tensor, test: Tensor, sets: Sets, held: Tensor) -> Probe:
    """Classify test images, and also held-out training images, on which choices are based."""
    y, y_test = sets.classes()
    (row,) = evaluate_classes(train, y, test, y_test, dims=[train.shape[1]], shares=(1.0,))
    rest = torch.ones(len(train), dtype=torch.bool)
    rest[held] = False
    chosen_by = knn_accuracy(train[held], y[held], train[rest], y[rest])
    return Probe(linear=row["linear"], knn=row["knn"], knn_held_out=chosen_by, seconds=0.0, collapsed=None)


def read_probe(file: Path) -> Probe | None:
    """Return the measurement of an earlier run, or None if there is none."""
    if not file.is_file():
        return None
    try:
        found: Probe = json.loads(file.read_text(encoding="utf-8"))
        if set(found) != set(Probe.__annotations__):
            raise ValueError("it has other entries")
    except ValueError as error:
        raise EigenmapError(f"{file} is damaged ({error}): remove its folder to repeat the run.") from error
    return found


def _keep(folder: Path, probe: Probe, encoder: dict[str, Tensor] | None) -> None:
    """Write the weights, under torchvision's names for a ResNet, then the probe, which marks the run as complete."""
    make_folder(folder)
    if encoder is not None:
        weights = {name: tensor.cpu().contiguous() for name, tensor in encoder.items()}
        with atomic_write(folder / ENCODER) as file:
            file.write(to_safetensors(weights))
    write_json(folder / PROBE, dict(probe))
