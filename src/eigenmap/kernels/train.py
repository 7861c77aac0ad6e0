"""Training of the hidden layers for a kernel: full batches in float64, or small blocks in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.core.sparse import sparse_coo
from eigenmap.objectives import OBJECTIVES, NeuralEF, RitzTrace, build
from eigenmap.relations.operator import Operator

OFFSET, OFFSET_OF_BLOCKS = 1e-4, 1e-2
"""tau of the log-det objective, relative to the largest eigenvalue: modes below it are hardly trained.

On small blocks of many points, small eigenvalues are noise, and training for them costs the others;
`benchmarks/eigenfunctions/choices.py` compares the two.
"""


class WholeBatch:
    """All points of an operator in every step, with their exact measure.

    Weights are applied as factors: the moments of sqrt(n p) psi and the kernel sqrt(n p) K sqrt(n p) under equal
    weights are those of psi and K under p. `root` is None if all weights are equal.
    """

    def __init__(self, operator: Operator) -> None:
        self.x = operator.x
        root = (operator.p * len(operator.p)).sqrt()
        equal = bool((root - 1).abs().max() < 1e-12)
        self.root = None if equal else root[:, None]
        K = operator.block()
        self.kernel = K if equal else _scaled(K, root)

    def batch(self, step: int) -> Batch:
        """Return the same batch for every step."""
        return Batch(self.x, self.x, self.kernel)


def _scaled(K: Tensor, root: Tensor) -> Tensor:
    if not K.is_sparse:
        return root[:, None] * K * root
    K = K.coalesce()
    i, j = K.indices()
    return sparse_coo(K.indices(), K.values() * root[i] * root[j], K.shape, coalesced=True)


def make_objective(objective: Any, params: dict[str, Any], dtype: torch.dtype, whole: bool) -> nn.Module:
    """Build an objective by name, "auto" being the log-det of the Rayleigh quotient; a module is used unchanged.

    `whole` states whether a batch contains all points.
    """
    if isinstance(objective, nn.Module):
        if params:
            raise EigenmapError("objective_params cannot be combined with an objective module; leave them out.")
        return objective
    if objective == "auto":
        # Rounding error of C in this precision; more would hide small eigenvalues.
        ridge = 1e-8 if dtype == torch.float64 else 1e-5
        tau = OFFSET if whole else OFFSET_OF_BLOCKS
        return build("ritz-logdet", **{"tau": tau, "ridge": ridge, "centre": False, **params})
    if objective not in OBJECTIVES:
        raise EigenmapError(f'Unknown objective {objective!r}; choose "auto" or one of {", ".join(OBJECTIVES)}.')
    if objective.startswith("ritz"):
        params = {"centre": False, "ridge": 1e-6, **params}
    return build(objective, **params)


def takes_weights(objective: nn.Module) -> bool:
    """Tell whether weights may be applied as factors of the features; not if the objective centres them."""
    return isinstance(objective, NeuralEF) or (isinstance(objective, RitzTrace) and not objective.centre)


class Trainer:
    """Adam on the objective of a network's psi, with the kernel scaled by its largest eigenvalue.

    `unit` divides the kernel, so that strengths and offsets of objectives have the same meaning for every kernel.
    """

    def __init__(self, network: nn.Module, objective: nn.Module, learning_rate: float, unit: float) -> None:
        self.network, self.objective, self.unit, self.learning_rate = network, objective, unit, learning_rate
        self.optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
        self.steps = 0

    def step(self, batch: Batch, standardise: Callable[[Tensor], Tensor], root: Tensor | None = None) -> float:
        """Take one step on one batch and return its loss."""
        whole = batch.x is batch.x_plus
        points = batch.x if whole else torch.cat([batch.x, batch.x_plus])
        psi = hidden_and_psi(self.network, standardise(points))[1]
        if root is not None:
            psi = psi * root
        first, second = (psi, psi) if whole else torch.split(psi, [len(batch.x), len(batch.x_plus)])
        kernel = batch.kernel
        kernel = kernel / self.unit if kernel is not None and kernel.ndim == 2 else kernel
        loss: Tensor = self.objective(first, second, kernel)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        # NaN gradients would destroy the network; the returned loss informs the caller.
        value = float(loss.detach())
        if math.isfinite(value):
            self.optimizer.step()
        self.steps += 1
        return value

    def anneal(self, done: float) -> None:
        """Set the learning rate of the next step: cosine decay from `learning_rate` to a hundredth of it."""
        share = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * share


def hidden_and_psi(network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return (hidden features, psi) of a network that returns both, or one matrix in both roles."""
    out = network(x)
    features, psi = out if isinstance(out, tuple) else (out, out)
    return features, psi
