"""Pairing: the relation between the rows of psi and those of psi_plus."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Pairing(NamedTuple):
    """Interpretation of the `kernel` of a batch, shared by objectives, moments and health checks.

    - Neither: row b of psi and row b of psi_plus are a pair, and all pairs have equal weight.
    - `weights` (B,): the same with one weight per pair.
    - `gram` (B, B'), dense or sparse: a block of a Gram matrix.
    """

    weights: Tensor | None = None
    gram: Tensor | None = None

    @classmethod
    def of(cls, kernel: Tensor | None) -> Pairing:
        """Interpret a kernel: None, one number per pair, or a matrix."""
        if kernel is None:
            return cls()
        return cls(gram=kernel) if kernel.ndim == 2 else cls(weights=kernel)

    def partner(self, psi_plus: Tensor) -> Tensor:
        """Return the partner of each row of psi: its own, or the mean of all under the Gram block.

        Pair weights are left to the caller, who multiplies different things by them.
        """
        return psi_plus if self.gram is None else self.gram @ psi_plus / len(psi_plus)
