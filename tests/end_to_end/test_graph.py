"""What a user with a graph does, each command in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import eigenmap as em
from tests.end_to_end.process import eigenmap, finish, start
from tests.graphs import blocks


def test_fit_and_embed_nodes_never_seen(tmp_path: Path) -> None:
    graph = blocks(300)
    known = (graph.edge_index < 250).all(0)
    np.savez(tmp_path / "graph.npz", x=graph.x[:250], edge_index=graph.edge_index[:, known])
    np.save(tmp_path / "new.npy", graph.x[250:])
    small = ("--width", 16, "--steps", 30, "--batch-size", 64, "--device", "cpu")
    fitted = eigenmap("fit", "graph", "graph.npz", "--out", "run", "-k", 8, *small, cwd=tmp_path)
    assert "250 nodes" in fitted.err and "eigenvalues" in fitted.err
    eigenmap("embed", "run", "new.npy", "--out", "codes.npy", "--dim", 4, cwd=tmp_path)
    codes = np.load(tmp_path / "codes.npy")
    expected = em.Eigenmap.load(tmp_path / "run").encode(graph.x[250:], dim=4)
    np.testing.assert_allclose(codes, expected, atol=1e-5)


def test_bad_graphs_end_in_one_sentence_and_write_nothing(tmp_path: Path) -> None:
    graph = blocks(60)
    np.savez(tmp_path / "graph.npz", x=graph.x[:50], edge_index=graph.edge_index)
    result = finish(start("fit", "graph", "graph.npz", "--out", "run", cwd=tmp_path))
    assert result.code == 2 and result.out == ""
    assert re.search(r"graph\.npz.*edge_index.*59.*0 to 49", result.err)
    assert not (tmp_path / "run").exists()
