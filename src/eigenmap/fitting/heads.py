"""Residual heads on vectors: trained on pairs, starting at the linear solution, and kept only if they beat it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad

from eigenmap.core.batch import Batch
from eigenmap.core.logging import LogFunction
from eigenmap.data.vectors.input import VectorInput
from eigenmap.fitting.problem import Side
from eigenmap.linear.choice import RIDGES, PairAlignment, choose
from eigenmap.linear.collect import AGREEMENT_RIDGE, Both, Collected, Outputs, collect, pair_moments
from eigenmap.linear.slow import slow_modes
from eigenmap.linear.solutions import TwoMaps, rank
from eigenmap.networks import code_rows
from eigenmap.networks.vectors import PairNetwork, ResidualHead, VectorEncoderSpec, VectorNetwork
from eigenmap.recipes.vectors import VectorRecipe
from eigenmap.relations.pair_batches import PairBatches, PairRows
from eigenmap.relations.pairs import Part, VectorPairs
from eigenmap.spectrum import Alignment

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MOST_PAIRS = 50_000
"""Maximum number of pairs from which the order of the trained features is estimated."""
CHECKED = 1024
"""Number of held-out pairs in a check during training."""
BATCH = 4_096
_SHARE = 0.25
"""Share of a GPU's free memory up to which all vectors are kept on it."""
FUNCTION_RIDGES = (0.0, 1e-4)
"""Ridges for heads that approximate singular functions: a larger one, however much it finds, would mix functions."""
ROUNDING = 1e-5
"""Gains in quality up to this count as none."""


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
        self.two_spaces = linear.right is not linear.left
        start = linear.start or TwoMaps(linear.left, linear.right)  # never from held-out pairs
        self.left = self._head(start.left, linear.unit)
        self.right = self.left
        if self.two_spaces:
            self.right = self._head(start.right, linear.unit)
        elif pairs.kind == "second model":  # trained together with the left one, and then discarded
            self.right = self._head(predicted(pairs, linear), linear.unit)
        rows = PairRows([*pairs.fit, *pairs.held_out])
        if fabric.device.type == "cuda" and rows.n_bytes < _SHARE * torch.cuda.mem_get_info(fabric.device)[0]:
            rows.keep_on(fabric.device)
        place = fabric.device, fabric.global_rank, fabric.world_size
        self.batches = PairBatches(rows, pairs.fit, recipe.batch_size, seed, *place)
        self._held = PairBatches(rows, pairs.held_out, CHECKED, seed + 1, fabric.device)
        self.network = PairNetwork(self.left, self.right, rows, rows.n_left)

    def held_out(self) -> Iterator[Batch]:
        """Yield the held-out pairs for checks during training, always the same."""
        yield self._held.batch(0)

    @property
    def spec(self) -> VectorEncoderSpec:
        """Specification to rebuild a head."""
        return VectorEncoderSpec(self.recipe.width, plain=self.recipe.outputs == "plain")

    @property
    def output(self) -> Outputs:
        """Function from rows of the left side to the rows that the trained head's alignment applies to."""
        return _output(self.left, self.spec.plain)

    def _head(self, alignment: Alignment, unit: bool) -> VectorNetwork:
        """Return a network whose psi is initially the linear code; further features start at random."""
        length, k = alignment.rotation.shape[0], self.recipe.n_components
        network = self.spec.build(length, unit, k)
        deviation = torch.linalg.pinv(alignment.rotation).square().T @ alignment.power
        alignment = alignment.cut(k)
        t = 0.0 if self.spec.plain else None  # functions start with equal variance
        rotation = alignment.rotation * alignment.weights(t)
        # Codes are compared by cosine: a common factor of all features changes only the size of the steps.
        size = (alignment.power * alignment.weights(t).square()).sum().clamp(min=1e-300).sqrt()
        rotation = pad(rotation / size, (0, k - alignment.n_components))
        head: ResidualHead = network.projector
        head.dropout.p = self.recipe.dropout
        head.start_from(alignment.mean.float(), rotation.float(), deviation.clamp(min=0).sqrt().float())
        if k > alignment.n_components:
            head.vary_from(alignment.n_components)
        return network

    @torch.no_grad()
    def best(self, say: LogFunction) -> Neural | None:
        """Return the trained heads with their alignment; None unless they beat the linear codes on held-out pairs."""
        linear = self.linear
        self.network.eval()
        found = collect(_thinned(self.pairs), Both(self.output, _output(self.right, self.spec.plain)))
        best = self._aligned(found)
        table = {**linear.scores, "ours": best.scores["ours"], "linear": linear.scores["ours"]}
        neural = replace(best, winner="neural", pairs=linear.pairs, scores=table)
        name, with_head, without = self._compared(neural)
        kept = with_head > without + ROUNDING
        say(
            f"{name} on held-out pairs: {with_head:.3f} with the neural head, {without:.3f} without; "
            f"it is {'kept' if kept else 'left out'}."
        )
        if not kept:
            return None
        left = self._side(self.left, best.left)
        return Neural(neural, (left, self._side(self.right, best.right) if self.two_spaces else None))

    def _compared(self, neural: PairAlignment) -> tuple[str, float, float]:
        """Return the measure by which heads are kept, and its values with and without them."""
        linear = self.linear
        if self.spec.plain and self.pairs.series is None:  # singular functions are to be shared, not to find partners
            shared = [float(one.correlations.clamp(min=0).square().sum()) for one in (neural, linear)]
            return "Sum of squared correlations", shared[0], shared[1]
        name = {"ndcg@10": "Mean nDCG@10", "vamp-2": "Mean VAMP-2"}[linear.metric]
        return name, neural.quality, linear.quality

    def _aligned(self, found: Collected) -> PairAlignment:
        """Return the alignment of the trained features, scored on held-out pairs."""
        k, unit = self.recipe.n_components, self.linear.unit
        if self.pairs.series is not None:
            most = min(k, rank(found.fit.sides().C))
            return slow_modes(found, most, reversible=self.pairs.series.reversible, unit=unit, pairs=self.pairs.count)
        ridges = FUNCTION_RIDGES if self.spec.plain else RIDGES
        best, scores = choose(*found[:3], n_components=k, two_spaces=self.two_spaces, ridges=ridges)
        left, right = best.maps
        return PairAlignment(
            left,
            right,
            winner=best.name,
            centred=best.centred,
            unit=unit,
            scores=scores,
            pairs=self.pairs.count,
            held_out=len(found.judge.queries),
        )

    def _side(self, network: VectorNetwork, alignment: Alignment) -> Side:
        return Side(network, alignment, VectorInput(network.out_features, self.linear.unit), self.spec)


def predicted(pairs: VectorPairs, linear: PairAlignment) -> Alignment:
    """Return the least-squares prediction of the code from a second model's vectors, as their alignment."""
    plain = Both.plain(linear.unit)
    moments = pair_moments(_thinned(pairs).fit, plain)
    of = moments.sides()
    ridge = AGREEMENT_RIDGE * of.C_plus.diagonal().mean() * torch.eye(len(of.C_plus)).to(of.C_plus)
    rotation = torch.linalg.solve(of.C_plus + ridge, of.A.T @ linear.left.rotation)
    return replace(linear.left, mean=of.mean_plus, rotation=rotation)


def _thinned(pairs: VectorPairs) -> VectorPairs:
    """Keep at most `MOST_PAIRS` of the training pairs, evenly spread."""
    if pairs.count <= MOST_PAIRS:
        return pairs
    share = MOST_PAIRS / pairs.count

    def thinned(part: Part) -> Part:
        return part.where(np.linspace(0, len(part) - 1, max(1, int(share * len(part)))).astype(np.int64))

    return replace(pairs, fit=[thinned(part) for part in pairs.fit])


def _output(network: VectorNetwork, plain: bool) -> Outputs:
    """Return a function from vectors to rows of psi, scaled as in the model."""
    device = next(network.parameters()).device

    @torch.no_grad()
    def output(rows: npt.NDArray[Any]) -> Tensor:
        parts = [network(part.to(device))[1] for part in torch.split(torch.from_numpy(rows), BATCH)]
        psi = torch.cat(parts)
        return code_rows(psi, psi, "projector", plain).cpu()

    return output
