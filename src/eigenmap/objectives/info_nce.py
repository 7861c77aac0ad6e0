"""InfoNCE between two sides: identify the partner of an item among the partners of all others."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from eigenmap.objectives.moments import gather, scale_rows
from eigenmap.objectives.objective import Objective, number


class InfoNCE(Objective):
    r"""Cross-entropy of finding the partner, in both directions, over the B pairs of the global batch, |z_b| = 1.

        loss = - 1/2 mean over b of  log [ exp(S_bb) / sum_c exp(S_bc) ] + log [ exp(S_bb) / sum_c exp(S_cb) ]

        S_bc = z_b . z_plus_c / tau

    Unlike `SimCLR` it compares nothing within a side: queries are not contrasted with each other. With pair weights w
    (of mean one) the mean over b is weighted, and c != b counts w_c times in the sums.

    [1] van den Oord, Li, Vinyals: Representation Learning with Contrastive Predictive Coding, 2018.
    [2] Radford et al.: Learning Transferable Visual Models From Natural Language Supervision, 2021.

    Example::

        objective = InfoNCE(temperature=0.1)
        loss = objective(left(x), right(y))
        loss.backward()
    """

    summary = "cross-entropy of finding the partner on the other side"
    takes_gram = False
    fusible = True

    def __init__(self, temperature: float = 0.1) -> None:
        super().__init__()
        self.temperature = number("temperature", temperature, zero=False)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        z, z_plus = (gather(scale_rows(view, "normalised", 1.0)) for view in (psi, psi_plus))
        S = z @ z_plus.T / self.temperature
        if weights is None:
            return ((S.logsumexp(1) + S.logsumexp(0)) / 2 - S.diagonal()).mean()
        w = gather(weights)
        # The partner itself counts once, whatever its weight.
        others = (S + w.log()).diagonal_scatter(S.diagonal())
        others_back = (S.T + w.log()).diagonal_scatter(S.diagonal())
        return (w * ((others.logsumexp(1) + others_back.logsumexp(1)) / 2 - S.diagonal())).mean()
