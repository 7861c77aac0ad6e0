"""Alignment of a trained network: a staged code of both outputs, or the better output alone.

`spectrum` does the mathematics. `Evidence` contains the moments, which are collected differently for each kind of data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from eigenmap.core.logging import LogFunction
from eigenmap.model import CodeSource
from eigenmap.spectrum import EXPONENTS, RIDGES, Alignment, Moments, best_alignment
from eigenmap.spectrum.staged import staged_alignment

LEAST_SHARED = 0.2
"""A fit whose largest eigenvalue on held-out pairs is below this has found next to nothing."""


@dataclass(frozen=True)
class Criteria:
    """Candidates for an alignment and the measure that compares them; see `spectrum.best_alignment`.

    `own` names the outputs whose own order is a candidate, since training may have ordered them.
    """

    ridges: Sequence[float] = RIDGES
    exponents: Sequence[float] = EXPONENTS
    judge: Literal["captured", "agreement"] = "captured"
    own: Sequence[CodeSource] = ("encoder", "projector")


class OutputEvidence(NamedTuple):
    """Moments and codes of one output, or of both side by side."""

    fit: Moments
    held_out: Moments
    codes: tuple[Tensor, Tensor]
    mean: Tensor | None


@dataclass(frozen=True)
class Evidence:
    """Moments and codes of each output of a network.

    Attributes:
        fit: moments of training pairs, which determine the rotation.
        held_out: moments of held-out pairs, which determine eigenvalues, order and every choice.
        codes: both sides of some held-out pairs, for comparing neighbours.
        mean: mean of the outputs at inference, if it differs from that in training.
        criteria: candidates, and the measure that compares them.
        staged: output for a staged code: "both", or "encoder" if the projector is not trained; None for no staged code.
        width: number of encoder features, which come first in "both".

    """

    fit: Mapping[CodeSource, Moments]
    held_out: Mapping[CodeSource, Moments]
    codes: Mapping[CodeSource, tuple[Tensor, Tensor]]
    mean: Mapping[CodeSource, Tensor] | None = None
    criteria: Criteria = field(default_factory=Criteria)
    staged: CodeSource | None = None
    width: int = 0

    def of(self, source: CodeSource) -> OutputEvidence:
        """Return the evidence for one output, as a part of "both" if that was collected."""
        if source in self.fit:
            mean = None if self.mean is None else self.mean[source]
            return OutputEvidence(self.fit[source], self.held_out[source], self.codes[source], mean)
        fit, held_out, (codes, codes_plus), mean = self.of("both")
        part = slice(0, self.width) if source == "encoder" else slice(self.width, None)
        return OutputEvidence(
            fit.part(part),
            held_out.part(part),
            (codes[:, part], codes_plus[:, part]),
            None if mean is None else mean[part],
        )


@torch.no_grad()
def align_outputs(evidence: Evidence, sources: Sequence[CodeSource], n_components: int) -> dict[CodeSource, Alignment]:
    """Align each output: the rotation comes from training pairs, every choice from held-out pairs."""
    return {source: _aligned(evidence, source, n_components) for source in sources}


def _aligned(evidence: Evidence, source: CodeSource, n_components: int) -> Alignment:
    how = evidence.criteria
    fit, held_out, codes, mean = evidence.of(source)
    if source == evidence.staged:
        best = staged_alignment(fit, held_out, codes, width=evidence.width, n_components=n_components)
    else:
        best = best_alignment(
            fit,
            held_out,
            codes,
            n_components=n_components,
            ridges=how.ridges,
            exponents=how.exponents,
            judge=how.judge,
            own=source in how.own,
        )
    return (best if mean is None else replace(best, mean=mean)).to("cpu")


def sources_of(
    codes: Literal["auto", "encoder", "projector"], staged: CodeSource | None = None
) -> Sequence[CodeSource]:
    """Return the outputs to choose from: the one requested, or for "auto" the staged one if there is one, else both."""
    if codes != "auto":
        return (codes,)
    return ("encoder", "projector") if staged is None else (staged,)


def best_output(
    aligned: Mapping[CodeSource, Alignment], n_components: int, say: LogFunction
) -> tuple[CodeSource, Alignment]:
    """Return the output with the best codes on held-out pairs, and its alignment; report a low rank."""
    source = max(aligned, key=lambda name: aligned[name].quality)
    alignment = aligned[source]
    if alignment.n_components < n_components:
        say(f"The rank found is {alignment.n_components}, so the model has that many features, not {n_components}.")
    largest = float(alignment.eigenvalues.max())
    if largest < LEAST_SHARED:
        say(
            f"The largest eigenvalue on held-out pairs is {largest:.2g}: the two ends of a pair share next to nothing, "
            "and the codes mean little. Train longer, or try weaker views or other pairs."
        )
    return source, alignment
