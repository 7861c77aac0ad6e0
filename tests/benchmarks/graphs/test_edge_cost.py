"""Costs with edges: every method runs, and a GCN's matrix is the usual one."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks.graphs import edge_cost
from benchmarks.graphs.rivals.propagation import adjacency, gcn_operator
from eigenmap.data.graphs.adjacency import build_adjacency
from eigenmap.fitting import size
from eigenmap.fitting.graph import fit_graph
from eigenmap.fitting.size import Size
from eigenmap.networks.folding import Inference


def test_every_method_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_cost, "SINGLES", 2)
    given = ["--set", "products", "--scale", "0.0001", "--size", "64", "0", "--json", str(tmp_path / "a")]
    monkeypatch.setattr("sys.argv", ["edge_cost", *given])
    edge_cost.main()
    result = json.loads((tmp_path / "a").read_text())
    rows = {row["method"]: row for row in result["timings"]}
    assert len(rows) == 9 and not any("failed" in row for row in rows.values())
    assert rows["GCN, full batch"]["all_nodes_s"] > 0 and rows["GCN, exact neighbourhood"]["one_node_s"] > 0
    assert rows["ours, features alone, float32"]["all_nodes_s"] > 0 and result["nodes"] == 2000
    assert (result["width"], result["blocks"]) == (64, 0)


def test_short_work_is_repeated_more_often() -> None:
    assert [edge_cost.repetitions(seconds) for seconds in (1e-5, 0.01, 1.0, 30.0)] == [200, 50, 5, 5]


def test_the_matrix_of_a_gcn() -> None:
    index = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    found = edge_cost.gcn_matrix(build_adjacency(index, 6))
    torch.testing.assert_close(found.to_dense(), gcn_operator(adjacency(index, 6)).to_dense())


def test_batches_change_nothing() -> None:
    given = edge_cost.read(None, "products", 0.0001, "cpu")
    ours = edge_cost.Ours(given, Inference(), Size(128, 1))
    with torch.inference_mode():
        whole = ours.scores(given.x)
        ours.batch = 300
        torch.testing.assert_close(ours.scores(given.x), whole, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(ours.classify(ours.codes(given.x)), whole, atol=1e-5, rtol=1e-4)


def test_the_size_is_that_of_the_stored_run(tmp_path: Path) -> None:
    result = {"size": {"width": 512, "blocks": 0}}
    (tmp_path / "edges-actor-ours-seen-s0.json").write_text(json.dumps(result))
    assert edge_cost.fitted_size(None, "actor", "cpu", tmp_path) == Size(512, 0)
    (tmp_path / "edges-planetoid_cora-ours-seen-s0.json").write_text("{}")  # of an earlier default
    (tmp_path / "edges-planetoid_cora-official-ours-seen-s0.json").write_text(json.dumps(result))
    assert edge_cost.fitted_size(None, "planetoid_cora", "cpu", tmp_path) == Size(512, 0)


def test_without_a_stored_run_the_size_is_that_of_a_new_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_cost, "ON_CPU", 0.0001)
    monkeypatch.setattr(edge_cost, "fit_graph", partial(fit_graph, steps=400, batch_size=64))
    monkeypatch.setattr(size, "SIZES", (Size(16, 0), Size(8, 1)))
    assert edge_cost.fitted_size(None, "products", "cpu", tmp_path) in size.SIZES
