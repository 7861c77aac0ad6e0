r"""Trained rivals: a Matryoshka head and a sparse autoencoder, on the same pairs, batches and steps as our neural head.

*Matryoshka head* [1]: z = W x, trained by InfoNCE between partners, summed over prefixes of z, as MatryoshkaLoss around
MultipleNegativesRankingLoss does. W starts at the principal components, the best start for short codes.

*CSR* [2]: z = TopK(relu(E (x - b))), x^ = D z + b, trained to reconstruct x with k and with 4 k entries, and by InfoNCE
between the sparse codes of partners. A code of d float32 features has as many bytes as d entries of a sparse one, each
a 16-bit number and a 16-bit position. One autoencoder serves all k: each step draws one.

Learning rates are chosen on held-out pairs by mean nDCG@10 over the lengths.

[1] Kusupati et al.: Matryoshka Representation Learning, 2022.
[2] Wen et al.: Beyond Matryoshka: Revisiting Sparse Coding for Adaptive Representation, 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmarks.vectors.rivals import _principal
from benchmarks.vectors.scores import Encoder, ndcg
from benchmarks.vectors.sets import Floats, Pairs, held_out, lengths_of
from eigenmap.objectives import build
from eigenmap.recipes.vectors import NEURAL

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RATES = (1e-3, 1e-2)


class Budget(NamedTuple):
    """Length of training, and pairs in a batch."""

    steps: int
    batch: int

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Budget:
        """That of our neural head with these settings."""
        recipe = NEURAL.but(**settings)
        return cls(recipe.steps, recipe.batch_size)


WIDER = 4
"""Length of a sparse code relative to that of the vector."""
TEMPERATURE = 0.1


def matryoshka(pairs: Pairs, seed: int, budget: Budget) -> Encoder:
    """The best of several rates on held-out pairs."""
    return _chosen(pairs, seed, budget, RATES, _matryoshka)


def csr(pairs: Pairs, seed: int, budget: Budget) -> Encoder:
    """The same for the sparse autoencoder; its first rate is the one of its authors' code."""
    return _chosen(pairs, seed, budget, (1e-3,), _csr)


def _chosen(
    pairs: Pairs, seed: int, budget: Budget, rates: Sequence[float], fit: Callable[[Pairs, int, Budget, float], Encoder]
) -> Encoder:
    parts = held_out(pairs, seed)
    lengths = lengths_of(pairs.left.shape[1])
    made = [fit(parts.fit, seed, budget, rate) for rate in rates]
    return made[0] if len(made) == 1 else max(made, key=lambda encode: ndcg(encode, parts.test, lengths))


def _matryoshka(pairs: Pairs, seed: int, budget: Budget, rate: float) -> Encoder:
    mean, basis, _ = _principal(pairs)
    torch.manual_seed(seed)
    head = nn.Linear(*basis.shape)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(basis.T.copy()))
        head.bias.copy_(torch.from_numpy(-(mean @ basis)))
    head.to(DEVICE)
    objective = build("matryoshka-info-nce")
    fit_steps(head.parameters(), pairs, seed, budget, rate, lambda x, y, step: objective(head(x), head(y)))

    def encode(rows: Floats, side: str, length: int) -> Floats:
        with torch.no_grad():
            return head(torch.from_numpy(rows).to(DEVICE))[:, :length].cpu().numpy()

    return encode


class SparseAutoencoder(nn.Module):
    """z = the k largest entries of relu(E (x - b)), and x^ = D z + b."""

    def __init__(self, n_features: int, width: int, centre: Tensor) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(n_features, width), nn.Linear(width, n_features, bias=False)
        self.centre = nn.Parameter(centre.clone())
        with torch.no_grad():
            self.decoder.weight.copy_(normalize(self.encoder.weight.T, dim=0))
            self.encoder.bias.zero_()

    def activations(self, x: Tensor) -> Tensor:
        """Return all entries, before the largest are selected."""
        found: Tensor = self.encoder(x - self.centre).relu()
        return found

    def decode(self, z: Tensor) -> Tensor:
        """Return the vector that a code represents."""
        found: Tensor = self.decoder(z) + self.centre
        return found


def sparse(activations: Tensor, k: int) -> Tensor:
    """The k largest entries of each row, zeros elsewhere."""
    values, places = activations.topk(k, dim=1)
    return torch.zeros_like(activations).scatter_(1, places, values)


def _csr(pairs: Pairs, seed: int, budget: Budget, rate: float) -> Encoder:
    torch.manual_seed(seed)
    n = pairs.left.shape[1]
    model = SparseAutoencoder(n, WIDER * n, torch.from_numpy(pairs.right.mean(0))).to(DEVICE)
    lengths = lengths_of(n)
    draws = np.random.default_rng((seed, 5)).integers(0, len(lengths), budget.steps)
    contrast = build("info-nce", temperature=TEMPERATURE)

    def loss(x: Tensor, y: Tensor, step: int) -> Tensor:
        k = lengths[draws[step]]
        both = torch.cat([x, y])
        full = model.activations(both)
        z = sparse(full, k)
        power = both.square().sum(1).mean()
        errors = [(model.decode(code) - both).square().sum(1).mean() / power for code in (z, sparse(full, 4 * k))]
        return errors[0] + errors[1] / 8 + contrast(*z.chunk(2))

    fit_steps(model.parameters(), pairs, seed, budget, rate, loss)

    def encode(rows: Floats, side: str, length: int) -> Floats:
        with torch.no_grad():
            return sparse(model.activations(torch.from_numpy(rows).to(DEVICE)), length).cpu().numpy()

    return encode


def fit_steps(
    parameters: Iterator[nn.Parameter],
    pairs: Pairs,
    seed: int,
    budget: Budget,
    rate: float,
    loss: Callable[[Tensor, Tensor, int], Tensor],
) -> None:
    """AdamW with a cosine schedule over shuffled pairs."""
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, budget.steps)
    left, right = (torch.from_numpy(side).to(DEVICE) for side in pairs)
    rng = np.random.default_rng((seed, 11))
    for step in range(budget.steps):
        rows = torch.from_numpy(rng.choice(pairs.count, min(budget.batch, pairs.count), replace=False)).to(DEVICE)
        optimizer.zero_grad()
        loss(left[rows], right[rows], step).backward()
        optimizer.step()
        schedule.step()
