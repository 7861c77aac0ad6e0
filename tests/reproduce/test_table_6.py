from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.recipes.graph import PAPER
from eigenmap.reproduce.table_6 import generated_graph, load_labelled_graph, recipe_of_graph, table_6
from eigenmap.training import CollapseError


def test_methods_are_trained_and_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, said = generated_graph(), []
    rows = table_6("tiny", graph, runs=2, device="cpu", say=said.append)
    assert len(rows) == 8 * 3 and said[0] == "MLP ..." and said[4] == "raw features ..."
    best = {row["method"]: row["accuracy"] for row in rows if row["share"] == 1.0}
    assert len(best) == 8 and min(best.values()) > 0.3  # four blocks: chance is a quarter
    monkeypatch.setattr(sys.modules["eigenmap.reproduce.table_6"], "HELD_BYTES", 0)  # streamed, the same
    nodes = torch.arange(240)
    split = {"train": nodes[:80], "validation": nodes[80:160], "test": nodes[160:]}
    streamed = table_6("tiny", replace(graph, splits=split), runs=1, device="cpu")
    monkeypatch.undo()
    assert streamed == table_6("tiny", replace(graph, splits=split), runs=1, device="cpu")


def test_a_collapse_is_a_row_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["eigenmap.reproduce.table_6"]
    codes = module._codes

    def collapsing(name: str, *given: object) -> torch.Tensor:
        if name == "unordered":
            raise CollapseError("the network collapsed")
        return torch.eye(240) if name != "features" else codes(name, *given)

    monkeypatch.setattr(module, "_codes", collapsing)
    monkeypatch.setattr(module, "rival_rows", lambda *given: [])
    said: list[str] = []
    rows = table_6("tiny", generated_graph(), runs=1, device="cpu", say=said.append)
    lost = [row for row in rows if row["collapsed"]]
    assert len(rows) == 12 and {row["method"] for row in lost} == {"the paper's, unordered"} and len(lost) == 3
    assert all(row["accuracy"] is None and row["spread"] is None for row in lost)
    assert "the paper's, unordered: the network collapsed" in said


def test_recipes() -> None:
    assert recipe_of_graph("unordered", "paper") is PAPER
    ordered = recipe_of_graph("ordered", "small")
    assert (ordered.objective, ordered.objective_options) == ("neuralef", {"alpha": "paper", "scale": 20.0})
    assert (ordered.width, ordered.blocks, ordered.codes) == (2048, 5, "encoder")


def test_graphs_without_labels_and_no_graph(tmp_path: Path) -> None:
    graph = generated_graph()
    np.savez(tmp_path / "bare.npz", x=graph.x, edge_index=graph.edge_index)
    np.savez(tmp_path / "graph.npz", x=graph.x, edge_index=graph.edge_index, y=graph.y)
    with pytest.raises(EigenmapError, match=r"scale=paper needs a graph as data=, such as ogb:ogbn-products"):
        load_labelled_graph("paper", None)
    with pytest.raises(EigenmapError, match=r"bare.npz has no labels"):
        load_labelled_graph("small", str(tmp_path / "bare.npz"))
    assert len(load_labelled_graph("small", str(tmp_path / "graph.npz"))) == 240
