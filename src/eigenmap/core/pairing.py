"""Pairing: how the rows of psi and of psi_plus are related."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Pairing(NamedTuple):
    """The `kernel` of a batch, read: objectives, moments and health checks all take it apart here.

    - Neither: row b of psi and row b of psi_plus are a pair, and every pair counts alike.
    - `weights` (B,): the same, with weights of the pairs.
    - `gram` (B, B'), dense or sparse: a block of a Gram matrix.
    """

    weights: Tensor | None = None
    gram: Tensor | None = None

    @classmethod
    def of(cls, kernel: Tensor | None) -> Pairing:
        """Read a kernel: None, one number per pair, or a matrix."""
        if kernel is None:
            return cls()
        return cls(gram=kernel) if kernel.ndim == 2 else cls(weights=kernel)

    def partner(self, psi_plus: Tensor) -> Tensor:
        """What each row of psi is paired with: its own partner, or the mean of all under the Gram block.

        Weights of pairs are left to the caller, since what they multiply differs.
        """
        return psi_plus if self.gram is None else self.gram @ psi_plus / len(psi_plus)
