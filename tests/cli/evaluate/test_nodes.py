from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap, GraphEigenmap, load_graph
from eigenmap.evaluation.nodes import NodeSplit, evaluate_nodes, random_split
from tests.cli.run import refused, run, succeed


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """Three communities of 40 nodes; features say little by themselves; the last two nodes have no label."""
    random = np.random.default_rng(0)
    y = np.arange(122) % 3
    chance = np.where(y[:, None] == y[None, :], 0.2, 0.01)
    first, second = np.nonzero(np.triu(random.random((122, 122)) < chance, 1))
    x = random.standard_normal((122, 10)) + 1.5 * np.eye(10)[y]
    y[120:] = -1
    edges = np.stack([np.concatenate([first, second]), np.concatenate([second, first])])
    return {"x": x.astype(np.float32), "edge_index": edges, "y": y}


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]) -> Path:
    file = tmp_path_factory.mktemp("graphs") / "graph.npz"
    np.savez(file, **arrays)
    return file


@pytest.fixture(scope="module")
def graph_model(tmp_path_factory: pytest.TempPathFactory, graph_file: Path) -> Path:
    small = {"width": 32, "blocks": 1, "batch_size": 64}
    fitted = GraphEigenmap(12, steps=30, settings=small, device="cpu").fit(load_graph(graph_file))
    return fitted.model_.save(tmp_path_factory.mktemp("models") / "graph")


def test_scores_are_those_of_the_library(graph_model: Path, graph_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    arguments = ("evaluate", "nodes", graph_model, graph_file, "--labels", 10, 100, "--dims", 2, 8, "--runs", 2)
    result = succeed(*arguments, "--json", file)
    data = load_graph(graph_file)
    assert data.y is not None
    codes = Eigenmap.load(graph_model).encode(data.x, normalize=False)
    splits = [random_split(data.y, seed) for seed in range(2)]
    expected = evaluate_nodes(codes, data.y, splits, shares=(0.1, 1.0), dims=[2, 8])
    written = json.loads(file.read_text())
    for row, reference in zip(written["rows"], expected, strict=True):
        assert row == pytest.approx(reference, abs=1e-5)
    assert f"{expected[-1]['accuracy']:.4f}" in result.out
    assert re.search("100.*training.*12.*96", result.out)
    assert re.search("10 / 10 / 80.*2", result.err)
    assert written["measured"] == "nodes" and written["protocol"]["sizes"] == {
        "train": 12,
        "validation": 12,
        "test": 96,
    }
    assert written["model"]["fingerprint"] == Eigenmap.fingerprint(graph_model)
    assert written["protocol"]["classes"] == 3
    # Edges have no part in it.
    np.savez(tmp_path / "nodes.npz", x=data.x, y=data.y)
    bare = succeed("evaluate", "nodes", graph_model, tmp_path / "nodes.npz", *arguments[4:])
    assert bare.out == result.out


@pytest.mark.parametrize("of", ["codes", "encoder"])
def test_codes_too_large_to_hold_are_streamed(
    graph_model: Path, graph_file: Path, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("evaluate", "nodes", graph_model, graph_file, "--labels", 100, "--runs", 2, "--of", of)
    held = succeed(*arguments).out
    monkeypatch.setattr("eigenmap.cli.evaluate.nodes.HELD_BYTES", 0)
    monkeypatch.setattr("eigenmap.evaluation.nodes.BLOCK", 10)
    assert succeed(*arguments).out == held


def test_the_split_of_the_file_and_other_probes(
    graph_model: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    # A node without a label in a split is left out of it.
    parts = {"train_idx": np.arange(40), "val_idx": np.arange(40, 80), "test_idx": np.arange(80, 122)}
    np.savez(tmp_path / "split.npz", **arrays, **parts)
    file = tmp_path / "r.json"
    data = load_graph(tmp_path / "split.npz")
    assert data.y is not None
    split = NodeSplit(data.splits["train"], data.splits["validation"], data.splits["test"][:40])
    encoder = ("--of", "encoder", "--probe", "ridge")
    for options, probe, width in ((encoder, "ridge", 32), (("--probe", "paper", "--dims", 12), "paper", 12)):
        arguments = ("evaluate", "nodes", graph_model, tmp_path / "split.npz", "--labels", 100, "--runs", 1)
        succeed(*arguments, *options, "--json", file, "--force", "--quiet")
        written = json.loads(file.read_text())
        assert written["protocol"]["split"] == "file" and written["protocol"]["sizes"]["test"] == 40
        (row,) = written["rows"]
        assert (row["probe"], row["dim"], row["labels"], row["spread"]) == (probe, width, 40, 0.0)
    codes = Eigenmap.load(graph_model).encode(data.x, normalize=False)
    assert (
        row["accuracy"]
        == evaluate_nodes(codes, data.y, [split], shares=(1.0,), dims=[12], probe="paper")[0]["accuracy"]
    )


def test_mistakes_are_told(
    graph_model: Path, graph_file: Path, model_dir: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    evaluate = ("evaluate", "nodes", graph_model, graph_file)
    assert re.search("percentages.*0.*100.*0", refused(*evaluate, "--labels", 0))
    assert re.search("dim.*1.*12.*13", refused(*evaluate, "--dims", 13, "-q"))
    assert "--dims" in refused(*evaluate, "--of", "encoder", "--dims", 4, "-q")
    assert re.search("train_idx.*val_idx.*test_idx", refused(*evaluate, "--split", "file"))
    assert "model of images" in refused("evaluate", "nodes", model_dir, graph_file)
    np.savez(tmp_path / "bare.npz", x=arrays["x"], edge_index=arrays["edge_index"])
    assert "labels" in refused("evaluate", "nodes", graph_model, tmp_path / "bare.npz")
    np.savez(tmp_path / "wide.npz", x=arrays["x"][:, :4], edge_index=arrays["edge_index"], y=arrays["y"])
    assert re.search("10 features.*4", refused("evaluate", "nodes", graph_model, tmp_path / "wide.npz", "-q"))
    assert "gone.npz" in refused("evaluate", "nodes", graph_model, tmp_path / "gone.npz")
    (tmp_path / "r.json").write_text("mine")
    assert "exists" in refused(*evaluate, "--json", tmp_path / "r.json")
    result = run(*evaluate, "--probe", "svm")
    assert result.code == 2 and "--probe" in result.err


def test_a_class_without_a_training_node_is_named(
    graph_model: Path, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    y = arrays["y"].copy()
    y[:40] %= 2  # of the first forty none is in class 2
    split = {"train_idx": np.arange(40), "val_idx": np.arange(40, 60), "test_idx": np.arange(60, 120)}
    np.savez(tmp_path / "g.npz", **{**arrays, "y": y, **split})
    result = succeed("evaluate", "nodes", graph_model, tmp_path / "g.npz", "--runs", 1, "--labels", 100)
    assert re.search("training.* 2[.]", " ".join(result.err.split()))
    np.savez(tmp_path / "h.npz", **{**arrays, **split, "val_idx": np.arange(30, 60)})
    said = refused("evaluate", "nodes", graph_model, tmp_path / "h.npz", "-q")
    assert re.search("10 nodes .*train.*validation", said)


def test_codes_with_neighbours_and_the_probe_for_few_labels(graph_file: Path, tmp_path: Path) -> None:
    small = {"width": 32, "blocks": 1, "batch_size": 64, "neighbours": "S"}
    model = GraphEigenmap(12, steps=30, settings=small, device="cpu").fit(load_graph(graph_file)).model_
    model.save(tmp_path / "run")
    arguments = ("evaluate", "nodes", tmp_path / "run", graph_file, "--labels", 100, "--dims", 8, "--runs", 2, "-q")
    succeed(*arguments, "--neighbours", "--probe", "few", "--json", tmp_path / "r.json")
    written = json.loads((tmp_path / "r.json").read_text())
    data = load_graph(graph_file)
    assert data.y is not None
    codes = model.encode(data.x, edges=data.edge_index, normalize=False)
    splits = [random_split(data.y, seed) for seed in range(2)]
    (expected,) = evaluate_nodes(codes, data.y, splits, shares=(1.0,), dims=[8], probe="few")
    assert written["rows"][0] == pytest.approx(expected, abs=1e-5)
    assert written["protocol"]["neighbours"] == "S"
    assert "choose one" in refused(*arguments[:6], "--neighbours", "--of", "encoder", "-q")
