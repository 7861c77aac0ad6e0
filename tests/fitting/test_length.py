"""Threads and deadlines of whole fits."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap, EigenmapError, fit_graph, fit_vectors, recipes
from eigenmap.core.clock import counted_from
from eigenmap.fitting import evidence, length, pipeline
from eigenmap.fitting.images import ImageTask
from eigenmap.fitting.length import training_seconds
from eigenmap.fitting.options import RunOptions
from eigenmap.model import ImageInput
from eigenmap.training import checkpoint, start
from eigenmap.training.progress import Silent
from eigenmap.training.threads import Measured
from tests.graphs import blocks
from tests.linear.planted import planted

GRAPH = blocks()
SMALL: dict[str, Any] = {"width": 8, "batch_size": 32, "device": "cpu", "progress": False}

OPTIONS: dict[str, Any] = {
    **dict.fromkeys(("resume", "force", "tensorboard", "progress"), False),
    **{"out": None, "seed": 0, "device": "cpu", "devices": 1, "say": None},
}


def fit(**options: Any) -> Eigenmap:
    return fit_graph((GRAPH.x, GRAPH.edge_index), 4, **{**SMALL, "steps": 12, **options})


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A machine whose measurement finds one thread faster than two; counts its measurements."""
    measured: list[int] = []

    def fastest(*given: object) -> Measured:
        measured.append(1)
        return Measured(1, 0.001)

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(length, "fastest_threads", fastest)
    torch.set_num_threads(2)
    yield measured
    torch.set_num_threads(1)


def threads_of(model: Eigenmap) -> int:
    return int(model.training["environment"]["threads"])


def test_the_measured_number_is_used_recorded_and_given_back(two_threads: list[int]) -> None:
    said: list[str] = []
    assert threads_of(fit(say=said.append)) == 1 and len(two_threads) == 1
    assert torch.get_num_threads() == 2 and any("1 of 2 threads" in line for line in said)


def test_a_given_number_or_the_environment_is_not_measured(
    two_threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert threads_of(fit(threads=2)) == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads_of(fit()) == 2
    assert two_threads == []
    for wrong in (0, 1.5, "2"):
        with pytest.raises(EigenmapError, match="threads must be"):
            fit(threads=wrong)


def test_same_seed_and_threads_give_the_same_bits(two_threads: list[int]) -> None:
    first, again = fit(threads=2), fit(threads=2)
    assert all(torch.equal(a, b) for a, b in zip(first.network.parameters(), again.network.parameters(), strict=True))


def test_a_resumed_run_keeps_its_threads(two_threads: list[int], tmp_path: Path) -> None:
    fit(out=tmp_path / "run")
    assert checkpoint.load(tmp_path / "run" / "checkpoint.pt").threads == 1
    two_threads.clear()
    assert threads_of(fit(out=tmp_path / "run", resume=True, steps=14)) == 1 and two_threads == []
    assert threads_of(fit(out=tmp_path / "run", resume=True, steps=16, threads=2)) == 2


def test_more_minutes_continue_a_run_that_has_ended(tmp_path: Path) -> None:
    fit(out=tmp_path / "run")
    seconds = checkpoint.load(tmp_path / "run" / "checkpoint.pt").seconds
    said: list[str] = []
    model = fit(out=tmp_path / "run", resume=True, steps=None, minutes=(2 * seconds + 1) / 60, say=said.append)
    assert model.training["steps"] > 12 and any("12 steps" in line and "continued" in line for line in said)


def test_steps_and_minutes_end_at_whichever_comes_first(tmp_path: Path) -> None:
    assert fit(steps=7, minutes=5).training["steps"] == 7
    assert fit(steps=1_000_000, minutes=0.001).training["steps"] < 1_000
    first = fit(out=tmp_path, steps=5, minutes=5)
    assert first.training["steps"] == 5
    assert fit(out=tmp_path, resume=True, steps=9, minutes=5).training["steps"] == 9


@pytest.mark.parametrize(
    ("pairs", "seconds"),
    [
        (0, 60.0),
        (960, 50.0),  # thirty batches of 32, a third of a second each
        (25_600_000, 30.0),  # half of the time is left for training
    ],
)
def test_the_minutes_include_the_ordering_of_features(pairs: int, seconds: float) -> None:
    images = torch.randint(0, 256, (64, 1, 8, 8), dtype=torch.uint8)
    task = ImageTask(
        recipes.get("catalogue").but(batch_size=32), images, torch.arange(56), torch.arange(56, 64), ImageInput(8, 1)
    )
    config = RunOptions(steps=1).config(task.recipe, 1)
    problem = replace(task.problem(start(config), config), pairs_to_align=pairs)
    assert training_seconds(task, problem, left=60.0, step_seconds=1.0) == pytest.approx(seconds)


def test_fewer_pairs_order_the_features_if_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randint(0, 256, (64, 1, 8, 8), dtype=torch.uint8)
    used: list[int] = []
    monkeypatch.setattr(evidence, "LEAST_PAIRS", 30)
    monkeypatch.setattr(evidence, "LEAST_JUDGING", 4)
    measured = evidence.row_moments
    monkeypatch.setattr(
        evidence,
        "row_moments",
        lambda rows, batches, keep=1: measured(rows, (used.append(len(b.x)) or b for b in batches), keep),  # type: ignore[func-returns-value]
    )
    task = ImageTask(
        recipes.get("catalogue").but(batch_size=32), images, torch.arange(56), torch.arange(56, 64), ImageInput(8, 1)
    )
    config = RunOptions(steps=1).config(task.recipe, 1)
    problem = task.problem(start(config), config)
    assert problem.evidence is not None
    counts = {}
    for share in (1.0, 0.5, 0.0):
        used.clear()
        found = problem.evidence(share)
        counts[share] = sum(used)
        assert bool(found.fit["both"].mean().isfinite().all())
    assert counts == {1.0: 56 * 8 + 8 * 32, 0.5: 56 * 4 + 8 * 16, 0.0: 30 + 4}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still."""
    now = [1000.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("before", "left"),
    [(0, 58.2), (12, 46.2), (30, 28.2), (300, 28.2)],  # imports and reading count, up to half of the minutes
)
def test_minutes_count_from_the_start_of_the_command(clock: list[float], before: float, left: float) -> None:
    said: list[str] = []
    with counted_from(1000.0):
        clock[0] += 5
        options = RunOptions.checked(**OPTIONS | {"say": said.append}, minutes=1.0)
    clock[0] += before - 5
    assert options.ends() == pytest.approx(clock[0] + left)
    assert any("300 s" in line and "1 min" in line for line in said) == (before > 30)
    assert RunOptions(minutes=1.0).ends() == pytest.approx(clock[0] + 58.2)  # without a command, from now on
    assert RunOptions(steps=1).ends() is None


def test_a_run_whose_time_is_over_says_that_fewer_pairs_are_used() -> None:
    said: list[str] = []
    images = torch.randint(0, 256, (64, 1, 8, 8), dtype=torch.uint8)
    trained = pipeline.train(
        ImageTask(
            recipes.get("catalogue").but(batch_size=32, n_components=4, hidden=8),
            *(images, torch.arange(56), torch.arange(56, 64), ImageInput(8, 1)),
        ),
        RunOptions(steps=1, progress=None),
    )
    assert trained.left is None
    pipeline.best_code(replace(trained, left=-1.0), said.append)
    assert any(line.startswith("Time is short") and "0% of the usual pairs" in line for line in said)
    said.clear()
    for most in (1e9, 0.95 * trained.problem.seconds_to_align(trained.result.seconds, 32)):  # 95 % are nearly all
        pipeline.best_code(replace(trained, left=most), said.append)
    assert not any("Time is short" in line for line in said)


class Spinners(Silent):
    """Remembers what was shown besides training."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def waiting(self, what: str) -> AbstractContextManager[None]:
        self.shown.append(what)
        return nullcontext()


def test_what_goes_on_besides_training_is_shown_by_the_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    spinners = Spinners()
    fit(progress=spinners, minutes=0.05)
    assert spinners.shown == ["measuring the speed of training", "ordering the features"]
    monkeypatch.setenv("RANK", "1")
    with RunOptions(progress=spinners).waiting("nothing"):
        assert len(spinners.shown) == 2


@pytest.mark.parametrize("norms", [1, 2])
def test_the_choice_of_a_map_is_shown_for_both_ways_to_scale_rows(norms: int, tmp_path: Path) -> None:
    spinners, (x, y) = Spinners(), planted()
    if norms == 1:
        x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    fit_vectors(x, 4, pairs=y, progress=spinners, out=tmp_path / "run", device="cpu")
    choosing = "choosing the map on held-out pairs"
    assert spinners.shown == ["reading pairs", *[choosing] * norms, "ordering the features"]
    spinners.shown.clear()
    fit_vectors(y, pairs=x, into=tmp_path / "run", unit=True, progress=spinners, device="cpu")
    assert spinners.shown[0] == choosing
