r"""Held-out search for partners, the measure by which codes of vectors are compared.

Every query ranks the gallery by the cosine of the cut codes. With rel_r = 1 if the item at rank r belongs to it,

    nDCG@10 = sum_{r<=10} rel_r / log2(1 + r)   /   the same sum for the best possible ranking,

averaged over queries. With a single partner, rank 1 scores 1, rank 2 scores .63, and ranks beyond 10 score 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenmap.core.errors import EigenmapError

TOP = 10
_TINY = float(torch.finfo(torch.float32).tiny)
_SHORTEST = 8
"""Shortest length at which codes are compared, unless they have fewer than twice as many features."""

Project = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Judge:
    """Held-out search task.

    Attributes:
        queries: (n, d) rows of the left side.
        gallery: (m, d') rows of the right side.
        relevant: (n, m) booleans, whether a gallery row belongs to a query.
        own: (n, m) booleans, whether a gallery row is the query itself, which is then excluded from its ranking.

    """

    queries: Tensor
    gallery: Tensor
    relevant: Tensor
    own: Tensor | None = None

    def scores(self, left: Tensor, right: Tensor, lengths: Sequence[int]) -> dict[int, float]:
        """Return the nDCG@10 of codes of the queries and the gallery at each length."""
        left, right = (_single(side) for side in (left, right))
        products, power = left.new_zeros(len(left), len(right)), right.new_zeros(len(right))
        found, done = {}, 0
        for d in sorted(set(lengths)):  # products of a longer prefix are those of the shorter one and some more
            products.addmm_(left[:, done:d], right[:, done:d].T)
            power += right[:, done:d].square().sum(1)
            # Cosines of one feature are 1, 0 or -1; rounding would break their ties at random.
            cosines = products * power.clamp(min=_TINY).rsqrt() if d > 1 else left[:, :1].sign() @ right[:, :1].sign().T
            found[d] = self._score(cosines)
            done = d
        return {d: found[d] for d in lengths}

    def of(self, left: Project, right: Project, lengths: Sequence[int]) -> dict[int, float]:
        """Return the nDCG@10 of two maps, applied to queries and gallery, at each length."""
        return self.scores(left(self.queries), right(self.gallery), lengths)

    def recall(self, left: Tensor, right: Tensor, lengths: Sequence[int]) -> dict[int, float]:
        """Return, by length, the share of the ten nearest at full length that are among the ten nearest when cut."""
        truth = self._nearest(left, right)
        total = truth.sum()
        return {d: float((self._nearest(left[:, :d], right[:, :d]) & truth).sum() / total) for d in lengths}

    def _nearest(self, left: Tensor, right: Tensor) -> Tensor:
        """Return (n, m), whether a gallery row is among the ten nearest of a query."""
        similarity = self._similarity(left, right)
        listed = similarity.topk(min(TOP, similarity.shape[1] - (self.own is not None)), dim=1).indices
        return torch.zeros(similarity.shape, dtype=torch.bool).scatter_(1, listed, True)

    def _similarity(self, left: Tensor, right: Tensor) -> Tensor:
        similarity = normalize(left.float(), dim=1) @ normalize(right.float(), dim=1).T
        return similarity if self.own is None else similarity.masked_fill_(self.own, -torch.inf)

    @cached_property
    def _partner(self) -> Tensor | None:
        """The gallery row of each query, (n, 1), if each has exactly one."""
        return self.relevant.int().argmax(1, keepdim=True) if bool((self.relevant.sum(1) == 1).all()) else None

    def _score(self, similarity: Tensor) -> float:
        """Return the nDCG@10 of cosines, up to a factor of each query; they are overwritten."""
        if self.own is not None:
            similarity.masked_fill_(self.own, -torch.inf)
        if self._partner is None:
            return ndcg(similarity, self.relevant)
        rank = similarity.ge_(similarity.gather(1, self._partner)).sum(1)  # in place: far quicker than sorting
        return float(torch.where(rank <= TOP, 1 / (1 + rank.double()).log2(), 0.0).mean())


def _single(codes: Tensor) -> Tensor:
    """Return codes as float32, whose cosines are compared; raise if their inner products would overflow.

    Small codes are multiplied by a power of two, which loses no digit, so that their squares do not vanish.
    """
    largest = float(codes.abs().max()) if codes.numel() else 0.0
    if 0 < largest < 1:
        codes = codes.double() * 2.0 ** min(-math.frexp(largest)[1], 1000)
    codes = codes.float()
    if not bool(codes.square().sum(1).isfinite().all()):
        raise EigenmapError("The vectors contain numbers too large for float32; scale them down.")
    return codes


def ndcg(similarity: Tensor, relevant: Tensor, top: int = TOP) -> float:
    """Return the mean nDCG@top over queries with relevant items."""
    top = min(top, similarity.shape[1])
    discount = torch.arange(2, top + 2, dtype=torch.float64).log2().reciprocal()
    listed = similarity.topk(top, dim=1).indices
    hits = relevant.gather(1, listed).double()
    wanted = relevant.sum(1).clamp(max=top)
    ideal = torch.cat([discount.new_zeros(1), discount.cumsum(0)])[wanted]
    some = wanted > 0
    gains = (hits @ discount)[some] / ideal[some]
    return float(gains.mean()) if bool(some.any()) else 0.0


def judged_lengths(n_components: int) -> list[int]:
    """Return the lengths at which codes are compared: 8, 16, 32, ... and all features; from 1 for short codes.

    >>> judged_lengths(48), judged_lengths(6)
    ([8, 16, 32, 48], [1, 2, 4, 6])
    """
    return [*_doubled(n_components), n_components]


def table_lengths(n_components: int) -> list[int]:
    """Return the lengths that are reported: the judged lengths and those halfway between them.

    >>> table_lengths(48)
    [8, 12, 16, 24, 32, 48]
    """
    doubled = _doubled(n_components)
    between = [3 * length // 2 for length in doubled if length % 2 == 0 and 3 * length // 2 < n_components]
    return [*sorted({*doubled, *between}), n_components]


def _doubled(n_components: int) -> list[int]:
    first = _SHORTEST if n_components >= 2 * _SHORTEST else 1
    lengths = []
    while first < n_components:
        lengths.append(first)
        first *= 2
    return lengths
