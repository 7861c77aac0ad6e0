"""The form of an operation that is recorded, and small things to make operations of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from eigenmap import Eigenmap, EigenmapError, Moments, best_alignment
from eigenmap.augment.views import IMAGENET_STANDARDISATION
from eigenmap.model import EncoderSpec, ImageInput, NodeEncoderSpec, NodeInput
from eigenmap.networks import Network, SmallCNN
from tests.end_to_end.photos import pictures

K = 8
Acknowledge: TypeAlias = Callable[[str], object]
Step: TypeAlias = Callable[[Path], object]


class Operation:
    """One kind of work that ends with an acknowledgement, or several: steps, each acknowledged when it returns."""

    gap = False
    """Whether there may be nothing while one version replaces another: two files do not change at one instant."""

    def __init__(self, inputs: Path) -> None:
        self.inputs = inputs

    def prepare(self, folder: Path) -> None:
        """Make what is there before."""

    def steps(self) -> list[Step]:
        """What is done; each may be done again, whatever a power cut has left of it."""
        raise NotImplementedError

    def perform(self, folder: Path, acknowledge: Acknowledge) -> None:
        for number, step in enumerate(self.steps(), start=1):
            step(folder)
            acknowledge(f"step {number}")

    def read(self, folder: Path) -> object:
        """What is there, by eigenmap's own reader; EigenmapError if there is nothing."""
        raise NotImplementedError


def codes(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(n, K)).astype(np.float32)


def table(names: Any, matrix: Any) -> dict[str, list[float]]:
    """Codes by name, comparable across processes."""
    assert len(names) == len(matrix)
    return {str(name): [round(float(v), 4) for v in row] for name, row in zip(names, matrix, strict=True)}


def existing(path: Path) -> Path:
    if not path.exists():
        raise EigenmapError(f"{path} is not there")
    return path


def node_model(seed: int) -> Eigenmap:
    """A tiny model of features of nodes, not trained."""
    torch.manual_seed(seed)
    node, spec = NodeInput(8), NodeEncoderSpec(8, 1)
    network = Network(spec.build(node), K, hidden=8).eval()
    return aligned(network, torch.randn(200, 8), node, spec)


def aligned(network: Network, x: torch.Tensor, node: Any, spec: Any) -> Eigenmap:
    with torch.no_grad():
        views = [network(x + 0.1 * torch.randn_like(x))[1] for _ in range(2)]
    fit, held_out = Moments(K), Moments(K)
    half = len(x) // 2
    fit.update(views[0][:half], views[1][:half])
    held_out.update(views[0][half:], views[1][half:])
    alignment = best_alignment(fit, held_out, (views[0][half:], views[1][half:]), n_components=K)
    return Eigenmap(network, alignment, "projector", node, spec, {"seed": 0})


def make_inputs(folder: Path) -> None:
    """What operations read and never change: a model of images, pictures, an index, two models of nodes."""
    torch.manual_seed(0)
    image = ImageInput(16, 3, IMAGENET_STANDARDISATION)
    x = image(torch.from_numpy(pictures(60)).permute(0, 3, 1, 2)).repeat(3, 1, 1, 1)
    aligned(Network(SmallCNN(3), K, hidden=16).eval(), x, image, EncoderSpec("small-cnn")).save(folder / "images")
    np.save(folder / "pictures.npy", pictures(10))
    np.save(folder / "more.npy", pictures(4, seed=1))
    node_model(5).save(folder / "nodes")
