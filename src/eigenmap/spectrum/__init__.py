r"""From any trained network to ordered codes: the Rayleigh-Ritz step.

A network psi: X -> R^k spans a space of functions. Over pairs (x, x+) of a relation, collect

    C = E[psi psi^T]   (both views),        A = sym E[psi(x) psi(x+)^T],

both centred, and solve the *signed* generalised eigenproblem

    A v = mu (C + gamma I) v,        mu_1 >= mu_2 >= ...

The features phi_j = v_j . (psi - m) are the best approximation, inside the span, of the eigenfunctions of the
relation: uncorrelated, sorted, each with the eigenvalue mu_j = E[phi_j(x) phi_j(x+)] / E[phi_j^2] that says how
much of the feature two related things share. The ridge gamma leads from exact Ritz features (gamma = 0) to the
principal components of the shared covariance A (gamma = infinity); it also shrinks the noise of C.

In-sample Ritz values lie: with k features and N pairs the best of k noisy directions looks significant. So the
rotation comes from one part of the pairs, and everything that is reported or decided (eigenvalues, order, weights,
the exponent t, the ridge, whether to rotate at all, suggested lengths) comes from another.

A code is phi_j(x) * max(mu_j, 0)^t up to a common factor: t steps of diffusion, so that features nobody shares do
not disturb long codes.

    fit, held_out = Moments(k), Moments(k)
    fit.update(psi, psi_plus); held_out.update(...)          # stream, in any number of batches
    alignment = best_alignment(fit, held_out, (psi_held, psi_plus_held))
    codes = alignment.apply(psi, dim=16)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from eigenmap.core.errors import EigenmapError
from eigenmap.core.pairing import Pairing

RIDGES = (0.0, 0.001, 0.01, 0.1, 1.0)
"""Candidates for gamma, in units of the mean variance of a feature (the trace of C over k)."""

EXPONENTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Candidates for t. Weak augmentations leave eigenvalues close to 1 and call for a large t."""

FEWEST_PAIRS = 100
"""With fewer held-out pairs there is too little to choose t by, and it is 1."""

TELLING, LITTLE = 2.0, 0.01
"""Agreement of less than so many times what chance gives, with a mean eigenvalue below `LITTLE`, says nothing."""

PREFIXES = (1, 2, 4, 8, 16, 32, 64)
"""The lengths at which prefixes are judged."""

SHORT = (8, 16, 32)
"""Those at which neighbours are compared; shorter codes have too many ties, longer ones differ little."""

RECALL_LENGTHS = tuple(sorted({1, *(2**i for i in range(1, 16)), *(3 * 2**i for i in range(15))}))
"""Those at which a model says how many neighbours a cut code finds: 1, 2, 3, 4, 6, 8, 12, ..."""


COLLAPSED = (
    "Every feature of the network is constant, so there is nothing to order: training has collapsed. "
    "A smaller rate (lr), gradients clipped (clip_norm) or another objective may help."
)


def unit_rms_rows(psi: Tensor) -> Tensor:
    """Rows of norm sqrt(k): what counts of an output that codes are compared by cosine in.

    Objectives that normalise rows leave the norm of the raw output free, and it becomes heavy-tailed: a few rows would
    decide the moments (seen on CIFAR-10: norms 38 +- 54, effective rank 2 raw and 9 with unit rows).
    """
    precise = psi if psi.dtype == torch.float64 else psi.float()
    # In float64: the squares of a network that exploded do not fit float32.
    norm: Tensor = torch.linalg.vector_norm(precise, dim=1, keepdim=True, dtype=torch.float64)
    return precise / norm.clamp(min=1e-12).to(precise) * math.sqrt(psi.shape[1])


class Moments:
    """Streaming float64 sums over pairs: everything the alignment needs to know of the data.

    `update` takes batches of any size; sums of disjoint batches `merge`; `reduce` adds those of all processes.
    A constant 1 rides along as last feature, so that each matrix holds second moments, sums and total weight.
    """

    def __init__(self, n_features: int, device: torch.device | str = "cpu") -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        self.within, self.within_plus, self.across = (zeros(n_features + 1, n_features + 1) for _ in range(3))
        self.squares = zeros()

    @property
    def n_features(self) -> int:
        """The number k of features."""
        return len(self.across) - 1

    def update(self, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None = None) -> Moments:
        """Add a batch of pairs; `kernel` is None, pair weights (B,), or a Gram block (B, B')."""
        psi, psi_plus = (pad(p.detach().to(self.across), (0, 1), value=1.0) for p in (psi, psi_plus))
        pairing = Pairing.of(None if kernel is None else kernel.to(self.across))
        first, second = psi, psi_plus
        if pairing.gram is not None:
            share = pairing.gram / len(psi_plus)
        else:
            share = torch.ones(len(psi)).to(self.across) if pairing.weights is None else pairing.weights
            first, second = share[:, None] * psi, share[:, None] * psi_plus
        self.within.addmm_(first.T, psi)
        self.within_plus.addmm_(second.T, psi_plus)
        self.across.addmm_(first.T, pairing.partner(psi_plus))
        self.squares += (share * share).sum()
        return self

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.within, self.within_plus, self.across, self.squares

    def merge(self, other: Moments) -> Moments:
        """Add the sums of pairs this object has not seen."""
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            mine += theirs.to(mine.device)
        return self

    def part(self, features: slice) -> Moments:
        """The same sums for some of the features only."""
        kept = torch.arange(self.n_features, device=self.across.device)[features]
        rows = torch.cat([kept, kept.new_tensor([self.n_features])])  # the constant stays
        part = Moments(len(kept), self.across.device)
        part.within, part.within_plus, part.across = (
            sums[rows][:, rows] for sums in (self.within, self.within_plus, self.across)
        )
        part.squares = self.squares.clone()
        return part

    def reduce(self) -> Moments:
        """Add the sums of all processes, where there are several."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for tensor in self._tensors():
                torch.distributed.all_reduce(tensor)
        return self

    def _pooled(self) -> Tensor:
        return (self.within / self.within[-1, -1] + self.within_plus / self.within_plus[-1, -1]) / 2

    def mean(self) -> Tensor:
        """The mean of psi over both views."""
        return self._pooled()[-1, :-1]

    def about(self, m: Tensor) -> tuple[Tensor, Tensor]:
        """C and A of psi - m: second moments within a view, and (symmetrised) across the pair.

        Features that differ from m by no more than float32 rounding are exactly zero in both.
        """

        def shifted(S: Tensor) -> Tensor:
            corner = S[-1, -1] * torch.outer(m, m)
            return S[:-1, :-1] - torch.outer(S[:-1, -1], m) - torch.outer(m, S[-1, :-1]) + corner

        pooled = self._pooled()
        C, A = shifted(pooled), shifted(self.across / self.within[-1, -1])
        if not bool(C.isfinite().all() and A.isfinite().all()):
            raise EigenmapError(
                "The features of the network have no finite moments: either there are no pairs, or training diverged."
            )
        constant = C.diagonal() <= 1e-12 * pooled.diagonal()[:-1]
        rounding = constant[:, None] | constant
        return C.masked_fill(rounding, 0.0), ((A + A.T) / 2).masked_fill(rounding, 0.0)

    def noise(self) -> float:
        """The standard error of an eigenvalue that is truly zero: N^-1/2 for N pairs of equal weight."""
        return float(self.squares.sqrt() / self.within[-1, -1])


@dataclass(frozen=True)
class Alignment:
    """How raw network outputs become ordered codes; made by `best_alignment` (or `align`), stored with the model."""

    mean: Tensor  # (k,)
    rotation: Tensor  # (k, r), columns sorted by importance
    eigenvalues: Tensor  # (r,) from held-out Rayleigh quotients, signed
    power: Tensor  # (r,) held-out variance of each feature, before weighting
    t: float = 0.0
    ridge: float = 0.0
    own_order: bool = False
    quality: float = float("nan")
    noise: float = 0.0  # one standard error of a held-out eigenvalue that is truly zero
    head: int = 0  # features of the first stage, if it is made of both outputs (`staged`)
    recall: dict[int, float] = field(default_factory=dict)  # length -> recall@10 of the full-length neighbours
    agreement: dict[float, float] = field(default_factory=dict)  # exponent -> how far two views agree on neighbours

    @property
    def n_components(self) -> int:
        """Number r of ordered features; the rank found where that is below the network's k."""
        return self.rotation.shape[1]

    def cut(self, n_components: int | None) -> Alignment:
        """The first `n_components` features only, where there are more."""
        if n_components is None or n_components >= self.n_components:
            return self
        columns = slice(n_components)
        return replace(
            self,
            rotation=self.rotation[:, columns],
            eigenvalues=self.eigenvalues[columns],
            power=self.power[columns],
            recall={},  # they were about the full length
            agreement={},
        )

    def to(self, device: torch.device | str) -> Alignment:
        """The same on another device."""
        tensors: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)

    def weights(self, t: float | None = None) -> Tensor:
        """max(mu, 0)^t in units of the largest; features without a positive eigenvalue get 0 unless t = 0.

        Only ratios matter to a code, and powers of a small eigenvalue would not fit into float32.
        """
        mu = self.eigenvalues.clamp(min=0)
        return (mu / mu.max().clamp(min=torch.finfo(mu.dtype).tiny)).pow(self.t if t is None else t)

    def apply(self, psi: Tensor, dim: int | None = None, t: float | None = None, *, unit: bool = True) -> Tensor:
        """The first `dim` ordered features of each row of `psi`; rows of norm 1 unless `unit=False`."""
        dim = self.n_components if dim is None else dim
        # Project in the precision of psi: the mean and the rotation are exact enough in float32 for a code.
        rotation = (self.rotation * self.weights(t))[:, :dim]
        code = (psi - self.mean.to(psi)) @ rotation.to(psi)
        return normalize(code, dim=1) if unit else code

    def suggest_dim(self, *, spectrum: float | None = None, recall: float | None = None) -> int:
        """The shortest code that keeps a share of the spectrum, or of the full-length nearest neighbours.

        `spectrum` counts the variance of the weighted features, that is max(mu, 0)^2t for features of unit variance,
        so it is what inner products of codes lose by cutting. Both shares were measured on held-out pairs.
        Give exactly one of the two, in (0, 1].
        """
        if (spectrum is None) == (recall is None):
            raise EigenmapError("Give exactly one of spectrum= and recall=, for example suggest_dim(spectrum=0.95).")
        share = spectrum if spectrum is not None else recall
        if not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise EigenmapError(f"The share has to lie in (0, 1], for example 0.95, but it is {share!r}.")
        if spectrum is not None:
            energy = torch.where(self.eigenvalues > 2 * self.noise, self.power * self.weights().square(), 0.0)
            kept = energy.cumsum(0) / energy.sum().clamp(min=1e-300)
            return min(int((kept < spectrum - 1e-12).sum()) + 1, self.n_components)
        if not self.recall:
            raise EigenmapError("This model holds no recall curve; use suggest_dim(spectrum=...) instead.")
        return min((d for d, r in self.recall.items() if r >= share - 1e-12), default=self.n_components)


def align(fit: Moments, held_out: Moments, ridge: float = 0.0, *, centre: bool = True) -> Alignment:
    """Solve A v = mu (C + gamma I) v on `fit`; judge and sort the result on `held_out`.

    `ridge` is gamma in units of the mean variance of a feature. Directions in which C has no variance beyond
    rounding are dropped, so the rotation may have fewer than k columns.
    """
    judge = _judge(held_out, _centre(fit, centre))
    return _ritz(_principal(fit, judge.m), judge, ridge)


def own_order(fit: Moments, held_out: Moments, *, centre: bool = True) -> Alignment:
    """The network's features as they are and in the order they are in, with honest eigenvalues."""
    return _own_order(_judge(held_out, _centre(fit, centre)))


def _centre(fit: Moments, centre: bool) -> Tensor:
    return fit.mean() if centre else torch.zeros_like(fit.mean())


class _Judge(NamedTuple):
    """Held-out moments about the mean m of `fit`: what decides about all candidates."""

    m: Tensor
    C: Tensor
    A: Tensor
    noise: float


def _judge(held_out: Moments, m: Tensor) -> _Judge:
    return _Judge(m, *held_out.about(m), held_out.noise())


class _Principal(NamedTuple):
    """Moments of `fit` in the eigenbasis of C, without the directions it has no variance in: what all ridges share."""

    basis: Tensor
    variance: Tensor  # C
    shared: Tensor  # A
    unit: Tensor  # mean variance of a feature


def _principal(fit: Moments, m: Tensor) -> _Principal:
    C, A = fit.about(m)
    variance, basis = torch.linalg.eigh(C)
    keep = variance > variance[-1] * 1e-9
    if not bool(keep.any()):
        raise EigenmapError(COLLAPSED)
    basis = basis[:, keep]
    return _Principal(basis, variance[keep], basis.T @ A @ basis, C.diagonal().mean())


def _ritz(of: _Principal, judge: _Judge, ridge: float) -> Alignment:
    whiten = (of.variance + ridge * of.unit).rsqrt()
    _, vectors = torch.linalg.eigh(whiten[:, None] * of.shared * whiten)
    return _sorted(of.basis @ (whiten[:, None] * vectors.flip(1)), judge, ridge)


def _own_order(judge: _Judge) -> Alignment:
    m, C, A, noise = judge
    mu, power = quotients(A.diagonal(), C.diagonal())
    return Alignment(m, torch.eye(len(m)).to(m), _settled(mu, noise), power, own_order=True, noise=noise)


def quotients(shared: Tensor, power: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalue and variance of each feature; one without held-out variance shares nothing."""
    return torch.where(power > 0, shared / power.clamp(min=1e-300), 0.0), power


def _sorted(rotation: Tensor, judge: _Judge, ridge: float) -> Alignment:
    """Sort the columns of `rotation`, which come in the order of `fit`, by their held-out eigenvalues.

    Only features that stand out of the noise move. The others stay in the order of `fit`, which knows nothing of the
    noise in what is held out: sorted, the luckiest of many zeros would come first and look real.
    """
    m, C, A, noise = judge
    mu, power = quotients(*((rotation * (matrix @ rotation)).sum(0) for matrix in (A, C)))
    order = mu.masked_fill(_doubtful(mu, noise), 0.0).sort(descending=True, stable=True).indices
    rotation = rotation[:, order]
    # Eigenvectors have no sign; fix one so that equal runs give equal codes.
    largest = rotation.gather(0, rotation.abs().argmax(0, keepdim=True))
    return Alignment(m, rotation * largest.sign(), _settled(mu[order], noise), power[order], ridge=ridge, noise=noise)


def _doubtful(mu: Tensor, noise: float) -> Tensor:
    """Which eigenvalues may well be zero: all k of them, were they zero, would pass in 99 of 100 cases."""
    return mu.abs() <= noise * math.sqrt(2 * math.log(100 * len(mu)))


def _settled(mu: Tensor, noise: float) -> Tensor:
    """`mu`, with the doubtful ones averaged wherever they do not descend: noise goes, their sum stays."""
    doubtful = _doubtful(mu, noise)
    return mu.masked_scatter(doubtful, _descending(mu[doubtful]))


def _descending(values: Tensor) -> Tensor:
    """The descending sequence nearest to `values` in least squares: runs that ascend become their mean."""
    runs: list[tuple[float, int]] = []
    for value in values.tolist():
        total, size = value, 1
        while runs and runs[-1][0] * size < total * runs[-1][1]:
            earlier = runs.pop()
            total, size = total + earlier[0], size + earlier[1]
        runs.append((total, size))
    return values.new_tensor([total / size for total, size in runs for _ in range(size)])


def captured(alignment: Alignment, held_out: Moments, lengths: Sequence[int] = PREFIXES) -> float:
    """Share of itself that a prefix keeps across a held-out pair, averaged over `lengths`.

    For the first d features V it is tr((V^T C V)^-1 V^T A V) / d: the mean eigenvalue of the space they span, which
    no rescaling of the features and no repetition among them can raise.
    """
    return _captured(alignment, _judge(held_out, alignment.mean), lengths)


def _captured(alignment: Alignment, judge: _Judge, lengths: Sequence[int]) -> float:
    shares = []
    for d in _lengths(alignment, lengths):
        V = alignment.rotation[:, :d]
        inner = V.T @ judge.C @ V
        scale = inner.diagonal().clamp(min=1e-300).rsqrt()
        # A trace of ridge keeps features that repeat each other, or are constant here, from dividing by zero.
        inner = scale[:, None] * inner * scale + 1e-9 * torch.eye(d).to(inner)
        shares.append(torch.linalg.solve(inner, scale[:, None] * (V.T @ judge.A @ V) * scale).trace() / d)
    return float(torch.stack(shares).mean())


def neighbour_agreement(code: Tensor, code_plus: Tensor, top: int = 10) -> float:
    """How far x and x+ agree about their nearest neighbours among the other items: the overlap of the two lists.

    It needs no labels, and unlike finding x+ itself it does not reward telling every item from every other.
    """
    n, top = len(code), _few(top, len(code))
    similarity, similarity_plus = (query @ code_plus.T for query in (code, code_plus))
    similarity.fill_diagonal_(-torch.inf)
    similarity_plus.fill_diagonal_(-torch.inf)
    # The two lists count the gallery from opposite ends, so that ties (a code without information) do not agree.
    listed = similarity.topk(top, dim=1).indices
    listed_plus = n - 1 - similarity_plus.flip(1).topk(top, dim=1).indices
    shared = listed[:, :, None] == listed_plus[:, None, :]
    return float(shared.sum((1, 2)).double().mean() / top)


def agreement(codes: Sequence[Tensor], lengths: Sequence[int]) -> float:
    """`neighbour_agreement` of the codes (x's, x+'s) of pairs, averaged over the lengths they are cut at."""
    code, code_plus = codes
    cuts = [neighbour_agreement(normalize(code[:, :d], dim=1), normalize(code_plus[:, :d], dim=1)) for d in lengths]
    return sum(cuts) / len(cuts)


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
    """The alignment whose prefixes are best on held-out pairs.

    Rotations for every ridge compete with the network's own order by `captured`, or by how well the two sides of a
    pair agree about their neighbours (`judge="agreement"`: for graphs, where large eigenvalues may belong to a handful
    of nodes). `own=False` keeps the network's order out, where it has none: `captured` would see that, agreement does
    not look at the shortest prefixes. Where the best agreement is hardly more than chance, the relation has nothing to
    say, and the rotation of the last ridge is taken with t = 0. Elsewhere the winner's exponent t is the one under
    which the two sides agree best. A few thousand rows are enough for `held_out_pairs`, raw outputs (psi, psi_plus) of
    which `held_out` holds the moments.
    """
    judging = _judge(held_out, _centre(fit, centre))
    principal = _principal(fit, judging.m)
    candidates = [_own_order(judging)] if own else []
    candidates += [_ritz(principal, judging, ridge) for ridge in ridges]
    candidates = [candidate.cut(n_components) for candidate in candidates]
    shortest = min(candidates, key=lambda candidate: candidate.n_components)
    enough = len(held_out_pairs[0]) >= FEWEST_PAIRS
    # Cosines that differ in the last digits would tie in the TF32 products of a GPU.
    pairs = [psi.double() if psi.is_cuda else psi for psi in held_out_pairs]

    def codes_of(candidate: Alignment, dim: int | None = None) -> list[Tensor]:
        return [candidate.apply(psi, dim, t=0.0, unit=False) for psi in pairs]

    def quality_of(candidate: Alignment) -> float:
        if judge == "captured" or not enough:
            return _captured(candidate, judging, _lengths(shortest, PREFIXES))
        lengths = _lengths(shortest, SHORT)
        return agreement(codes_of(candidate, max(lengths)), lengths)

    judged = [(candidate, quality_of(candidate)) for candidate in candidates]
    # Python's max keeps the first of equals (but for rounding): the network's own order, then the smaller ridge.
    best, quality = max(judged, key=lambda pair: round(pair[1], 6))
    codes = codes_of(best)  # rotated once: exponents differ in weights alone

    def weighted(t: float) -> list[Tensor]:
        return [code * best.weights(t).to(code) for code in codes]

    found = {float(t): agreement(weighted(t), _damped_lengths(best)) for t in exponents} if enough else {}
    t = max(found, key=lambda t: found[t]) if found else 1.0
    if judge == "agreement" and found and _by_chance(best, found[t], len(codes[0])):
        # Nothing is shared, whatever the weights: what is left is the variance of the features.
        best, t = candidates[-1], 0.0
        codes = codes_of(best)
    recall = recall_curve(weighted(t), _lengths(best, RECALL_LENGTHS))
    return replace(best, t=t, quality=quality, agreement=found, recall=recall).to("cpu")


def _by_chance(alignment: Alignment, agreement: float, pairs: int) -> bool:
    """Whether neighbours hardly agree more than by chance, and hardly an eigenvalue is positive beyond doubt."""
    certain = torch.where(alignment.eigenvalues > 2 * alignment.noise, alignment.eigenvalues, 0.0)
    return agreement < TELLING * _few(10, pairs) / pairs and float(certain.mean()) < LITTLE


def _damped_lengths(alignment: Alignment) -> list[int]:
    """8, 16, ... and all features. Weights hardly change short codes, and it is long ones that need them."""
    n = alignment.n_components
    return [*(2**i for i in range(3, 16) if 2**i < n), n]


def _few(top: int, n: int) -> int:
    """How many neighbours to look at among n items: at most a tenth of them, or all would be neighbours."""
    return max(1, min(top, n // 10))


def recall_curve(codes: Sequence[Tensor], lengths: Sequence[int], top: int = 10) -> dict[int, float]:
    """Length -> share of the full-length nearest neighbours that a code cut there finds, among held-out items."""
    query, gallery = codes
    full = query.shape[1]

    def neighbours(d: int) -> Tensor:
        similarity = normalize(query[:, :d], dim=1) @ normalize(gallery[:, :d], dim=1).T
        return similarity.topk(_few(top, len(gallery)), dim=1).indices

    truth = neighbours(full)
    return {
        d: float((neighbours(d)[:, :, None] == truth[:, None, :]).sum((1, 2)).double().mean() / truth.shape[1])
        for d in dict.fromkeys([*lengths, full])
    }


def _lengths(alignment: Alignment, lengths: Iterable[int]) -> list[int]:
    """Those of `lengths` that the alignment has; its full length where it is shorter than all of them."""
    return [d for d in lengths if d <= alignment.n_components] or [alignment.n_components]
