"""`eigenmap reproduce test-cost` at tiny scale, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from eigenmap.reproduce.table_6 import generated_graph
from tests.cli.run import refused, succeed


def test_cost(tmp_path: Path) -> None:
    file = tmp_path / "cost.json"
    printed = succeed("reproduce", "test-cost", "--scale", "tiny", "--device", "cpu", "--json", file).out
    content = json.loads(file.read_text())
    assert content["nodes"] == 2000 and len(content["rows"]) == 2
    for row in content["rows"]:
        assert f"{row['whole_set_s']:.4f} s" in printed and row["one_node_s"] > 0
    graph = generated_graph()
    np.savez(tmp_path / "graph.npz", x=graph.x, edge_index=graph.edge_index, y=graph.y)
    printed = succeed("reproduce", "test-cost", "--scale", "tiny", "--device", "cpu", "--data", tmp_path / "graph.npz")
    assert "240 nodes" in printed.out
    assert "needs a graph as --data," in refused("reproduce", "test-cost", "--scale", "paper")
