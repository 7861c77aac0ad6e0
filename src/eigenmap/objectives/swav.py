"""SwAV: the two views of an input are assigned to the same prototypes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from eigenmap.core.arguments import whole_number
from eigenmap.objectives.learning import LearningObjective, expected, unit
from eigenmap.objectives.moments import mean
from eigenmap.objectives.objective import number


class SwAV(LearningObjective):
    r"""Swapped assignments to P learned prototypes c_p, with z and c of norm 1 and scores s_bp = z_b . c_p.

        loss = - 1/2 E[ sum_p q_plus_p log softmax(s / tau)_p + q_p log softmax(s_plus / tau)_p ]

    The assignments q of a view are those closest to exp(s / epsilon) that use all prototypes equally over the batch:
    q_bp = u_p exp(s_bp / epsilon) v_b, found by `iterations` rounds of Sinkhorn-Knopp, and held constant. The
    published runs use 3,000 prototypes for ImageNet, large batches or a queue, and smaller additional crops, which are
    not implemented here.

    [1] Caron, Misra, Mairal, Goyal, Bojanowski, Joulin: Unsupervised Learning of Visual Features by Contrasting Cluster
        Assignments, 2020.

    Example::

        objective = SwAV(prototypes=512)
        objective.begin(k=128)
        optimizer = torch.optim.SGD([*network.parameters(), *objective.parameters()], lr=0.1)
        loss = objective(*projector(encoder(torch.cat([x, x_plus]))).chunk(2))
    """

    summary = "the same prototypes for both views, all of them used equally"

    def __init__(
        self, prototypes: int = 512, temperature: float = 0.1, epsilon: float = 0.05, iterations: int = 3
    ) -> None:
        super().__init__()
        self.n_prototypes = whole_number(prototypes, "prototypes")
        self.temperature = number("temperature", temperature, zero=False)
        self.epsilon = number("epsilon", epsilon, zero=False)
        self.iterations = whole_number(iterations, "iterations")

    def _make(self, k: int) -> None:
        self.prototypes = nn.Parameter(unit(torch.randn(self.n_prototypes, k)))

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        c = unit(self.prototypes.to(psi.dtype))
        s, s_plus = unit(psi) @ c.T, unit(psi_plus) @ c.T
        q, q_plus = (self.assign(view.detach(), weights) for view in (s, s_plus))
        log_p, log_p_plus = ((view / self.temperature).log_softmax(1) for view in (s, s_plus))
        halves = (q_plus * log_p).sum(1, keepdim=True), (q * log_p_plus).sum(1, keepdim=True)
        return -expected(*halves, weights=weights)

    @torch.no_grad()
    def assign(self, s: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return assignments (B, P) from the scores of one view, balanced over all processes; rows sum to 1."""
        E = ((s - 1) / self.epsilon).exp().clamp_min(torch.finfo(s.dtype).tiny)  # cosines are at most 1
        w = s.new_ones(len(s)) if weights is None else weights
        v = w
        for _ in range(self.iterations):
            u = 1 / (E.shape[1] * mean(E, weights=v))
            v = w / (E @ u)
        q = E * u
        return q / q.sum(1, keepdim=True)
