"""Second moments of a network's outputs over pairs: all that the Rayleigh-Ritz step needs from the data.

fit = Moments(k)
fit.update(psi, psi_plus)        # any number of batches
C, A = fit.about(fit.mean())
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from eigenmap.core.devices import has_float64
from eigenmap.core.errors import EigenmapError
from eigenmap.core.pairing import Pairing


def unit_rms_rows(psi: Tensor) -> Tensor:
    """Scale rows to norm sqrt(k), as codes are compared by cosine.

    Objectives that normalise rows leave the norm of the raw output free. It becomes heavy-tailed, and a few rows would
    dominate the moments (on CIFAR-10: norms 38 +- 54, effective rank 2 for raw rows and 9 for scaled ones).
    """
    precise = psi if psi.dtype == torch.float64 else psi.float()
    tiny = torch.finfo(torch.float32).tiny
    # The squares of exploding outputs overflow float32: the norm is float64, or that of rows whose largest number is 1.
    if not has_float64(precise.device):
        precise = precise / precise.abs().amax(1, keepdim=True).clamp(min=tiny)
    wide = torch.float64 if has_float64(precise.device) else torch.float32
    norm: Tensor = torch.linalg.vector_norm(precise, dim=1, keepdim=True, dtype=wide)
    return precise / norm.clamp(min=tiny).to(precise) * math.sqrt(psi.shape[1])


class Moments:
    """Streaming float64 sums over pairs.

    `update` adds a batch of any size, `merge` adds the sums of other batches, `reduce` adds those of all processes. The
    last feature is the constant 1, so that each matrix contains second moments, sums and the total weight.
    """

    def __init__(self, n_features: int, device: torch.device | str = "cpu") -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        self.within, self.within_plus, self.across = (zeros(n_features + 1, n_features + 1) for _ in range(3))
        self.squares = zeros()

    @property
    def n_features(self) -> int:
        """Number k of features."""
        return len(self.across) - 1

    def update(self, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None = None) -> Moments:
        """Add a batch of pairs; `kernel` is None, pair weights (B,), or a Gram block (B, B')."""
        psi, psi_plus = (pad(p.detach().to(self.across), (0, 1), value=1.0) for p in (psi, psi_plus))
        pairing = Pairing.of(None if kernel is None else kernel.to(self.across))
        first, second = psi, psi_plus
        if pairing.gram is not None:
            share = pairing.gram / len(psi_plus)
        else:
            share = torch.ones(len(psi)).to(self.across) if pairing.weights is None else pairing.weights
            first, second = share[:, None] * psi, share[:, None] * psi_plus
        self.within.addmm_(first.T, psi)
        self.within_plus.addmm_(second.T, psi_plus)
        self.across.addmm_(first.T, pairing.partner(psi_plus))
        self.squares += (share * share).sum()
        return self

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.within, self.within_plus, self.across, self.squares

    def merge(self, other: Moments) -> Moments:
        """Add the sums of other pairs."""
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            mine += theirs.to(mine.device)
        return self

    def part(self, features: slice) -> Moments:
        """Return the sums for some of the features."""
        kept = torch.arange(self.n_features, device=self.across.device)[features]
        rows = torch.cat([kept, kept.new_tensor([self.n_features])])  # the constant stays
        part = Moments(len(kept), self.across.device)
        part.within, part.within_plus, part.across = (
            sums[rows][:, rows] for sums in (self.within, self.within_plus, self.across)
        )
        part.squares = self.squares.clone()
        return part

    def reduce(self) -> Moments:
        """Add the sums of all processes, if there are several."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for tensor in self._tensors():
                torch.distributed.all_reduce(tensor)
        return self

    def _pooled(self) -> Tensor:
        return (self.within / self.within[-1, -1] + self.within_plus / self.within_plus[-1, -1]) / 2

    def mean(self) -> Tensor:
        """Return the mean of psi over both views."""
        return self._pooled()[-1, :-1]

    def about(self, m: Tensor) -> tuple[Tensor, Tensor]:
        """Return C and A of psi - m: second moments within a view, and (symmetrised) across the pair.

        Both are exactly zero for features that differ from m only by float32 rounding.
        """

        def shifted(S: Tensor) -> Tensor:
            corner = S[-1, -1] * torch.outer(m, m)
            return S[:-1, :-1] - torch.outer(S[:-1, -1], m) - torch.outer(m, S[-1, :-1]) + corner

        pooled = self._pooled()
        C, A = shifted(pooled), shifted(self.across / self.within[-1, -1])
        if not bool(C.isfinite().all() and A.isfinite().all()):
            raise EigenmapError(
                "The features of the network have no finite moments: there are no pairs, or training diverged."
            )
        constant = C.diagonal() <= 1e-12 * pooled.diagonal()[:-1]
        rounding = constant[:, None] | constant
        return C.masked_fill(rounding, 0.0), ((A + A.T) / 2).masked_fill(rounding, 0.0)

    def noise(self) -> float:
        """Return the standard error of an eigenvalue whose true value is zero: N^-1/2 for N pairs of equal weight."""
        return float(self.squares.sqrt() / self.within[-1, -1])
