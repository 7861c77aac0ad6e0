"""Residual heads on vectors: trained on pairs, starting at the linear solution, and kept only if they beat it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.batch import Batch
from eigenmap.core.logging import LogFunction
from eigenmap.data.vectors.input import VectorInput
from eigenmap.fitting.problem import Side
from eigenmap.linear.choice import PairAlignment, choose
from eigenmap.linear.collect import Both, collect
from eigenmap.networks.vectors import PairNetwork, ResidualHead, VectorEncoderSpec, VectorNetwork
from eigenmap.recipes.vectors import VectorRecipe
from eigenmap.relations.pair_batches import PairBatches, PairRows
from eigenmap.relations.pairs import Part, VectorPairs
from eigenmap.spectrum import Alignment, unit_rms_rows

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MOST_PAIRS = 50_000
"""Maximum number of pairs from which the order of the trained features is estimated."""
CHECKED = 1024
"""Number of held-out pairs in a check during training."""
BATCH = 4_096


class Neural(NamedTuple):
    """Trained heads that beat the linear codes, with their alignment and scores."""

    alignment: PairAlignment
    sides: tuple[Side, Side | None]


class Heads:
    """Heads of one or two spaces, with their training batches and their comparison with the linear codes."""

    def __init__(
        self, pairs: VectorPairs, linear: PairAlignment, recipe: VectorRecipe, seed: int, fabric: Fabric
    ) -> None:
        self.pairs, self.linear, self.recipe = pairs, linear, recipe
        torch.manual_seed(seed)
        self.left = self._head(linear.left)
        self.right = self.left if linear.right is linear.left else self._head(linear.right)
        rows = PairRows(pairs.fit)
        place = fabric.device, fabric.global_rank, fabric.world_size
        self.batches = PairBatches(rows, pairs.fit, recipe.batch_size, seed, *place)
        self._held = PairBatches(rows, pairs.held_out, CHECKED, seed + 1, fabric.device)
        self.network = PairNetwork(self.left, self.right, rows, rows.n_left)

    def held_out(self) -> Iterator[Batch]:
        """Yield the held-out pairs for checks during training, always the same."""
        yield self._held.batch(0)

    def _head(self, alignment: Alignment) -> VectorNetwork:
        """Build a network whose psi starts as the linear code."""
        length = alignment.rotation.shape[0]
        network = VectorEncoderSpec(self.recipe.width).build(length, self.linear.unit, alignment.n_components)
        rotation = alignment.rotation * alignment.weights()
        head: ResidualHead = network.projector
        # Codes are compared by cosine, so a common factor changes only the size of training steps.
        size = (alignment.power * alignment.weights().square()).sum().clamp(min=1e-300).sqrt()
        deviation = torch.linalg.pinv(alignment.rotation).square().T @ alignment.power
        head.start_from(alignment.mean.float(), (rotation / size).float(), deviation.clamp(min=0).sqrt().float())
        return network

    @torch.no_grad()
    def best(self, linear: PairAlignment, say: LogFunction) -> Neural | None:
        """Return the trained heads with their alignment, or None if the linear codes find more held-out partners."""
        self.network.eval()
        found = collect(_thinned(self.pairs), Both(_output(self.left), _output(self.right)))
        two_spaces = self.right is not self.left
        best, scores = choose(
            found.fit, found.held_out, found.judge, n_components=linear.n_components, two_spaces=two_spaces
        )
        table = {**linear.scores, "ours": scores["ours"]}
        neural = replace(
            linear,
            left=best.maps.left,
            right=best.maps.right,
            winner="neural",
            centred=best.centred,
            scores={**table, "linear": linear.scores["ours"]},
        )
        kept = neural.quality > linear.quality
        say(
            f"Mean nDCG@10 on held-out pairs: {neural.quality:.3f} with the neural head, {linear.quality:.3f} without; "
            f"it is {'kept' if kept else 'left out'}."
        )
        if not kept:
            return None
        left = self._side(self.left, best.maps.left)
        return Neural(neural, (left, self._side(self.right, best.maps.right) if two_spaces else None))

    def _side(self, network: VectorNetwork, alignment: Alignment) -> Side:
        spec = VectorEncoderSpec(self.recipe.width)
        return Side(network, alignment, VectorInput(network.out_features, self.linear.unit), spec)


def _thinned(pairs: VectorPairs) -> VectorPairs:
    """Keep at most `MOST_PAIRS` of the training pairs, evenly spread."""
    if pairs.count <= MOST_PAIRS:
        return pairs
    share = MOST_PAIRS / pairs.count

    def thinned(part: Part) -> Part:
        return part.where(np.linspace(0, len(part) - 1, max(1, int(share * len(part)))).astype(np.int64))

    return replace(pairs, fit=[thinned(part) for part in pairs.fit])


def _output(network: VectorNetwork) -> Any:
    """Return a function from vectors to rows of psi, scaled as in the model."""
    device = next(network.parameters()).device

    def output(rows: npt.NDArray[Any]) -> Tensor:
        parts = [network(part.to(device))[1] for part in torch.split(torch.from_numpy(rows), BATCH)]
        return unit_rms_rows(torch.cat(parts)).cpu()

    return output
