from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from eigenmap.objectives import build
from eigenmap.training import TrainingConfig, start
from eigenmap.training import threads as module
from eigenmap.training.threads import Measured, best, candidates, fastest_threads, is_fixed, restored_threads
from tests.training.toys import BATCH, ToyNetwork, ToyRelation

CONFIG = TrainingConfig(steps=1000, accelerator="cpu")


class Machine(ToyRelation):
    """A clock and a number of threads; a step takes as long as the number says, and a forward pass its share."""

    def __init__(self, seconds: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.seconds, self.threads, self.now, self.tried = seconds, max(seconds), 0.0, list[int]()
        monkeypatch.setattr("time.perf_counter", lambda: self.now)
        monkeypatch.setattr(torch, "get_num_threads", lambda: self.threads)
        monkeypatch.setattr(torch, "set_num_threads", self.set)

    def set(self, threads: int) -> None:
        self.threads = threads

    def passed(self, rows: int) -> None:
        share = 1 if torch.is_grad_enabled() else 1 / 3  # without the backward pass
        self.now += share * self.seconds[self.threads] * rows / (2 * BATCH)
        self.tried.append(self.threads)

    def measure(self, config: TrainingConfig = CONFIG) -> Measured:
        return fastest_threads(Timed(self), self, build("nested"), config, start(config))


class Timed(ToyNetwork):
    """A network whose passes take time on a machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.passed = machine.passed

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.passed(len(x))
        return super().forward(x)

    def __deepcopy__(self, memo: object) -> Timed:
        copied = Timed.__new__(Timed)
        copied.__dict__ = copy.deepcopy({k: v for k, v in self.__dict__.items() if k != "passed"})
        copied.passed = self.passed
        return copied


@pytest.fixture
def unfixed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with restored_threads():
        yield


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({1: 2.5, 2: 14.0}, 1),  # a busy neighbour
        ({1: 2.5, 2: 1.5}, 2),
        ({1: 1.45, 2: 1.5}, 2),  # a difference that noise may make
        ({1: 4.0, 2: 2.2, 4: 2.1, 8: 9.0}, 4),
    ],
)
def test_the_fastest_number_is_chosen_and_nothing_else_is_changed(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], chosen: int
) -> None:
    machine = Machine(seconds, monkeypatch)
    assert machine.measure() == (chosen, pytest.approx(seconds[chosen]))
    assert machine.threads == max(seconds)
    assert set(machine.tried) == set(seconds)


def test_measuring_does_not_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({1: 2.5, 2: 140.0}, monkeypatch)
    assert machine.measure() == (1, pytest.approx(2.5))
    assert machine.tried == [1, 1, 1, 2, 1, 2]  # parts of a step, until time is up
    assert machine.now < 10
    machine = Machine({1: 0.02, 2: 0.1}, monkeypatch)
    machine.measure()
    assert len(machine.tried) == 2 + 1 + 2 * module.ROUNDS


def test_a_short_run_keeps_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({1: 0.001, 2: 0.005}, monkeypatch)
    assert machine.measure(TrainingConfig(steps=100, accelerator="cpu")).threads == 2
    assert machine.measure(TrainingConfig(steps=100_000, accelerator="cpu")).threads == 1


def test_the_environment_or_a_single_thread_leaves_no_choice(monkeypatch: pytest.MonkeyPatch, unfixed: None) -> None:
    torch.set_num_threads(2)
    assert not is_fixed()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert is_fixed()
    monkeypatch.delenv("OMP_NUM_THREADS")
    torch.set_num_threads(1)
    assert is_fixed()


def test_candidates_and_ties() -> None:
    assert candidates(1) == [1] and candidates(6) == [1, 3, 6]
    assert best({4: 1.0}) == Measured(4, 1.0)
    with restored_threads():
        torch.set_num_threads(3)
    assert torch.get_num_threads() == 1
