"""Alignment of a trained network: both of its outputs are ordered, and the better one becomes the code.

`spectrum` does the mathematics. What differs between kinds of data, the moments, comes in as `Evidence`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from eigenmap.core.logging import LogFunction
from eigenmap.model import CodeSource
from eigenmap.spectrum import EXPONENTS, RIDGES, Alignment, Moments, best_alignment


@dataclass(frozen=True)
class Criteria:
    """Which alignments compete, and by what they are judged; see `spectrum.best_alignment`.

    `own` names the outputs whose own order is a candidate: those that training may have ordered.
    """

    ridges: Sequence[float] = RIDGES
    exponents: Sequence[float] = EXPONENTS
    judge: Literal["captured", "agreement"] = "captured"
    own: Sequence[CodeSource] = ("encoder", "projector")


@dataclass(frozen=True)
class Evidence:
    """What pairs say about each output of a network.

    Attributes:
        fit: moments of training pairs, which the rotation comes from.
        held_out: moments of held-out pairs, which eigenvalues, order and every choice come from.
        codes: both sides of some held-out pairs, whose neighbours are compared.
        mean: the mean of what will be encoded, where that is not what was trained on.
        criteria: how to judge.

    """

    fit: Mapping[CodeSource, Moments]
    held_out: Mapping[CodeSource, Moments]
    codes: Mapping[CodeSource, tuple[Tensor, Tensor]]
    mean: Mapping[CodeSource, Tensor] | None = None
    criteria: Criteria = field(default_factory=Criteria)


@torch.no_grad()
def align_outputs(evidence: Evidence, sources: Sequence[CodeSource], n_components: int) -> dict[CodeSource, Alignment]:
    """The alignment of each output: rotated on training pairs, judged on held-out pairs."""
    how, aligned = evidence.criteria, {}
    for source in sources:
        best = best_alignment(
            evidence.fit[source],
            evidence.held_out[source],
            evidence.codes[source],
            n_components=n_components,
            ridges=how.ridges,
            exponents=how.exponents,
            judge=how.judge,
            own=source in how.own,
        )
        if evidence.mean is not None:
            best = replace(best, mean=evidence.mean[source])
        aligned[source] = best.to("cpu")
    return aligned


def best_output(
    aligned: Mapping[CodeSource, Alignment], n_components: int, say: LogFunction
) -> tuple[CodeSource, Alignment]:
    """The output that makes the best codes on held-out pairs, and its alignment; a low rank is reported."""
    source = max(aligned, key=lambda name: aligned[name].quality)
    alignment = aligned[source]
    if alignment.n_components < n_components:
        say(f"The rank found is {alignment.n_components}: the model has so many features, not {n_components}.")
    return source, alignment
