from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap import fit_graph
from eigenmap.data import Graph
from eigenmap.fitting import size
from eigenmap.fitting.graph import GraphTask
from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.size import Size
from eigenmap.model import NodeEncoderSpec
from eigenmap.training import CollapseError


def blocks_graph(nodes: int = 300, seed: int = 0) -> Graph:
    """Two groups; edges join nodes of one group, and features tell the group with some noise."""
    random = np.random.default_rng(seed)
    group = np.arange(nodes) % 2
    ends = random.integers(0, nodes, (2, 40 * nodes))
    ends = ends[:, (group[ends[0]] == group[ends[1]]) & (ends[0] != ends[1])][:, : 4 * nodes]
    x = np.eye(2)[group] @ random.normal(size=(2, 12)) + random.normal(size=(nodes, 12))
    return Graph(torch.from_numpy(x).float(), torch.from_numpy(ends))


def size_of(model: object) -> Size:
    spec = model.encoder  # type: ignore[attr-defined]
    assert isinstance(spec, NodeEncoderSpec)
    return Size(spec.width, spec.blocks)


def tried(monkeypatch: pytest.MonkeyPatch, scores: dict[Size, float]) -> list[Size]:
    """Replace short fits by given scores; return the list of sizes that are tried."""
    sizes: list[Size] = []

    def ranks(task: GraphTask, options: RunOptions) -> size.Ranks:
        assert task.recipe.width is not None and task.recipe.blocks is not None
        sizes.append(Size(task.recipe.width, task.recipe.blocks))
        assert task.steps == 100 and options.folder is None and options.progress is None
        return np.full(40, scores.get(sizes[-1], 0.0))

    monkeypatch.setattr(size, "reciprocal_ranks_of", ranks)
    return sizes


@pytest.mark.parametrize(
    ("scores", "expected", "count"),
    [
        ({Size(256, 0): 0.5, Size(256, 1): 0.51, Size(1024, 0): 0.51}, Size(256, 0), 3),
        ({Size(256, 0): 0.1, Size(1024, 0): 0.2, Size(256, 1): 0.2}, Size(1024, 0), 4),
        ({Size(256, 0): 0.01, Size(1024, 0): 0.02, Size(2048, 0): 0.04, Size(256, 1): 0.5}, Size(256, 0), 3),
        ({Size(1024, 0): 0.02, Size(256, 1): 0.03}, Size(1024, 0), 4),
        ({Size(256, 0): 0.1, Size(1024, 0): 0.2, Size(256, 1): 0.25, Size(1024, 1): 0.32}, Size(1024, 1), 6),
    ],
)
def test_a_larger_network_must_be_worth_it(
    monkeypatch: pytest.MonkeyPatch, scores: dict[Size, float], expected: Size, count: int
) -> None:
    sizes = tried(monkeypatch, scores)
    said: list[str] = []
    model = fit_graph(blocks_graph(), 4, device="cpu", progress=False, say=said.append)
    assert size_of(model) == expected and len(sizes) == count
    assert [Size(row["width"], row["blocks"]) for row in model.training["sizes"]] == sizes
    assert any(f"width {expected.width:,}, {expected.blocks} residual block" in line for line in said)


def test_a_gain_must_be_certain() -> None:
    noise = np.random.default_rng(0).normal(size=1000)
    assert size.is_better(np.full(1000, 0.11) + 0.001 * noise, np.full(1000, 0.1), 1.1)
    assert not size.is_better(np.full(1000, 0.11) + noise, np.full(1000, 0.1), 1.1)
    assert not size.is_better(np.full(1000, 0.102), np.full(1000, 0.1), 1.1)


@pytest.mark.parametrize(("times_the_cost", "gain"), [(1.0, 0.03), (2.0, 0.05), (4.0, 0.1), (8.0, 0.15)])
def test_a_gain_must_be_worth_its_cost(times_the_cost: float, gain: float) -> None:
    """On Physics, four times the cost found 8 % more held-out edges."""
    than = np.full(1000, 0.2)
    assert size.is_better((1 + gain + 0.001) * than, than, times_the_cost)
    assert not size.is_better((1 + gain - 0.001) * than, than, times_the_cost)


def test_a_larger_network_must_find_something() -> None:
    """On Actor, whose features say little about edges, larger networks only memorised more of them."""
    noise = 1e-4 * np.random.default_rng(0).normal(size=1000)
    assert not size.is_better(0.02 + noise, np.full(1000, 0.005), 2.0)
    assert size.is_better(0.06 + noise, np.full(1000, 0.005), 2.0)


def test_candidates_are_tried_in_the_order_of_their_cost() -> None:
    costs = [each.cost(inputs=20, n_components=128) for each in size.SIZES]
    assert Size(256, 0).cost(20, 128) == min(costs) == 256 * 148
    assert Size(1024, 1).cost(20, 128) == max(costs)


def test_real_short_fits_give_a_score_and_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "SIZES", (Size(32, 0), Size(16, 1)))
    model = fit_graph(blocks_graph(), 4, device="cpu", progress=False)
    ranks = [row["rank"] for row in model.training["sizes"]]
    # By chance, the right one of about 300 has a mean reciprocal rank of about 0.02.
    assert len(ranks) == 2 and all(0.02 < rank < 1 for rank in ranks)
    assert size_of(model) in size.SIZES


def test_a_size_whose_training_collapses_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def ranks(task: GraphTask, options: RunOptions) -> size.Ranks:
        if task.recipe.blocks == 0:
            raise CollapseError("all codes are equal")
        return np.full(40, 0.5)

    monkeypatch.setattr(size, "reciprocal_ranks_of", ranks)
    assert size_of(fit_graph(blocks_graph(), 4, device="cpu", progress=False)) == Size(256, 1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"width": 16}, Size(16, 1)),
        ({"blocks": 0}, Size(256, 0)),
        ({"width": 16, "blocks": 2}, Size(16, 2)),
        ({"steps": 399, "batch_size": 16}, Size(256, 1)),
        ({"held_out": 0.0}, Size(256, 1)),
        ({"sampler": "node-blocks", "objective": "neuralef-unordered"}, Size(256, 1)),
    ],
)
def test_nothing_is_chosen_if_the_size_is_given_or_cannot_be_judged(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], expected: Size
) -> None:
    sizes = tried(monkeypatch, {})
    model = fit_graph(blocks_graph(), 4, device="cpu", progress=False, **settings)  # type: ignore[arg-type]
    assert size_of(model) == expected and sizes == [] and "sizes" not in model.training


def test_minutes_are_not_spent_on_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = tried(monkeypatch, {})
    model = fit_graph(blocks_graph(), 4, minutes=0.02, device="cpu", progress=False)
    assert sizes == [] and size_of(model) == Size(256, 1)


def test_a_resumed_run_keeps_its_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sizes = tried(monkeypatch, {Size(256, 0): 0.5})
    given = {"device": "cpu", "progress": False, "out": tmp_path / "run"}
    fit_graph(blocks_graph(), 4, **given)  # type: ignore[arg-type]
    assert len(sizes) == 3
    model = fit_graph(blocks_graph(), 4, steps=120, resume=True, **given)  # type: ignore[arg-type]
    assert len(sizes) == 3 and size_of(model) == Size(256, 0) and model.training["steps"] == 120
