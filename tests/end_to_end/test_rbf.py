"""The Gaussian kernel on [-2, 2]: a trained and aligned network against exact Nystroem on the same points.

The truth is the kernel's spectrum on a fine grid. Both methods know 256 random points of the interval; neither can be
closer to the truth than those allow, so each eigenfunction of the network is held against Nystroem's.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eigenmap.networks import MLP
from eigenmap.objectives import RitzLogDet, RitzTrace
from eigenmap.relations.kernel import KernelBlocks, rbf
from eigenmap.spectrum import Moments, align
from eigenmap.training import TrainingConfig
from eigenmap.training import train as train_in_steps

GRID = (torch.arange(1000, dtype=torch.float64)[:, None] + 0.5) / 250 - 2
POINTS = 4 * torch.rand(256, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 2


def leading(K: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues of K / n, and the eigenvectors of mean square 1."""
    mu, vectors = torch.linalg.eigh(K / len(K))
    return mu.flip(0)[:k], vectors.flip(1)[:, :k] * len(K) ** 0.5


def overlaps(functions: Tensor, phi: Tensor) -> Tensor:
    """|<psi_j, phi_j>| on the grid, both of norm 1."""
    return ((functions / functions.norm(dim=0)) * (phi / phi.norm(dim=0))).sum(0).abs()


def train(network: nn.Module, objective: nn.Module, blocks: KernelBlocks, steps: int) -> None:
    x, _, K = blocks.batch(0)  # all points: the same in every step
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        _, psi = network(x)
        optimizer.zero_grad()
        objective(psi, psi, K).backward()
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("separate", [False, True], ids=["one trunk", "separate networks"])
@pytest.mark.parametrize(
    ("objective", "length_scale", "k"),
    [(RitzTrace(1e-8, centre=False), 1.0, 10), (RitzLogDet(1e-4, 1e-8, centre=False), 0.3, 16)],
    ids=["trace", "logdet"],
)
def test_every_eigenfunction_is_as_good_as_nystroems(
    objective: nn.Module, length_scale: float, k: int, separate: bool
) -> None:
    torch.manual_seed(0)
    blocks = KernelBlocks(POINTS, "rbf", kernel_params={"length_scale": length_scale})
    network = MLP(1, k, width=24 if separate else 64, separate=separate).double()
    train(network, objective, blocks, steps=500)

    x, _, K = blocks.batch(0)
    with torch.no_grad():
        _, psi = network(x)
        _, psi_grid = network(GRID)
    moments = Moments(k).update(psi, psi, K)
    alignment = align(moments, moments, centre=False)
    assert alignment.n_components == k
    found = alignment.apply(psi_grid, t=0, unit=False)

    assert K is not None
    mu, vectors = leading(K, k)
    nystroem = rbf(GRID, x, length_scale) @ vectors / (len(x) * mu)
    _, phi = leading(rbf(GRID, GRID, length_scale), k)
    assert float((overlaps(nystroem, phi) - overlaps(found, phi)).max()) < 0.01
    torch.testing.assert_close(alignment.eigenvalues, mu, rtol=0.03, atol=0)


def test_small_random_blocks_find_the_leading_eigenfunctions() -> None:
    """In single precision, by the training loop, from 256 x 256 blocks of 20,000 points."""
    torch.manual_seed(0)
    blocks = KernelBlocks(4 * torch.rand(20_000, 1) - 2, "rbf", batch_size=256)
    network = MLP(1, 6, width=64)
    train_in_steps(network, blocks, RitzTrace(1e-5, centre=False), TrainingConfig(steps=400, lr=3e-3))
    with torch.no_grad():
        psi = network(GRID.float())[1].double()
    K = rbf(GRID, GRID)
    moments = Moments(6).update(psi, psi, K)  # one joint block, in double precision
    alignment = align(moments, moments, centre=False)
    mu, phi = leading(K, 6)
    assert float(overlaps(alignment.apply(psi, t=0, unit=False), phi).min()) > 0.95
    torch.testing.assert_close(alignment.eigenvalues[:5], mu[:5], rtol=0.02, atol=0)
