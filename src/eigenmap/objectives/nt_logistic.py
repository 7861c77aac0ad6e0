"""NT-Logistic: logistic regression of pairs against non-pairs on the cosine."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import softplus
from typing_extensions import override

from eigenmap.objectives.moments import gather
from eigenmap.objectives.objective import Objective, number
from eigenmap.objectives.simclr import similarities


class NTLogistic(Objective):
    r"""Normalised-temperature logistic loss over the 2B views z_a of the global batch, |z_a| = 1.

        loss = mean over pairs (a, a+) of      - log sigmoid(  z_a . z_a+ / tau)
             + mean over non-pairs (a, c) of   - log sigmoid(- z_a . z_c  / tau)

    Both are means, so the optimal logit is log p(x, x+) / (p(x) p(x+)), the logarithm of the positive-pair kernel [2],
    for any batch size. With pair weights w, a pair has weight w_a and a non-pair w_a w_c.

    [1] Chen, Kornblith, Norouzi, Hinton: A Simple Framework for Contrastive Learning of Visual
        Representations, 2020 (table 2).
    [2] Johnson, El Hanchi, Maddison: Contrastive Learning Can Find an Optimal Basis for Approximately
        View-Invariant Functions, 2023.

    Example::

        objective = NTLogistic(temperature=0.5)
        psi = projector(encoder(torch.cat([x, x_plus])))
        loss = objective(*psi.chunk(2))
        loss.backward()
    """

    summary = "normalised-temperature logistic loss"
    takes_gram = False
    fusible = True

    def __init__(self, temperature: float = 0.5) -> None:
        super().__init__()
        self.temperature = number("temperature", temperature, zero=False)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        positive, everything, negative = similarities(psi, psi_plus)
        w = gather(psi.new_ones(len(psi)) if weights is None else weights).repeat(2)
        attraction = (w * softplus(-positive / self.temperature)).mean()
        repulsion = w @ (softplus(everything / self.temperature) * negative) @ w
        return attraction + repulsion / (w @ negative.to(w.dtype) @ w)
