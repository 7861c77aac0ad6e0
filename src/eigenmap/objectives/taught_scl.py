"""Spectral contrastive loss against a teacher: each view attracts a slowly moving teacher's code of the other."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from eigenmap.objectives.learning import TaughtObjective, towards_one
from eigenmap.objectives.objective import number
from eigenmap.objectives.spectral_contrastive import SpectralContrastive


class TaughtSpectralContrastive(TaughtObjective):
    r"""`SpectralContrastive` L with targets t and t_plus, the teacher's codes of the two views.

        loss = L(psi, t_plus) + L(psi_plus, t)

    No gradient flows through the targets. If the teacher is the network itself, the gradient is that of
    `SpectralContrastive`, so rates carry over. The teacher's momentum rises from `momentum` to 1 along a cosine.

    Example::

        train(network, relation, TaughtSpectralContrastive(), TrainingConfig(steps=1000))  # the loop keeps the teacher
    """

    summary = "spectral contrastive loss against a slowly moving teacher's codes"

    def __init__(self, scale: float = 10.0, momentum: float = 0.99) -> None:
        super().__init__()
        self.untaught = SpectralContrastive(scale)
        self.start = number("momentum", momentum, most=1.0)

    @override
    def momentum(self, done: float) -> float:
        return towards_one(self.start, done)

    def _make(self, k: int) -> None:
        """Create nothing: the teacher is all the state there is."""

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        t, t_plus = self.taught(psi)
        return self.untaught.loss(psi, t_plus, weights, None) + self.untaught.loss(psi_plus, t, weights, None)
