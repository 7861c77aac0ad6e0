"""BYOL: each view predicts a slowly moving teacher's code of the other."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from eigenmap.core.arguments import whole_number
from eigenmap.objectives.learning import Predictor, TaughtObjective, cosine, expected, towards_one
from eigenmap.objectives.objective import number


class BYOL(TaughtObjective):
    r"""Predictor p with targets t and t_plus, the teacher's codes of the two views.

        loss = E[ |p(psi)/|p(psi)| - t_plus/|t_plus||^2 + |p(psi_plus)/|p(psi_plus)| - t/|t||^2 ]

    The teacher's momentum rises from `momentum` to 1 along a cosine. The published values are 0.996 for
    1,000 epochs, 0.99 for 100, and a predictor of 4,096 hidden units for 256 features.

    [1] Grill et al.: Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning, 2020.

    Example::

        train(network, relation, BYOL(), TrainingConfig(steps=1000))      # the loop keeps the teacher
    """

    summary = "each view predicts a slowly moving teacher's code of the other"

    def __init__(self, momentum: float = 0.99, hidden: int = 1024) -> None:
        super().__init__()
        self.start = number("momentum", momentum, most=1.0)
        self.hidden = whole_number(hidden, "hidden")

    @override
    def momentum(self, done: float) -> float:
        return towards_one(self.start, done)

    def _make(self, k: int) -> None:
        self.predictor = Predictor(k, self.hidden)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        t, t_plus = self.taught(psi)
        p, p_plus = self.predictor(psi, psi_plus, weights=weights)
        return 4 - 4 * expected(cosine(p, t_plus), cosine(p_plus, t), weights=weights)
