"""Scores of functions as the leading eigenfunctions of a kernel, feature by feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.eigenfunctions.problems import SAME, Truth
from eigenmap.spectrum import Moments, align

GOOD = 0.95
"""Minimum alignment of a mode that counts as found."""


@dataclass(frozen=True)
class Found:
    """A method's functions at the nodes of a problem, (m, r) with r <= k, and their eigenvalues (r,)."""

    psi: Tensor
    mu: Tensor


def scores(found: Found, truth: Truth, k: int, same: float = SAME) -> dict[str, Any]:
    """Alignment and eigenvalue error of every mode, and the largest inner product of two different features."""
    mu = truth.mu[:k]
    unit = normalised(found.psi, truth.weights)
    estimates = torch.zeros(k, dtype=torch.float64)
    estimates[: len(found.mu)] = found.mu
    return {
        "alignment": alignments(unit, truth, k, same).tolist(),
        "eigenvalues": estimates.tolist(),
        "eigenvalue_error": ((estimates - mu).abs() / mu.abs()).tolist(),
        "off_diagonal": float((unit.T @ unit).fill_diagonal_(0).abs().max()),
    }


def normalised(psi: Tensor, weights: Tensor) -> Tensor:
    """Values times the root of the weights, columns of norm 1: inner products are those of L2(p)."""
    rooted = psi * weights.sqrt()[:, None]
    return rooted / rooted.norm(dim=0).clamp_min(1e-300)


def alignments(unit: Tensor, truth: Truth, k: int, same: float = SAME) -> Tensor:
    """|<psi_j, phi_j>| of every j; in a group, cosines of the angles between the two spaces, the best first.

    Features in the places of a group are compared with the whole eigenspace, since any basis of it is right. They are
    orthogonalised first, so that a repeated function does not count twice; a missing feature counts 0.
    """
    phi = normalised(truth.phi, truth.weights)
    cosines = torch.zeros(k, dtype=torch.float64)
    for group in truth.groups(k, same):
        mine = unit[:, [j for j in group if j < unit.shape[1] and j < k]]
        if mine.shape[1] == 0:
            continue
        left, sizes, _ = torch.linalg.svd(mine, full_matrices=False)
        basis = left[:, sizes > 1e-6 * sizes[0]]
        found = torch.linalg.svdvals(basis.T @ phi[:, group])
        cosines[group[0] : group[0] + len(found)] = found.clamp_max(1.0)
    return cosines


def rayleigh(psi: Tensor, gram: Tensor) -> Tensor:
    """psi_j^T K psi_j / (n |psi_j|^2): the eigenvalue of each feature as it is."""
    return (psi * (gram @ psi)).sum(0) / len(psi) / psi.square().sum(0).clamp_min(1e-300)


def aligned(psi: Tensor, gram: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The library's alignment on the training points, one joint block: a rotation (k, r) of psi, and eigenvalues."""
    scale = psi.square().mean(0).sqrt().clamp_min(1e-300)
    moments = Moments(psi.shape[1]).update(psi / scale, psi / scale, gram)
    alignment = align(moments, moments, centre=False).cut(k)
    return alignment.rotation / scale[:, None], alignment.eigenvalues


def held_out_score(psi: Tensor, gram: Tensor) -> float:
    """Mean logarithm of the eigenvalues of the features' span on held-out points, by which rates are chosen.

    It needs no truth, and unlike the sum of the eigenvalues it is sensitive to small ones.
    """
    _, mu = aligned(psi, gram, psi.shape[1])
    found = torch.full((psi.shape[1],), 1e-12, dtype=torch.float64)
    found[: len(mu)] = mu.clamp_min(1e-12)
    return float(found.log10().mean())
