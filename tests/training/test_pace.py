from __future__ import annotations

import math
from itertools import pairwise

import pytest

from eigenmap.core.batch import Batch
from eigenmap.objectives import build
from eigenmap.training import TrainingConfig, TrainingResult, train
from eigenmap.training.optim import schedule
from eigenmap.training.pace import Pace
from tests.training.toys import ToyNetwork, ToyRelation


def test_without_a_deadline_a_step_is_a_step() -> None:
    pace = Pace(25)
    marks: dict[int, list[int]] = {6: [], 8: [], 10: []}
    for step in range(1, 26):
        assert not pace.ended and pace.position == step - 1
        pace.advance(at=float(step**3))  # however long it takes
        for every, found in marks.items():
            found += [step] if pace.reaches(every) else []
    assert pace.ended and pace.position == 25
    assert marks == {6: [6, 12, 18, 24, 25], 8: [8, 16, 24, 25], 10: [10, 20, 25]}


def test_a_run_goes_on_where_it_was() -> None:
    pace = Pace(10, position=7.5)
    positions = []
    while not pace.ended:
        positions.append(pace.position)
        pace.advance(0.0)
    assert len(positions) == 3 and pace.position == 10
    assert Pace(10, position=3.0, deadline=60.0, at=61.0).ended


class Clocked(ToyRelation):
    """Moves the clock by the duration of each step."""

    def __init__(self, durations: list[float]) -> None:
        super().__init__()
        self.durations, self.now = durations, 0.0

    def batch(self, step: int) -> Batch:
        self.now += self.durations[min(step, len(self.durations) - 1)]
        return super().batch(step)


def run(durations: list[float], monkeypatch: pytest.MonkeyPatch, deadline: float | None = 60.0) -> TrainingResult:
    relation = Clocked(durations)
    monkeypatch.setattr("time.perf_counter", lambda: relation.now)
    config = TrainingConfig(
        steps=60, warmup_steps=6, log_every=1, check_every=30, checkpoint_every=30, accelerator="cpu"
    )
    return train(ToyNetwork(), relation, build("nested"), config, deadline=deadline)


@pytest.mark.parametrize(
    ("durations", "steps"),
    [
        ([1.0], (60, 60)),  # as planned
        ([1.0] * 10 + [10.0], (14, 15)),  # a neighbour comes: five more steps fit
        ([10.0] * 3 + [1.0], (20, 33)),  # a neighbour leaves
        ([0.25], (239, 240)),
        ([100.0], (1, 1)),
    ],
)
def test_the_deadline_holds_and_the_rate_ends_low(
    monkeypatch: pytest.MonkeyPatch, durations: list[float], steps: tuple[int, int]
) -> None:
    result = run(durations, monkeypatch)
    assert steps[0] <= result.steps <= steps[1]
    if result.steps > 1:
        assert result.seconds <= 60 + 1e-9
        rates = [record["lr"] for record in result.history]
        top = max(rates)
        # It never jumps by more than what the steps left must share, and it ends as a schedule of so many steps does.
        peak = rates.index(top)
        assert all(before >= after for before, after in pairwise(rates[peak:]))
        assert rates[-1] < 0.35 * top


def test_without_a_change_of_speed_the_rates_are_those_of_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = run([1.0], monkeypatch)
    free = run([1.0], monkeypatch, deadline=None)
    assert [record["loss"] for record in timed.history] == [record["loss"] for record in free.history]
    expected = [0.002 * schedule(step, 60, 6, 0.001) for step in range(60)]
    assert all(math.isclose(record["lr"], rate) for record, rate in zip(timed.history, expected, strict=True))


def test_the_last_check_fits_into_the_time() -> None:
    pace = Pace(100, deadline=60.0)
    for step in range(1, 11):
        pace.advance(at=float(step))
    pace.paused(at=20.0)  # a check of ten seconds
    pace.advance(at=21.0)
    assert pace.left == 29  # ten more seconds are kept for the last one


@pytest.mark.parametrize(
    ("durations", "steps"),
    [
        ([0.25], 60),  # four times as many would fit
        ([4.0] * 5 + [0.25], 60),  # slow at first: the estimate falls below, and rises above
        ([2.0], 30),  # the deadline comes first
    ],
)
def test_a_limit_of_steps_ends_the_run_before_the_deadline(durations: list[float], steps: int) -> None:
    pace, at = Pace(60, deadline=60.0, most=60), 0.0
    taken = 0
    while not pace.ended:
        at += durations[min(taken, len(durations) - 1)]
        taken += 1
        pace.advance(at)
    assert taken == steps
    assert at <= 60
    assert pace.position == pytest.approx(60)  # the schedule has reached its end
