"""Linear map from raw network outputs to ordered codes.

codes = alignment.apply(psi, dim=16)
alignment.suggest_dim(spectrum=0.95)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError


@dataclass(frozen=True)
class Alignment:
    """Map from raw network outputs to ordered codes: computed by `best_alignment` or `align`, stored with the model."""

    mean: Tensor  # (k,)
    rotation: Tensor  # (k, r), columns sorted by importance
    eigenvalues: Tensor  # (r,) signed, held-out Rayleigh quotients
    power: Tensor  # (r,) held-out variance of each feature, before weighting
    t: float = 0.0
    ridge: float = 0.0
    own_order: bool = False
    quality: float = float("nan")
    noise: float = 0.0  # standard error of a held-out eigenvalue whose true value is zero
    head: int = 0  # number of features of the first stage (`staged`)
    recall: dict[int, float] = field(default_factory=dict)  # length -> recall@10 of the full-length neighbours
    agreement: dict[float, float] = field(default_factory=dict)  # exponent -> agreement of two views about neighbours

    @property
    def n_components(self) -> int:
        """Number r of ordered features: the network's k, or the rank if that is lower."""
        return self.rotation.shape[1]

    def cut(self, n_components: int | None) -> Alignment:
        """Keep the first `n_components` features; None keeps all."""
        if n_components is None or n_components >= self.n_components:
            return self
        columns = slice(n_components)
        return replace(
            self,
            rotation=self.rotation[:, columns],
            eigenvalues=self.eigenvalues[columns],
            power=self.power[columns],
            recall={},  # measured at the full length
            agreement={},
        )

    def to(self, device: torch.device | str) -> Alignment:
        """Move the alignment to another device."""
        tensors: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)

    def weights(self, t: float | None = None) -> Tensor:
        """Return max(mu, 0)^t relative to the largest; features without a positive eigenvalue get 0 unless t = 0.

        Only ratios matter to a code, and powers of a small eigenvalue would underflow float32.
        """
        mu = self.eigenvalues.clamp(min=0)
        return (mu / mu.max().clamp(min=torch.finfo(mu.dtype).tiny)).pow(self.t if t is None else t)

    def apply(self, psi: Tensor, dim: int | None = None, t: float | None = None, *, unit: bool = True) -> Tensor:
        """Return the first `dim` ordered features of each row of `psi`, as rows of norm 1 unless `unit=False`."""
        mean, rotation = self._ready(psi, self.n_components if dim is None else dim, self.t if t is None else t)
        code = (psi if mean is None else psi - mean) @ rotation
        return _unit_rows(code) if unit else code

    def _ready(self, psi: Tensor, dim: int, t: float) -> tuple[Tensor | None, Tensor]:
        """Return the mean (None if zero) and the weighted rotation in the precision and on the device of psi.

        The last result is kept, because preparing both takes longer than applying them to a single row.
        """
        wanted = (dim, t, psi.dtype, psi.device)
        kept: tuple[object, tuple[Tensor | None, Tensor]] | None = self.__dict__.get("_kept")
        if kept is not None and kept[0] == wanted:
            return kept[1]
        dim = whole_number(dim, "dim", 1, self.n_components)
        with torch.inference_mode(False), torch.no_grad():
            mean = self.mean.to(psi) if bool(self.mean.any()) else None
            made = mean, (self.rotation * self.weights(t))[:, :dim].to(psi)
        self.__dict__["_kept"] = (wanted, made)
        return made

    def suggest_dim(self, *, spectrum: float | None = None, recall: float | None = None) -> int:
        """Return the shortest length that keeps a share of the spectrum, or of the full-length nearest neighbours.

        `spectrum` is the share of the variance of the weighted features, max(mu, 0)^2t for features of unit variance,
        and so of the inner products of codes. Both shares were measured on held-out pairs. Give exactly one of the two,
        in (0, 1].
        """
        if (spectrum is None) == (recall is None):
            raise EigenmapError("Give exactly one of spectrum= and recall=, for example suggest_dim(spectrum=0.95).")
        share = spectrum if spectrum is not None else recall
        if not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise EigenmapError(f"The share must be in (0, 1], for example 0.95, not {share!r}.")
        if spectrum is not None:
            energy = torch.where(self.eigenvalues > 2 * self.noise, self.power * self.weights().square(), 0.0)
            kept = energy.cumsum(0) / energy.sum().clamp(min=1e-300)
            return min(int((kept < spectrum - 1e-12).sum()) + 1, self.n_components)
        if not self.recall:
            raise EigenmapError("This model has no recall curve; use suggest_dim(spectrum=...) instead.")
        return min((d for d, r in self.recall.items() if r >= share - 1e-12), default=self.n_components)


def _unit_rows(x: Tensor) -> Tensor:
    """Divide rows by their norm, whatever the size of their numbers; a row of zeros stays zero."""
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    unit: Tensor = x / norm.masked_fill(norm == 0, 1.0)
    least = torch.finfo(x.dtype).tiny ** 0.5
    odd = ((norm < least) | (norm > 1 / least)).flatten()  # the squares may have vanished or overflowed
    if bool(odd.any()):
        largest = x[odd].abs().amax(1, keepdim=True)
        unit[odd] = normalize(x[odd] / largest.masked_fill(largest == 0, 1.0), dim=1)
    return unit
