"""Quality of ordered codes, measured on held-out pairs without labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenmap.spectrum.alignment import Alignment
from eigenmap.spectrum.moments import Moments
from eigenmap.spectrum.ritz import Judge

PREFIXES = (1, 2, 4, 8, 16, 32, 64)
"""Lengths at which `captured` measures prefixes."""

RECALL_LENGTHS = tuple(sorted({1, *(2**i for i in range(1, 16)), *(3 * 2**i for i in range(15))}))
"""Lengths of the recall curve of a model: 1, 2, 3, 4, 6, 8, 12, ..."""


def captured(alignment: Alignment, held_out: Moments, lengths: Sequence[int] = PREFIXES) -> float:
    """Return the mean eigenvalue of the spaces that prefixes span, averaged over `lengths`.

    For the first d features V it is tr((V^T C V)^-1 V^T A V) / d on held-out pairs. Rescaling or repeating features
    cannot raise it.
    """
    return captured_by(alignment, Judge.of(held_out, alignment.mean), lengths)


def captured_by(alignment: Alignment, judge: Judge, lengths: Sequence[int]) -> float:
    """Compute `captured` from held-out moments about the alignment's mean."""
    shares = []
    for d in available(alignment, lengths):
        V = alignment.rotation[:, :d]
        inner = V.T @ judge.C @ V
        scale = inner.diagonal().clamp(min=1e-300).rsqrt()
        # A tiny ridge avoids division by zero for features that are repeated, or constant on these pairs.
        inner = scale[:, None] * inner * scale + 1e-9 * torch.eye(d).to(inner)
        shares.append(torch.linalg.solve(inner, scale[:, None] * (V.T @ judge.A @ V) * scale).trace() / d)
    return float(torch.stack(shares).mean())


def neighbour_agreement(code: Tensor, code_plus: Tensor, top: int = 10) -> float:
    """Return the overlap of the nearest neighbours of x and of x+ among the other items.

    Unlike the rate at which x finds x+, it does not reward codes that only separate every item from every other.
    """
    n, top = len(code), neighbour_count(top, len(code))
    similarity, similarity_plus = (query @ code_plus.T for query in (code, code_plus))
    similarity.fill_diagonal_(-torch.inf)
    similarity_plus.fill_diagonal_(-torch.inf)
    # The two lists break ties from opposite ends of the gallery, so that a code without information does not agree.
    listed = similarity.topk(top, dim=1).indices
    listed_plus = n - 1 - similarity_plus.flip(1).topk(top, dim=1).indices
    shared = listed[:, :, None] == listed_plus[:, None, :]
    return float(shared.sum((1, 2)).double().mean() / top)


def agreement(codes: Sequence[Tensor], lengths: Sequence[int]) -> float:
    """Return the `neighbour_agreement` of the two codes of each pair, averaged over lengths."""
    code, code_plus = codes
    cuts = [neighbour_agreement(normalize(code[:, :d], dim=1), normalize(code_plus[:, :d], dim=1)) for d in lengths]
    return sum(cuts) / len(cuts)


def recall_curve(codes: Sequence[Tensor], lengths: Sequence[int], top: int = 10) -> dict[int, float]:
    """Return, by length, the share of the full-length nearest neighbours that the cut code finds."""
    query, gallery = codes
    full = query.shape[1]

    def neighbours(d: int) -> Tensor:
        similarity = normalize(query[:, :d], dim=1) @ normalize(gallery[:, :d], dim=1).T
        return similarity.topk(neighbour_count(top, len(gallery)), dim=1).indices

    truth = neighbours(full)
    return {
        d: float((neighbours(d)[:, :, None] == truth[:, None, :]).sum((1, 2)).double().mean() / truth.shape[1])
        for d in dict.fromkeys([*lengths, full])
    }


def available(alignment: Alignment, lengths: Iterable[int]) -> list[int]:
    """Return the `lengths` that the alignment has, or its full length if it is shorter than all of them."""
    return [d for d in lengths if d <= alignment.n_components] or [alignment.n_components]


def neighbour_count(top: int, n: int) -> int:
    """Return the number of neighbours to compare among n items: `top`, but at most a tenth of them."""
    return max(1, min(top, n // 10))
