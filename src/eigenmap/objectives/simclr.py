"""SimCLR's NT-Xent: identify the other view of an input among all views of the batch."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from eigenmap.objectives.moments import gather, scale_rows
from eigenmap.objectives.objective import Objective, number


class SimCLR(Objective):
    r"""Normalised-temperature cross-entropy over the 2B views z_a of the global batch, |z_a| = 1.

        loss = mean over a of  - log [ exp(z_a . z_a+ / tau) / sum_{c != a} exp(z_a . z_c / tau) ]

    a+ is the other view of a. With pair weights w (of mean one) the mean over a is weighted, and every view c other
    than a+ counts w_c times in the sum.

    [1] Chen, Kornblith, Norouzi, Hinton: A Simple Framework for Contrastive Learning of Visual
        Representations, 2020.

    Example::

        objective = SimCLR(temperature=0.5)
        psi = projector(encoder(torch.cat([x, x_plus])))
        loss = objective(*psi.chunk(2))
        loss.backward()
    """

    summary = "normalised-temperature cross-entropy"
    takes_gram = False
    fusible = True

    def __init__(self, temperature: float = 0.5) -> None:
        super().__init__()
        self.temperature = number("temperature", temperature, zero=False)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        positive, everything, negative = similarities(psi, psi_plus)
        positive, everything = positive / self.temperature, everything / self.temperature
        w = gather(psi.new_ones(len(psi)) if weights is None else weights).repeat(2)
        negatives = (everything + w.log()).masked_fill(~negative, -torch.inf).logsumexp(1)
        return (w * (torch.logaddexp(positive, negatives) - positive)).mean()


def similarities(psi: Tensor, psi_plus: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return cosines of all views in the global batch with the partner (2B,), with all (2B, 2B), and the negatives."""
    z = torch.cat([gather(scale_rows(view, "normalised", 1.0)) for view in (psi, psi_plus)])
    partner = z.roll(len(z) // 2, dims=0)
    pair = torch.arange(len(z), device=z.device) % (len(z) // 2)
    return (z * partner).sum(1), z @ z.T, pair[:, None] != pair
