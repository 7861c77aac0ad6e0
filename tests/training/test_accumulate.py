from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import build
from eigenmap.training.accumulate import RunningAverages
from eigenmap.training.config import TrainingConfig
from eigenmap.training.launch import start
from eigenmap.training.loop import Learner
from tests.training.toys import BATCH, ToyNetwork, ToyRelation


def one_step(network: nn.Module, batch: Batch, chunks: int, objective: str = "nested") -> tuple[float, list[Tensor]]:
    """Loss and gradients of one step."""
    config = TrainingConfig(steps=1, accumulate=chunks, accelerator="cpu")
    learner = Learner(start(config), network, build(objective), config)
    loss, _ = learner.step(0, batch)
    return loss.item(), [p.grad.clone() for p in network.parameters()]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "objective", ["nested", "neuralef", "barlow-twins", "swav", "moco", "byol", "simsiam", "scl-taught"]
)
@pytest.mark.parametrize("chunks", [2, 5])
def test_value_and_gradient_are_those_of_the_undivided_batch(objective: str, chunks: int, weighted: bool) -> None:
    batch = ToyRelation(dtype=torch.float64, weighted=weighted).batch(0)
    networks = [ToyNetwork(norm=False, dropout=0).double() for _ in range(2)]
    loss, gradients = one_step(networks[0], batch, 1, objective)
    chunked_loss, chunked_gradients = one_step(networks[1], batch, chunks, objective)
    assert chunked_loss == pytest.approx(loss, rel=1e-12)
    for a, b in zip(gradients, chunked_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_gram_block_of_unequal_sides() -> None:
    x, x_plus, _ = ToyRelation(dtype=torch.float64).batch(0)
    batch = Batch(x, x_plus[:9], torch.rand(BATCH, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    networks = [ToyNetwork(norm=False, dropout=0).double() for _ in range(2)]
    loss, gradients = one_step(networks[0], batch, 1)
    chunked_loss, chunked_gradients = one_step(networks[1], batch, 4)
    assert chunked_loss == pytest.approx(loss, rel=1e-12)
    for a, b in zip(gradients, chunked_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


class Recorder(nn.Module):
    """Network that records the codes of every forward pass."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.codes = network, list[Tensor]()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features, psi = self.network(x)
        self.codes.append(psi.detach().clone())
        return features, psi


def test_both_passes_see_the_same_dropout_and_chunk_statistics() -> None:
    network = Recorder(ToyNetwork(norm=True, dropout=0.5))
    one_step(network, ToyRelation().batch(0), 4)
    first, second = network.codes[:4], network.codes[4:]
    assert len(second) == 3  # the last chunk is not computed again
    for a, b in zip(first, second, strict=False):
        assert torch.equal(a, b)


@pytest.mark.parametrize("chunks", [2, 5])
def test_with_norms_and_dropout_the_gradient_is_that_of_all_chunks_kept(chunks: int) -> None:
    batch = ToyRelation(dtype=torch.float64).batch(0)
    networks = [ToyNetwork(norm=True, dropout=0.5).double() for _ in range(2)]
    config = TrainingConfig(steps=1, accelerator="cpu")
    learner = Learner(start(config), networks[0], build("nested"), config)
    views = zip(batch.x.tensor_split(chunks), batch.x_plus.tensor_split(chunks), strict=True)
    codes = [learner.codes(0, *pair, chunk) for chunk, pair in enumerate(views)]
    learner.loss(0, *(torch.cat(parts) for parts in zip(*codes, strict=True)), batch).backward()
    _, gradients = one_step(networks[1], batch, chunks)
    for a, b in zip(networks[0].parameters(), gradients, strict=True):
        torch.testing.assert_close(a.grad, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_averages_are_updated_once_with_the_mean_of_the_chunks(momentum: float | None) -> None:
    network = ToyNetwork(norm=True, dropout=0)
    norm = network.encoder[1]
    norm.momentum = momentum
    norm.num_batches_tracked += 3
    batch = ToyRelation().batch(0)
    linear = network.encoder[0]
    with torch.no_grad():
        chunks = [
            linear(torch.cat(pair)) for pair in zip(batch.x.tensor_split(4), batch.x_plus.tensor_split(4), strict=True)
        ]
    weight = 0.1 if momentum is not None else 1 / 4
    mean = weight * torch.stack([chunk.mean(0) for chunk in chunks]).mean(0)
    var = (1 - weight) * 1.0 + weight * torch.stack([chunk.var(0) for chunk in chunks]).mean(0)
    one_step(network, batch, 4)
    torch.testing.assert_close(norm.running_mean, mean)
    torch.testing.assert_close(norm.running_var, var)
    assert norm.num_batches_tracked == 4 and norm.momentum == momentum


def test_norms_of_a_frozen_encoder_stay_as_they_are() -> None:
    network = ToyNetwork(norm=True)
    network.encoder.eval()
    assert RunningAverages(network).norms == []


def test_more_chunks_than_items_is_a_clear_error() -> None:
    with pytest.raises(EigenmapError, match=r"accumulate.*33.*32"):
        one_step(ToyNetwork(), ToyRelation().batch(0), 33)
