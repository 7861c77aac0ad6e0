"""Choice of the alignment: ridge, order and exponent t, by their quality on held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from eigenmap.spectrum.alignment import Alignment
from eigenmap.spectrum.moments import Moments
from eigenmap.spectrum.quality import (
    PREFIXES,
    RECALL_LENGTHS,
    agreement,
    available,
    captured_by,
    neighbour_count,
    recall_curve,
)
from eigenmap.spectrum.ritz import Judge, Principal, centre_of, in_own_order, ritz

RIDGES = (0.0, 0.001, 0.01, 0.1, 1.0)
"""Candidates for gamma, in units of the mean variance of a feature (the trace of C over k)."""

EXPONENTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Candidates for t. Weak augmentations leave eigenvalues close to 1 and call for a large t."""

FEWEST_PAIRS = 100
"""Minimum number of held-out pairs for choosing t; with fewer it is 1."""

TELLING, LITTLE = 2.0, 0.01
"""Agreement below `TELLING` times that of chance, with a mean eigenvalue below `LITTLE`, counts as none."""

SHORT = (8, 16, 32)
"""Lengths at which candidates' neighbours are compared; shorter codes have too many ties, longer ones differ little."""


def best_alignment(
    fit: Moments,
    held_out: Moments,
    held_out_pairs: tuple[Tensor, Tensor],
    *,
    n_components: int | None = None,
    ridges: Sequence[float] = RIDGES,
    exponents: Sequence[float] = EXPONENTS,
    centre: bool = True,
    judge: Literal["captured", "agreement"] = "captured",
    own: bool = True,
) -> Alignment:
    """Return the alignment whose prefixes are best on held-out pairs.

    The candidates are the rotations for all ridges and the network's own order. The winner's exponent t is the one with
    the best `agreement`. If that is hardly better than chance with `judge="agreement"`, the relation carries no
    information, and the rotation of the last ridge is returned with t = 0.

    Args:
        fit: moments that determine the rotations.
        held_out: moments of other pairs, which determine eigenvalues, order and choice.
        held_out_pairs: raw outputs (psi, psi_plus) of some of the held-out pairs; a few thousand are enough.
        n_components: maximum number of features; None keeps all.
        ridges: candidates for gamma, in units of the mean variance of a feature.
        exponents: candidates for t.
        centre: whether features are centred.
        judge: measure that candidates are compared by. "agreement" is for graphs, where large eigenvalues may belong to
            a handful of nodes.
        own: whether the network's own order is a candidate. Leave it out if the network has no order and `judge` is
            "agreement", which does not measure the shortest prefixes.

    """
    judging = Judge.of(held_out, centre_of(fit, centre))
    principal = Principal.of(fit, judging.m)
    candidates = [in_own_order(judging)] if own else []
    candidates += [ritz(principal, judging, ridge) for ridge in ridges]
    candidates = [candidate.cut(n_components) for candidate in candidates]
    shortest = min(candidates, key=lambda candidate: candidate.n_components)
    enough = len(held_out_pairs[0]) >= FEWEST_PAIRS
    # In TF32, cosines that differ in the last digits would be ties.
    pairs = [psi.double() if psi.is_cuda else psi for psi in held_out_pairs]

    def codes_of(candidate: Alignment, dim: int | None = None) -> list[Tensor]:
        return [candidate.apply(psi, dim, t=0.0, unit=False) for psi in pairs]

    def quality_of(candidate: Alignment) -> float:
        if judge == "captured" or not enough:
            return captured_by(candidate, judging, available(shortest, PREFIXES))
        lengths = available(shortest, SHORT)
        return agreement(codes_of(candidate, max(lengths)), lengths)

    judged = [(candidate, quality_of(candidate)) for candidate in candidates]
    # Of equals, max returns the first: the network's own order, then the smallest ridge.
    best, quality = max(judged, key=lambda pair: round(pair[1], 6))
    codes = codes_of(best)  # rotated once, since exponents change only the weights
    lengths = _damped_lengths(best)
    found = {float(t): agreement(_weighted(codes, best, t), lengths) for t in exponents} if enough else {}
    t = max(found, key=lambda t: found[t]) if found else 1.0
    if judge == "agreement" and found and _by_chance(best, found[t], len(codes[0])):
        # The relation shares nothing: order features by their variance.
        best, t = candidates[-1], 0.0
        codes = codes_of(best)
    recall = recall_curve(_weighted(codes, best, t), available(best, RECALL_LENGTHS))
    return replace(best, t=t, quality=quality, agreement=found, recall=recall).to("cpu")


def _weighted(codes: Sequence[Tensor], alignment: Alignment, t: float) -> list[Tensor]:
    """Return codes with the weights max(mu_j, 0)^t of an alignment."""
    return [code * alignment.weights(t).to(code) for code in codes]


def _by_chance(alignment: Alignment, agreement: float, pairs: int) -> bool:
    """Tell whether neighbours agree hardly more than by chance and hardly any eigenvalue is clearly positive."""
    certain = torch.where(alignment.eigenvalues > 2 * alignment.noise, alignment.eigenvalues, 0.0)
    return agreement < TELLING * neighbour_count(10, pairs) / pairs and float(certain.mean()) < LITTLE


def _damped_lengths(alignment: Alignment) -> list[int]:
    """Return the lengths at which t is chosen: 8, 16, ... and all features; weights hardly change shorter codes."""
    n = alignment.n_components
    return [*(2**i for i in range(3, 16) if 2**i < n), n]
