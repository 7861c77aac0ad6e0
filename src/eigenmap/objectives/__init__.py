"""Objectives: losses on the codes of related inputs.

Every objective is an `nn.Module` called as `loss = objective(psi, psi_plus, kernel=None)`; `Objective` documents the
arguments and the behaviour on several processes. `build` makes one by name.

Example::

    from eigenmap.objectives import build

    objective = build("neuralef-gram", unbiased=True)
    loss = objective(psi, psi_plus)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives.barlow_twins import BarlowTwins
from eigenmap.objectives.info_nce import InfoNCE
from eigenmap.objectives.matryoshka import Matryoshka
from eigenmap.objectives.nested import NestedMoments
from eigenmap.objectives.neuralef import GramNeuralEF, NeuralEF, shift_for
from eigenmap.objectives.nt_logistic import NTLogistic
from eigenmap.objectives.objective import Objective
from eigenmap.objectives.ritz import RitzLogDet, RitzTrace
from eigenmap.objectives.simclr import SimCLR
from eigenmap.objectives.spectral_contrastive import SpectralContrastive
from eigenmap.objectives.vicreg import VICReg

__all__ = [
    "OBJECTIVES",
    "BarlowTwins",
    "GramNeuralEF",
    "InfoNCE",
    "Matryoshka",
    "NTLogistic",
    "NestedMoments",
    "NeuralEF",
    "Objective",
    "RitzLogDet",
    "RitzTrace",
    "SimCLR",
    "SpectralContrastive",
    "VICReg",
    "build",
    "shift_for",
]


def _matryoshka_scl(
    lengths: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    scale: float = 10.0,
    rows: str = "normalised",
) -> Matryoshka:
    return Matryoshka(SpectralContrastive(scale=scale, rows=rows), lengths=lengths, weights=weights)


def _matryoshka_info_nce(
    lengths: Sequence[int] | None = None, weights: Sequence[float] | None = None, temperature: float = 0.1
) -> Matryoshka:
    return Matryoshka(InfoNCE(temperature=temperature), lengths=lengths, weights=weights)


OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "neuralef": NeuralEF,
    "neuralef-unordered": partial(NeuralEF, ordered=False),
    "neuralef-ratio": partial(NeuralEF, alpha=1.0, ratio=True),
    # Twice the strength 1/(4c) that orders every spectrum in [0, 1].
    "neuralef-shifted": partial(NeuralEF, alpha=1.0, shift=0.5),
    "neuralef-gram": GramNeuralEF,
    "scl": SpectralContrastive,
    "scl-clipped": partial(SpectralContrastive, rows="clipped"),
    "barlow-twins": BarlowTwins,
    "vicreg": VICReg,
    "simclr": SimCLR,
    "nt-logistic": NTLogistic,
    "nested": NestedMoments,
    "matryoshka-scl": _matryoshka_scl,
    "info-nce": InfoNCE,
    "matryoshka-info-nce": _matryoshka_info_nce,
    "ritz-trace": RitzTrace,
    "ritz-logdet": RitzLogDet,
}
"""Constructor of every objective by name."""


def build(name: str, **options: Any) -> Objective:
    """Build the objective called `name`, passing `options` to its constructor.

    Raises `EigenmapError` for an unknown name or option, and for an invalid value.
    """
    if name not in OBJECTIVES:
        raise EigenmapError(f"unknown objective {name!r}; choose one of {', '.join(OBJECTIVES)}")
    allowed = signature(OBJECTIVES[name]).parameters
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise EigenmapError(f"{name} has no option {', '.join(unknown)}; it takes {', '.join(allowed)}")
    return OBJECTIVES[name](**options)
