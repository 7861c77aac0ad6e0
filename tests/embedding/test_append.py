from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenmap import Eigenmap, EigenmapError, fit_graph, load_graph
from eigenmap.core.folders import folder_lock
from eigenmap.embedding import append, nodes
from eigenmap.embedding.append import append_nodes
from eigenmap.embedding.node_store import NodeCodes
from eigenmap.embedding.nodes import embed_nodes
from tests.graphs import blocks

GRAPH = blocks(60, degree=4)
SMALL: dict[str, Any] = {"width": 8, "blocks": 1, "batch_size": 32, "device": "cpu", "progress": False, "steps": 3}
NEW = np.array([[60, 60, 61, 62, 62], [4, 17, 60, 4, 61]])
X = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)


def fitted(way: str, folder: Path, weights: Any = None) -> Eigenmap:
    model = fit_graph((GRAPH.x, GRAPH.edge_index, weights), 5, **SMALL, neighbours=way, restart=0.3)
    model.save(folder / "run")
    return model


def stored(model: Eigenmap, folder: Path, weights: Any = None) -> Path:
    graph = load_graph((GRAPH.x, GRAPH.edge_index, weights))
    return embed_nodes(model, graph.x, graph.walk(), folder / "codes")


def whole() -> tuple[np.ndarray, np.ndarray]:
    """All nodes and all edges."""
    return np.concatenate([GRAPH.x, X]), np.concatenate([GRAPH.edge_index, NEW], axis=1)


def test_new_and_touched_nodes_have_the_codes_of_the_whole_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append, "STRIP", 5)
    monkeypatch.setattr(append, "ROWS", 7)
    monkeypatch.setattr(nodes, "ROWS", 7)
    model = fitted("S", tmp_path)
    folder = stored(model, tmp_path)
    before = np.array(NodeCodes.open(folder).codes)
    made = append_nodes(model, folder, X, NEW)
    assert made == (63, 3, 2)
    after = NodeCodes.open(folder)
    after.verify()
    x, edges = whole()
    expected = model.encode(x, edges=edges)
    touched = [4, 17]
    np.testing.assert_allclose(after.codes[60:], expected[60:], atol=2e-6)
    np.testing.assert_allclose(after.codes[touched], expected[touched], atol=2e-6)
    others = np.setdiff1d(np.arange(60), touched)
    np.testing.assert_array_equal(after.codes[others], before[others])
    walk, right = after.walk(), load_graph((x, edges)).walk()
    assert walk.edges().tolist() == right.edges().tolist()
    np.testing.assert_allclose(after.degrees(np.arange(63)), right.degrees().numpy() + 1)
    np.testing.assert_allclose(after.own(np.arange(63)), model.encode(x), atol=2e-6)


@pytest.mark.parametrize("way", ["none", "S2", "concat", "pagerank"])
def test_what_is_appended_is_close_to_the_whole_graph_and_can_be_appended_to(way: str, tmp_path: Path) -> None:
    model = fitted(way, tmp_path)
    folder = stored(model, tmp_path)
    append_nodes(model, folder, X[:1], NEW[:, :2])
    append_nodes(model, folder, X[1:], NEW[:, 2:])
    after = NodeCodes.open(folder)
    x, edges = whole()
    expected = model.encode(x, edges=edges)
    # Nodes two hops away have not noticed the new ones, which is a small part of what these see.
    cosines = (np.array(after.codes) * expected).sum(1)
    assert len(after) == 63 and cosines.min() > 0.7 and np.median(cosines) > 0.999
    if way == "none":
        np.testing.assert_allclose(after.codes, expected, atol=2e-6)


def test_weights_go_on(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    weights, more = rng.uniform(0.5, 2, GRAPH.edge_index.shape[1]), rng.uniform(0.5, 2, NEW.shape[1])
    model = fitted("S", tmp_path, weights)
    folder = stored(model, tmp_path, weights)
    for refused in (
        lambda: append_nodes(model, folder, X, NEW),
        lambda: model.encode(X, edges=NEW, stored=NodeCodes.open(folder)),
    ):
        with pytest.raises(EigenmapError, match="have weights"):
            refused()
    append_nodes(model, folder, X, (NEW, more))
    x, edges = whole()
    right = load_graph((x, edges, np.concatenate([weights, more]))).walk()
    walk = NodeCodes.open(folder).walk()
    assert walk.edges().tolist() == right.edges().tolist()
    np.testing.assert_allclose(walk.degrees().numpy(), right.degrees().numpy())
    plain = fitted("S", tmp_path / "plain")
    with pytest.raises(EigenmapError, match="have no weights"):
        append_nodes(plain, stored(plain, tmp_path / "plain"), X, (NEW, more))


def test_nodes_without_features_can_arrive(tmp_path: Path) -> None:
    for way in ("none", "S"):
        model = fitted(way, tmp_path / way)
        folder = stored(model, tmp_path / way)
        append_nodes(model, folder, np.zeros((1, 8)), [[60], [4]], missing=[0])
        after = NodeCodes.open(folder)
        x = np.concatenate([GRAPH.x, np.zeros((1, 8), np.float32)])
        edges = np.concatenate([GRAPH.edge_index, [[60], [4]]], axis=1)
        expected = model.encode(x, edges=edges, missing=[60])
        np.testing.assert_allclose(after.codes[60], expected[60], atol=2e-6)
        with pytest.raises(EigenmapError, match=r"Node 61.*features"):
            append_nodes(model, folder, np.zeros((1, 8)), [[], []], missing=[0])
        assert len(NodeCodes.open(folder)) == 61


def test_what_is_refused_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    model = fitted("S2", tmp_path)
    folder = stored(model, tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    append_twice = NEW[:, :1] - [[60], [0]]
    for edges, words in (([[60], [99]], "node 99"), (append_twice, "joins two stored nodes")):
        with pytest.raises(EigenmapError, match=words):
            append_nodes(model, folder, X[:1], edges)
    with pytest.raises(EigenmapError, match="another model"):
        append_nodes(fitted("S2", tmp_path / "other", np.ones(GRAPH.edge_index.shape[1])), folder, X, NEW)
    with pytest.raises(EigenmapError, match=re.escape(str(tmp_path))):
        append_nodes(model, tmp_path, X, NEW)
    with pytest.raises(EigenmapError, match=r"NodeCodes\.open.*not str"):
        model.encode(X, edges=NEW, stored=str(folder))  # type: ignore[arg-type]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_failure_in_the_middle_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted("S", tmp_path)
    folder = stored(model, tmp_path)
    before = np.array(NodeCodes.open(folder).codes)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(append, "_write_edges", full)
        with pytest.raises(EigenmapError, match="No space left"):
            append_nodes(model, folder, X, NEW)
    np.testing.assert_array_equal(NodeCodes.open(folder).codes, before)
    assert append_nodes(model, folder, X, NEW).nodes == 63
    with folder_lock(folder, blocking=False):
        pass  # nobody holds it any more
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes", "run"]


def test_a_stream_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    stored(fitted("S2", tmp_path), tmp_path)
    kills = os.environ.get("EIGENMAP_APPEND_KILLS", "8")
    words = [sys.executable, "-m", "tests.embedding.appending", str(tmp_path), kills]
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=variables, timeout=300)
    assert done.returncode == 0, done.stderr
    killed, _, nodes_there, _ = done.stdout.split()
    assert int(killed) >= min(3, int(kills)) and nodes_there == "84"
