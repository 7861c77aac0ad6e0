from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.kernels.train import Trainer, WholeBatch, hidden_and_psi, make_objective, takes_weights
from eigenmap.objectives import NeuralEF, RitzLogDet, RitzTrace, build
from eigenmap.relations.kernel import rbf
from eigenmap.relations.operator import KernelOperator, MatrixOperator

X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
COUNTS = torch.tensor([1, 3, 2, 1, 2, 1])
P = COUNTS.double() / 10


@pytest.mark.parametrize("objective", [RitzLogDet(1e-3, 1e-6, centre=False), NeuralEF(alpha=2.0)])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_weighted_batch_is_the_batch_with_points_repeated(objective: nn.Module, sparse: bool) -> None:
    psi = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    K = rbf(X, X)
    whole = WholeBatch(MatrixOperator(X, K.to_sparse() if sparse else K, P))
    assert whole.root is not None
    weighted = objective(psi * whole.root, psi * whole.root, whole.batch(0).kernel)
    rows = torch.arange(6).repeat_interleave(COUNTS)
    torch.testing.assert_close(weighted, objective(psi[rows], psi[rows], K[rows][:, rows]))


def test_equal_weights_need_no_factor() -> None:
    assert WholeBatch(KernelOperator(X, rbf)).root is None


def test_objectives_by_name() -> None:
    auto = make_objective("auto", {}, torch.float64, whole=True)
    assert isinstance(auto, RitzLogDet) and not auto.centre and auto.ridge == 1e-8
    blocks = make_objective("auto", {}, torch.float32, whole=False)
    assert isinstance(blocks, RitzLogDet) and blocks.tau > auto.tau
    trace = make_objective("ritz-trace", {"ridge": 0.1}, torch.float64, whole=True)
    assert isinstance(trace, RitzTrace) and not trace.centre and trace.ridge == 0.1
    given = NeuralEF()
    assert make_objective(given, {}, torch.float64, whole=True) is given
    assert takes_weights(auto) and takes_weights(given) and not takes_weights(build("neuralef-gram"))
    with pytest.raises(EigenmapError, match=r'"auto".*neuralef'):
        make_objective("magic", {}, torch.float64, whole=True)


def same(x: Tensor) -> Tensor:
    return x


def test_steps_lower_the_loss_and_a_loss_that_is_not_finite_changes_nothing() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    trainer = Trainer(network, RitzTrace(1e-6, centre=False), learning_rate=0.01, unit=0.5)
    batch = WholeBatch(KernelOperator(X, rbf)).batch(0)
    losses = [trainer.step(batch, same) for _ in range(30)]
    assert losses[-1] < losses[0] and trainer.steps == 30
    before = [parameter.clone() for parameter in network.parameters()]
    bad = X * torch.nan
    trainer.step(Batch(bad, bad, rbf(X, X)), same)
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))


def test_the_rate_falls_to_a_hundredth() -> None:
    trainer = Trainer(nn.Linear(2, 2), NeuralEF(), learning_rate=1.0, unit=1.0)
    rates = []
    for done in (0.0, 0.5, 1.0):
        trainer.anneal(done)
        rates.append(trainer.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([1.0, 0.505, 0.01])


def test_a_network_may_return_one_matrix_or_two() -> None:
    one = nn.Linear(2, 3).double()
    features, psi = hidden_and_psi(one, X)
    assert features is psi
