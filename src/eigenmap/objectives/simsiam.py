"""SimSiam: each view predicts the other, held constant."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from eigenmap.core.arguments import whole_number
from eigenmap.objectives.learning import LearningObjective, Predictor, cosine, expected
from eigenmap.objectives.moments import standardise


class SimSiam(LearningObjective):
    r"""Predictor p and a stop-gradient on z, which is psi with mean 0 and variance 1 per feature over both views.

        loss = - 1/2 E[ cos(p(z), sg(z_plus)) + cos(p(z_plus), sg(z)) ]

    Standardising replaces the BatchNorm without parameters at the end of the published projector. p is a perceptron
    with one hidden layer of `hidden` units, by default a quarter of the features, the bottleneck of [1]. Both views
    pass through it together.

    [1] Chen, He: Exploring Simple Siamese Representation Learning, 2021.

    Example::

        objective = SimSiam()
        objective.begin(k=128)
        optimizer = torch.optim.SGD([*network.parameters(), *objective.parameters()], lr=0.1)
        loss = objective(*projector(encoder(torch.cat([x, x_plus]))).chunk(2))
    """

    summary = "each view predicts the other, held constant"

    def __init__(self, hidden: int | None = None) -> None:
        super().__init__()
        self.hidden = None if hidden is None else whole_number(hidden, "hidden")

    def _make(self, k: int) -> None:
        self.predictor = Predictor(k, self.hidden or max(1, k // 4))

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        z, z_plus = standardise(psi, psi_plus, weights=weights)
        p, p_plus = self.predictor(z, z_plus, weights=weights)
        return -expected(cosine(p, z_plus.detach()), cosine(p_plus, z.detach()), weights=weights)
