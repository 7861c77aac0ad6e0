from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import build
from eigenmap.training import TrainingConfig, train
from eigenmap.training.average import WeightAverage
from eigenmap.training.checkpoint import load
from eigenmap.training.progress import Silent
from tests.training.toys import ToyNetwork, ToyRelation

CONFIG = TrainingConfig(
    steps=12, optimizer="sgd", lr=0.05, weight_average=0.7, log_every=4, checkpoint_every=4, accelerator="cpu"
)


class StoppedError(Exception):
    """Raised to cut a run short."""


class StopAfter(Silent):
    def __init__(self, step: int) -> None:
        self.step = step

    def advance(self, step: int) -> None:
        if step > self.step:
            raise StoppedError


def test_the_average_is_its_equation() -> None:
    network = ToyNetwork()
    average = WeightAverage(network, momentum=0.8)
    expected = network.projector.weight.detach().clone()
    counter = "encoder.1.num_batches_tracked"
    for step in range(40):
        with torch.no_grad():
            network.projector.weight += 1.0
            network.encoder[1].num_batches_tracked += 1
        average.follow(network, step)
        m = min(0.8, (1 + step) / (10 + step))
        expected = m * expected + (1 - m) * network.projector.weight.detach()
    torch.testing.assert_close(average.state["projector.weight"], expected)
    assert int(average.state[counter]) == 40  # counters are copied
    other = ToyNetwork(seed=3)
    average.copy_to(other)
    torch.testing.assert_close(other.projector.weight.detach(), expected)


def trained(out: Path | None = None, resume: bool = False, stop: int | None = None) -> ToyNetwork:
    network = ToyNetwork()
    progress = None if stop is None else StopAfter(stop)
    train(network, ToyRelation(), build("scl"), CONFIG, out=out, resume=resume, progress=progress)
    return network


def test_the_average_replaces_the_weights_at_the_end_and_not_before() -> None:
    plain, network = ToyNetwork(), ToyNetwork()
    config = TrainingConfig(**{**vars(CONFIG), "weight_average": 0.0})
    seen: list[dict[str, torch.Tensor]] = []

    class Watch(Silent):
        def advance(self, step: int) -> None:
            seen.append({name: value.clone() for name, value in plain.state_dict().items()})

    train(plain, ToyRelation(), build("scl"), config, progress=Watch())
    expected = WeightAverage(ToyNetwork(), momentum=0.7)
    for step, state in enumerate(seen):
        other = ToyNetwork()
        other.load_state_dict(state)
        expected.follow(other, step)
    train(network, ToyRelation(), build("scl"), CONFIG)
    for name, value in network.state_dict().items():
        torch.testing.assert_close(value, expected.state[name])
    assert not torch.equal(network.projector.weight, plain.projector.weight)


def test_a_killed_run_continues_with_its_average(tmp_path: Path) -> None:
    whole = trained()
    with pytest.raises(StoppedError):
        trained(tmp_path, stop=9)
    assert load(tmp_path / "checkpoint.pt").average.keys() == whole.state_dict().keys()
    again = trained(tmp_path, resume=True)
    for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_a_checkpoint_without_an_average_is_refused_and_one_with_defaults_is_not(tmp_path: Path) -> None:
    plain = TrainingConfig(**{**vars(CONFIG), "weight_average": 0.0})
    train(ToyNetwork(), ToyRelation(), build("scl"), plain, out=tmp_path)
    stored = load(tmp_path / "checkpoint.pt")
    assert "weight_average" not in stored.settings and stored.average == {}  # as in older checkpoints
    with pytest.raises(EigenmapError, match=r"weight_average was 'not set' and is now 0\.7"):
        trained(tmp_path, resume=True)
