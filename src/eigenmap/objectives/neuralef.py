r"""NeuralEF: ordered eigenfunctions of the relation, with a penalty on R or on the Gram matrix."""

from __future__ import annotations

import math
from itertools import product

import torch
from torch import Tensor
from typing_extensions import override

from eigenmap.objectives.moments import GlobalBatch, harmonic, join, l2_normalise, squared_moments, standardise
from eigenmap.objectives.objective import Objective, number, switch

PAPER_STRENGTH = 204.8
"""k * alpha of the paper's ImageNet runs, in the convention of `NeuralEF`: 10 * 0.005 * 4096."""


class NeuralEF(Objective):
    r"""Neural eigenfunctions, ordered by a stop-gradient.

    With psi normalised to E[psi_j^2] = 1 (L2 batch normalisation, pooled over both views),

        loss = scale / k * { - sum_j R_jj + alpha * sum_{i<j} R_ij^2 }

        R_jj = E[psi_j psi_plus_j],   R_ij = E[sg(psi_i) psi_plus_j]

    averaged with the same expression for the two views exchanged. sg(psi_i) is held constant: feature j avoids the
    features before it, and not the other way round. `ordered=False` lets the gradient through.

    Strength. The eigenfunctions phi_1, phi_2, ... with eigenvalues mu_1 >= mu_2 >= ... are the solution only if alpha >
    max_{i<j<=k} (mu_i - mu_j) / mu_i^2; below it, features repeat eigenfunctions. Two remedies:

    - `ratio=True` penalises R_ij^2 / max(R_ii, small), R_ii held constant. Then alpha > 1 - mu_j / mu_i suffices, so
    alpha = 1 is enough for every positive spectrum.
    - `shift=c` replaces R by (1-c) R + c G, G = E[psi psi^T] pooled over both views. Eigenfunctions stay the same,
    eigenvalues become (1-c) mu + c, and alpha > 1/(4c) is enough for every spectrum in [0, 1] (c <= 1/2).

    Scale. The published code scales psi so that its products are t R with t = 10, adds the two halves instead
    of averaging them and divides by k:

        loss_paper = 2 t / k * { - sum_j R_jj + t alpha_paper * sum_{i<j} R_ij^2 }

    Hence alpha = 10 alpha_paper, and the published alpha_paper = 0.005 * 4096 / k is alpha = 204.8 / k here (0.1 /
    0.05 / 0.025 at k = 2048 / 4096 / 8192): that is `alpha="paper"`. With `scale=20` the losses are equal too, which
    matters for optimisers that are not invariant to the size of gradients.

    [1] Deng, Shi, Zhang, Cui, Lu, Zhu: Neural Eigenfunctions Are Structured Representation Learners, 2024.
    [2] Deng, Shi, Zhu: NeuralEF: Deconstructing Kernels by Deep Neural Networks, ICML 2022.

    Example::

        objective = NeuralEF(alpha="paper")
        psi = projector(encoder(torch.cat([x, x_plus])))
        loss = objective(*psi.chunk(2))
        loss.backward()
    """

    def __init__(
        self,
        alpha: float | str = "paper",
        ordered: bool = True,
        ratio: bool = False,
        shift: float = 0.0,
        small: float = 1e-3,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.alpha = alpha if alpha == "paper" else number('alpha (or "paper")', alpha)
        self.ordered = switch("ordered", ordered)
        self.ratio = switch("ratio", ratio)
        self.shift = number("shift", shift, most=1.0)
        self.small = number("small", small, zero=False)
        self.scale = number("scale", scale, zero=False)
        self.summary = "neural eigenfunctions" + self._variant()

    def _variant(self) -> str:
        if not self.ordered:
            return " without the stop-gradient: same span, no order"
        if self.ratio:
            return ", each penalty divided by the feature's own eigenvalue"
        return " of the relation plus a multiple of the identity" if self.shift else ", ordered by a stop-gradient"

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        k = psi.shape[1]
        alpha = self.strength(k)
        psi, psi_plus = l2_normalise(psi, psi_plus, weights=weights)
        rows = join(psi, psi_plus, weights, gram)
        a, b = self._factors(rows)  # R = a^T b; with the views exchanged it is b^T a
        R_diagonal = (a * b).sum(0)
        earlier = 1 / R_diagonal.detach().clamp_min(self.small) if self.ratio else None

        def penalty(a: Tensor, b: Tensor) -> Tensor:
            return squared_moments(a.detach() if self.ordered else a, b, earlier)

        return self.scale / k * (alpha * (penalty(a, b) + penalty(b, a)) / 2 - R_diagonal.sum())

    def strength(self, k: int) -> float:
        """Return alpha for k features."""
        return PAPER_STRENGTH / k if isinstance(self.alpha, str) else self.alpha

    def ordering_threshold(self, mu: Tensor) -> float:
        """Return the alpha above which ordered eigenfunctions are the solution for these eigenvalues; see "Strength".

        It is infinite if an eigenvalue (after the shift) is zero and others follow it.
        """
        m = ((1 - self.shift) * mu.double() + self.shift).sort(descending=True).values
        earlier, later = m[:, None], m[None, :]
        divisor = earlier.square() / (earlier.clamp_min(self.small) if self.ratio else 1.0)
        needed = torch.where(earlier > later, (earlier - later) / divisor, 0.0)
        return float(needed.max()) if len(m) else 0.0

    def _factors(self, rows: GlobalBatch) -> tuple[Tensor, Tensor]:
        """Return factors (a, b) of R = a^T b; the G of the shift is appended as rows of both."""
        if self.shift == 0:
            return rows.psi, rows.partner
        root = math.sqrt(1 - self.shift)
        pooled = rows.pooled() * math.sqrt(self.shift)
        return torch.cat([rows.psi * root, pooled]), torch.cat([rows.partner * root, pooled])


def shift_for(smallest: float, margin: float = 0.5) -> float:
    """Return the shift c that lifts a spectrum in [smallest, 1] to [margin, 1], so that no eigenvalue is near zero.

        (1 - c) mu + c >= margin   for mu >= -b,   b = max(-smallest, 0):      c = (margin + b) / (1 + b)

    Then alpha > 1 / (4 margin) orders every mode; alpha = 1 is twice that at margin = 1/2. A shift that only moves a
    negative eigenvalue close to zero makes ordering harder, so c must come from a bound.

    Example:
        >>> shift_for(0.0), shift_for(-1.0)
        (0.5, 0.75)

    """
    b = max(-smallest, 0.0)
    return (margin + b) / (1 + b)


class GramNeuralEF(Objective):
    r"""NeuralEF with the penalty on the Gram matrix: ordered for every spectrum without tuning.

    With psi centred and of unit variance, pooled over both views, and R_jj = E[psi_j psi_plus_j],

        loss = - sum_j w_j { R_jj - b * sum_{i<j} G_ij^2 }

        G_ij = E[sg(psi_i) psi_j] pooled over both views,   w_j ~ 1/j, sum_j w_j = 1

    Strength. After phi_1 ... phi_{j-1}, a feature psi_j = sum_l c_l phi_l earns

        sum_{i<j} (mu_i - b) c_i^2 + sum_{l>=j} mu_l c_l^2

    which phi_j maximises if and only if b > mu_i - mu_j for all i < j. So b = 1 is enough for every spectrum in (0, 1]
    and b = 2 for every spectrum in (-1, 1], at any k. The penalty cannot be lowered by destroying the agreement of the
    two views, as NeuralEF's penalty on R can. The positive w_j do not change the optimum of each feature.

    G is pooled over the rows of both views rather than penalised per view: the features are normalised in that measure
    (G_jj = 1), alignment diagonalises that matrix, two views with different augmentations need not each be orthogonal,
    and twice the rows halve the noise that squaring turns into bias. `unbiased=True` removes the remaining bias by the
    U-statistic, which leaves out products of a pair with itself,

        G_ij^2 ~ { (sum_b t_b)^2 - sum_b t_b^2 } / (B (B - 1)),   t_b = mean of psi_i psi_j over the views of b

    `centre=False` does not centre the features (they keep second moment 1), for kernels whose leading eigenfunctions
    have a non-zero mean, such as the Gaussian kernel.

    Example::

        objective = GramNeuralEF()
        loss = objective(psi, psi_plus)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    """

    summary = "neural eigenfunctions with a Gram penalty: ordered for every spectrum"
    ordered = True

    def __init__(self, b: float = 1.0, unbiased: bool = False, centre: bool = True) -> None:
        super().__init__()
        self.b = number("b", b)
        self.unbiased = switch("unbiased", unbiased)
        self.centre = switch("centre", centre)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        normalise = standardise if self.centre else l2_normalise
        psi, psi_plus = normalise(psi, psi_plus, weights=weights)
        rows = join(psi, psi_plus, weights, gram)
        w = harmonic(psi.shape[1], psi)
        h = rows.pooled()
        penalty = squared_moments(h.detach(), h, later=w)
        if self.unbiased:
            # In a Gram block every row is a draw; in a batch of pairs, the two views of one input are one draw.
            views, collision = (h.chunk(2), rows.collision) if gram is None else ((h,), 1 / len(h))
            penalty = (penalty - _own_squares(views, w)) / (1 - collision)
        return self.b * penalty - (w * rows.diagonal()).sum()


def _own_squares(views: tuple[Tensor, ...], later: Tensor) -> Tensor:
    """Return the sum of later_j t_bij^2 over b and i < j, t_bij = sum over views of sg(h_bi) h_bj: the b = b' terms."""
    total = later.new_zeros(())
    for u, v in product(views, views):
        held = (u * v).detach()
        before = held.cumsum(1) - held  # sum over i < j
        total = total + ((before * u * v).sum(0) * later).sum()
    return total
