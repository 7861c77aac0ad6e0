"""Objectives: losses on the codes of related inputs.

Every objective is an `nn.Module` called as `loss = objective(psi, psi_plus, kernel=None)`; `Objective` documents the
arguments and the behaviour with several processes. `build` constructs one by name.

Example::

    from eigenmap.objectives import build

    objective = build("neuralef-gram", unbiased=True)
    loss = objective(psi, psi_plus)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives.barlow_twins import BarlowTwins
from eigenmap.objectives.byol import BYOL
from eigenmap.objectives.info_nce import InfoNCE
from eigenmap.objectives.learning import LearningObjective, TaughtObjective
from eigenmap.objectives.matryoshka import Matryoshka
from eigenmap.objectives.moco import MoCo
from eigenmap.objectives.nested import NestedMoments
from eigenmap.objectives.neuralef import GramNeuralEF, NeuralEF, shift_for
from eigenmap.objectives.nt_logistic import NTLogistic
from eigenmap.objectives.objective import Objective
from eigenmap.objectives.ritz import RitzLogDet, RitzTrace
from eigenmap.objectives.simclr import SimCLR
from eigenmap.objectives.simsiam import SimSiam
from eigenmap.objectives.spectral_contrastive import SpectralContrastive
from eigenmap.objectives.swav import SwAV
from eigenmap.objectives.taught_scl import TaughtSpectralContrastive
from eigenmap.objectives.vicreg import VICReg

__all__ = [
    "BYOL",
    "OBJECTIVES",
    "BarlowTwins",
    "GramNeuralEF",
    "InfoNCE",
    "LearningObjective",
    "Matryoshka",
    "MoCo",
    "NTLogistic",
    "NestedMoments",
    "NeuralEF",
    "Objective",
    "RitzLogDet",
    "RitzTrace",
    "SimCLR",
    "SimSiam",
    "SpectralContrastive",
    "SwAV",
    "TaughtObjective",
    "TaughtSpectralContrastive",
    "VICReg",
    "build",
    "options_for",
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
    "swav": SwAV,
    "moco": MoCo,
    "byol": BYOL,
    "simsiam": SimSiam,
    "scl-taught": TaughtSpectralContrastive,
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


def options_for(name: str, options: Mapping[str, Any], previous: str) -> dict[str, Any]:
    """Return the `options` of the objective `previous` that are valid for the objective `name`.

    Objectives that share a constructor share their options, except those that the name fixes (`neuralef-unordered`
    fixes `ordered`). Between other objectives, options are refused.
    """
    if not options or name == previous or not {name, previous} <= OBJECTIVES.keys():
        return dict(options)  # `build` refuses a name that does not exist
    if _constructor(name) is not _constructor(previous):
        raise EigenmapError(
            f"{', '.join(options)} are options of {previous}, which {name} does not share: give objective_options for "
            f"{name} too ({{}} for its defaults)."
        )
    made = OBJECTIVES[name]
    fixed = made.keywords if isinstance(made, partial) else {}
    return {option: value for option, value in options.items() if option not in fixed}


def _constructor(name: str) -> Callable[..., Objective]:
    made = OBJECTIVES[name]
    return made.func if isinstance(made, partial) else made
