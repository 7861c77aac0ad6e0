"""Costs with edges: every method runs, and a GCN's matrix is the usual one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.graphs import edge_cost
from benchmarks.graphs.rivals.propagation import adjacency, gcn_operator
from eigenmap.data.graphs.adjacency import build_adjacency
from eigenmap.networks.folding import Inference


def test_every_method_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_cost, "SINGLES", 2)
    monkeypatch.setattr(
        "sys.argv", ["edge_cost", "--set", "products", "--scale", "0.0001", "--json", str(tmp_path / "a")]
    )
    edge_cost.main()
    result = json.loads((tmp_path / "a").read_text())
    rows = {row["method"]: row for row in result["timings"]}
    assert len(rows) == 9 and not any("failed" in row for row in rows.values())
    assert rows["GCN, full batch"]["all_nodes_s"] > 0 and rows["GCN, exact neighbourhood"]["one_node_s"] > 0
    assert rows["ours, features alone, float32"]["all_nodes_s"] > 0 and result["nodes"] == 2000


def test_the_matrix_of_a_gcn() -> None:
    index = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    found = edge_cost.gcn_matrix(build_adjacency(index, 6))
    torch.testing.assert_close(found.to_dense(), gcn_operator(adjacency(index, 6)).to_dense())


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given = edge_cost.read(None, "products", 0.0001, "cpu")
    ours = edge_cost.Ours(given, Inference())
    with torch.inference_mode():
        whole = ours.scores(given.x)
        monkeypatch.setattr(edge_cost, "BATCH", 300)
        torch.testing.assert_close(ours.scores(given.x), whole, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(ours.classify(ours.codes(given.x)), whole, atol=1e-5, rtol=1e-4)
