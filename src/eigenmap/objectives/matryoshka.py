"""Matryoshka: any objective, applied to several prefixes of the code at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives.objective import Objective, number


class Matryoshka(Objective):
    r"""Objective summed over prefixes of the features.

        loss = sum over d in lengths of weight_d * objective(psi[:, :d], psi_plus[:, :d])

    Default lengths are 4, 8, 16, ... below k, and k. The full length k is always included: without it, the features
    after the last cut would never be trained. Default weights are one; given weights include one for the full length.

    [1] Kusupati et al.: Matryoshka Representation Learning, 2022.

    Example::

        objective = Matryoshka(SpectralContrastive(), lengths=[8, 64])
        psi = projector(encoder(torch.cat([x, x_plus])))
        loss = objective(*psi.chunk(2))
        loss.backward()
    """

    ordered = True

    def __init__(
        self,
        objective: nn.Module,
        lengths: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        for name, given in (("lengths", lengths), ("weights", weights)):
            if given is not None and (isinstance(given, str) or not isinstance(given, Sequence)):
                raise EigenmapError(f"{name} must be a list, such as [4, 16, 64], not {given!r}")
        if lengths is not None and any(not isinstance(d, int) or isinstance(d, bool) or d < 1 for d in lengths):
            raise EigenmapError(f"lengths must be whole numbers of at least 1, not {list(lengths)}")
        self.objective = objective
        self.lengths = None if lengths is None else sorted(set(lengths))
        self.weights = None if weights is None else [number("every weight", weight) for weight in weights]

        self.summary = f"{getattr(objective, 'summary', 'an objective')} summed over prefixes 4, 8, 16, ..."
        self.takes_gram = getattr(objective, "takes_gram", True)
        self.fusible = getattr(objective, "fusible", False)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        lengths = self.prefixes(psi.shape[1])
        shares = [1.0] * len(lengths) if self.weights is None else self.weights
        kernel = weights if gram is None else gram
        losses = [self.objective(psi[:, :d], psi_plus[:, :d], kernel) for d in lengths]
        return torch.stack([share * loss for share, loss in zip(shares, losses, strict=True)]).sum()

    @override
    def check_components(self, k: int) -> None:
        self.prefixes(k)

    def prefixes(self, k: int) -> list[int]:
        """Return the lengths used for k features, ascending, k last; refuse lengths and weights that do not fit k."""
        if self.lengths is None:
            used = [2**power for power in range(2, k.bit_length()) if 2**power < k] + [k]
        elif self.lengths and self.lengths[-1] > k:
            raise EigenmapError(f"lengths must not exceed the {k} features, but {self.lengths[-1]} does")
        else:
            used = sorted({*self.lengths, k})
        if self.weights is not None and len(self.weights) != len(used):
            raise EigenmapError(f"give one weight for each of the lengths {used}, not {len(self.weights)}")
        return used
