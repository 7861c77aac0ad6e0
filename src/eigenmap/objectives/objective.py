"""Base class of all objectives: signature, precision and argument checks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from eigenmap.core.arguments import is_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.pairing import Pairing
from eigenmap.objectives.moments import average, world_size


class Objective(nn.Module, ABC):
    """Loss on the codes of related inputs: `loss = objective(psi, psi_plus, kernel=None)`.

    `psi` (B, k) and `psi_plus` (B', k) are the raw outputs of the network; the objective normalises them itself.
    `kernel` states how their rows are related:

    - None: row b of `psi` and row b of `psi_plus` are a pair, and all pairs have equal weight;
    - (B,): non-negative weights of these pairs, of any scale; every expectation is weighted;
    - (B, B'), dense or sparse: a block K of a Gram matrix, R = psi^T K psi_plus / (B B').

    The value is that of the *global batch*: with torch.distributed initialised, the rows of all processes (equally many
    on each) form one batch, and parameter gradients averaged over the processes, as in DistributedDataParallel, equal
    those of one process with the joined batch.

    The arithmetic is float32 (float64 for float64 input) even under autocast, and never waits for the device.
    """

    summary: str
    """One-line summary for lists; the docstring has the exact definition."""
    ordered: bool = False
    """Whether the features have an inherent order."""
    takes_gram: bool = True
    """Whether the kernel may be a Gram block."""
    fusible: bool = False
    """Whether training may compile the objective. This requires plain operations: torch 2.11 compiled a loss with an
    explicit gradient, as in `squared_moments`, to the right value and a gradient of zero."""

    def forward(self, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None = None) -> Tensor:
        """Return the loss of the global batch, a scalar."""
        self._check_shapes(psi, psi_plus, kernel)
        dtype = torch.promote_types(torch.promote_types(psi.dtype, psi_plus.dtype), torch.float32)
        with torch.autocast(device_type=psi.device.type, enabled=False):
            psi, psi_plus = psi.to(dtype), psi_plus.to(dtype)
            weights, gram = Pairing.of(None if kernel is None else kernel.detach().to(device=psi.device, dtype=dtype))
            if weights is not None:
                # Mean one over all processes; the floor only prevents NaN for an all-zero batch.
                weights = weights / average(weights.mean()).clamp_min(torch.finfo(dtype).tiny)
            return self.loss(psi, psi_plus, weights, gram)

    def check_components(self, k: int) -> None:
        """Raise an error if this objective cannot train k features."""

    @abstractmethod
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        """Return the loss; `weights` (B,) have global mean one, `gram` is (B, B')."""

    def _check_shapes(self, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None) -> None:
        name = type(self).__name__
        if psi.ndim != 2 or psi_plus.ndim != 2 or psi.shape[1] != psi_plus.shape[1]:
            raise EigenmapError(
                f"{name} takes two matrices with one row per item and the same number of columns, "
                f"not shapes {tuple(psi.shape)} and {tuple(psi_plus.shape)}"
            )
        if len(psi) * world_size() < 2:
            raise EigenmapError(f"{name} estimates moments from a batch and needs at least 2 rows, not {len(psi)}")
        if Pairing.of(kernel).gram is not None:
            assert kernel is not None
            if not self.takes_gram:
                raise EigenmapError(
                    f"{name} compares the two ends of pairs and has no meaning for a Gram block; "
                    "give pairs, or choose neuralef, neuralef-gram, nested or scl"
                )
            if kernel.shape != (len(psi), len(psi_plus)):
                raise EigenmapError(
                    f"the Gram block must be {len(psi)} x {len(psi_plus)} like the rows of psi and psi_plus, "
                    f"not {kernel.shape[0]} x {kernel.shape[1]}"
                )
            return
        if psi.shape != psi_plus.shape:
            raise EigenmapError(f"{name} needs as many rows in psi as in psi_plus, not {len(psi)} and {len(psi_plus)}")
        if kernel is not None and kernel.shape != (len(psi),):
            raise EigenmapError(
                f"pair weights must be one number per pair ({len(psi)}) and a Gram block a matrix, "
                f"not a kernel of shape {tuple(kernel.shape)}"
            )


def switch(name: str, value: Any) -> bool:
    """Return `value` if it is a bool; a string such as "no" would count as true."""
    if not isinstance(value, bool):
        raise EigenmapError(f"{name} must be true or false, not {value!r}")
    return value


def number(name: str, value: Any, *, zero: bool = True, most: float = math.inf) -> float:
    """Return `value` if it is a finite number in [0, most], or (0, most] without `zero`; else raise."""
    valid = isinstance(value, Real) and is_number(value)
    if not valid or not 0 <= value <= most or (value == 0 and not zero):
        limit = "" if most == math.inf else f" and at most {most:g}"
        raise EigenmapError(f"{name} must be a number {'at least' if zero else 'above'} 0{limit}, not {value!r}")
    return float(value)
