"""The synthetic graph has the shape it claims, and the benchmark runs on a small one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.graphs import scale, scale_rivals, synthetic
from eigenmap.data import build_adjacency

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data() -> synthetic.Data:
    return synthetic.generate(synthetic.Shape(4000, 60_000), 0, CPU)


def test_the_whole_is_as_large_as_it_should_be() -> None:
    assert synthetic.Shape.of(1.0) == (2_449_029, 61_859_140)
    assert synthetic.Shape.of(1.0, edges=10).edges == 618_591_400


def test_the_graph_has_its_edges_once_and_both_ways(data: synthetic.Data) -> None:
    assert data.walk.n_entries == 2 * 60_000 and data.x.shape == (4000, 100)
    again = build_adjacency(data.walk.edges(), 4000)
    assert torch.equal(again.indptr, data.walk.indptr) and torch.equal(again.indices, data.walk.indices)
    assert again.loops == again.merged == 0
    assert 0.65 < data.homophily(50_000) < 0.85
    nodes = torch.cat([data.train, data.validation, data.test])
    assert torch.equal(nodes.sort().values, torch.arange(4000))


def test_the_same_seed_makes_the_same_graph(data: synthetic.Data) -> None:
    again = synthetic.generate(synthetic.Shape(4000, 60_000), 0, CPU)
    other = synthetic.generate(synthetic.Shape(4000, 60_000), 1, CPU)
    assert torch.equal(again.x, data.x) and torch.equal(again.walk.indices, data.walk.indices)
    assert not torch.equal(other.walk.indices, data.walk.indices)


def test_averages_and_their_gradient_are_those_of_the_dense_matrix(data: synthetic.Data) -> None:
    small = synthetic.generate(synthetic.Shape(2000, 5000), 0, CPU)
    S = scale_rivals.averaging(small.walk)
    dense = S.to_dense()
    h = torch.randn(2000, 3, requires_grad=True)
    weights = torch.randn(2000, 3)
    (scale_rivals._Average.apply(h, S) * weights).sum().backward()
    np.testing.assert_allclose(h.grad, dense.T @ weights, atol=1e-5)
    assert float(dense.sum(1).max()) == pytest.approx(1, abs=1e-4)


def test_the_discriminant_is_the_best_rule_for_gaussian_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(synthetic.CLASSES, 5, generator=generator)
    y = torch.randint(synthetic.CLASSES, (20_000,), generator=generator)
    x = means[y] + 0.3 * torch.randn(20_000, 5, generator=generator)
    classify = scale.discriminant(x[:10_000], y[:10_000])
    best = torch.cdist(x[10_000:], means).argmin(1)
    assert float((classify(x[10_000:]).argmax(1) == best).double().mean()) > 0.95


def test_it_runs_on_a_small_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--width", "16", "--components", "8", "--edges", "64", "--block", "256", "--repeat", "1", "--more", "2"]
    file = tmp_path / "scale.json"
    monkeypatch.setattr(sys, "argv", ["x", "--scale", "0.0005", "--seconds", "2", *sizes, "--json", str(file)])
    with pytest.raises(SystemExit) as end:
        scale.main()
    assert end.value.code == 0
    result = json.loads(file.read_text())
    assert set(result["runs"]) == {"edges", "node blocks, paper", "node blocks, ours"}
    for run in result["runs"].values():
        steps = [point["steps"] for point in run["curve"]]
        assert steps == sorted(steps) and run["evaluations"] > 0
    assert (result["graph"]["nodes"], result["graph"]["edges"]) == (2000, 30_930)
    assert result["cost_of_edges"]["2x"]["edges"] == 61_859
    assert result["to_target"]["node blocks, paper"] is not None
    assert "test cost" in capsys.readouterr().out


def test_a_part_that_fails_is_recorded_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    file = tmp_path / "scale.json"
    sizes = ["--width", "8", "--components", "4", "--edges", "32", "--block", "64", "--repeat", "1", "--more", "2"]
    monkeypatch.setattr(sys, "argv", ["x", "--scale", "0.0005", "--seconds", "1", *sizes, "--json", str(file)])
    monkeypatch.setattr(scale, "fit_gcn", broken)
    with pytest.raises(SystemExit) as end:
        scale.main()
    result = json.loads(file.read_text())
    assert end.value.code == 1 and result["failed"] == {"GCN and test cost": "RuntimeError: out of memory"}
    assert "GCN" not in result and set(result["runs"]) and set(result["cost_of_edges"]) == {"1x", "2x"}
    assert "FAILED GCN and test cost" in capsys.readouterr().out
