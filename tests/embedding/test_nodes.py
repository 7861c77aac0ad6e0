from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap, EigenmapError, fit_graph, load_graph
from eigenmap.embedding import node_store, nodes
from eigenmap.embedding.node_store import MANIFEST, NodeCodes
from eigenmap.embedding.nodes import embed_nodes
from tests.graphs import blocks

GRAPH = blocks(90, degree=6)
EDGES = GRAPH.edge_index
SMALL: dict[str, Any] = {"width": 8, "blocks": 1, "batch_size": 32, "device": "cpu", "progress": False, "steps": 3}
WAYS = ["none", "S", "S2", "concat", "pagerank"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Eigenmap]:
    """A saved model for each way."""
    made = {way: fit_graph((GRAPH.x, EDGES), 5, **SMALL, neighbours=way, restart=0.3) for way in WAYS}
    folder = tmp_path_factory.mktemp("runs")
    for way, model in made.items():
        model.save(folder / way)
    return made


def walk() -> Any:
    return load_graph((GRAPH.x, EDGES)).walk()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("missing", [None, [3, 50]])
def test_streamed_codes_are_those_in_memory(
    models: dict[str, Eigenmap], way: str, missing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "ROWS", 7)
    model = models[way]
    # One column at a time, and few rows at a time.
    embed_nodes(model, GRAPH.x, walk(), tmp_path / "codes", memory=1, batch_size=11, missing=missing)
    stored = NodeCodes.open(tmp_path / "codes")
    expected = model.encode(GRAPH.x, edges=EDGES, missing=missing)
    np.testing.assert_allclose(stored.codes, expected, atol=2e-6)
    assert len(stored) == 90 and stored.propagation == model.neighbours.propagation
    assert stored.fingerprint == model.weights_sha256
    assert stored.verify()[0] == f"{MANIFEST}: intact"


@pytest.mark.parametrize("way", WAYS)
def test_of_a_stored_graph_only_neighbours_are_read(models: dict[str, Eigenmap], way: str, tmp_path: Path) -> None:
    model = models[way]
    embed_nodes(model, GRAPH.x, walk(), tmp_path / "codes")
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    edges = [[90, 90, 91, 92], [4, 17, 33, 90]]
    expected = model.encode(x, edges=edges, stored=NodeCodes.open(tmp_path / "codes"), missing=[2])
    assert expected.shape == (3, 5) and np.isfinite(expected).all()
    others = np.setdiff1d(np.arange(90), [4, 17, 33])
    for name in ("codes", "own", "state", "degrees"):
        path = tmp_path / "codes" / f"{name}.npy"
        if path.exists():
            array = np.load(path, mmap_mode="r+")
            array[others] = np.nan
            array.flush()
    again = model.encode(x, edges=edges, stored=NodeCodes.open(tmp_path / "codes"), missing=[2])
    np.testing.assert_array_equal(again, expected)


def test_a_new_node_with_one_hop_has_the_code_it_has_in_the_whole_graph(
    models: dict[str, Eigenmap], tmp_path: Path
) -> None:
    model = models["S"]
    embed_nodes(model, GRAPH.x, walk(), tmp_path / "codes")
    x = np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
    new = np.array([[90, 90, 91], [4, 17, 90]])
    found = model.encode(x, edges=new, stored=NodeCodes.open(tmp_path / "codes"))
    whole = model.encode(np.concatenate([GRAPH.x, x]), edges=np.concatenate([EDGES, new], axis=1))
    np.testing.assert_allclose(found, whole[90:], atol=1e-6)


def test_new_nodes_that_cannot_be(models: dict[str, Eigenmap], tmp_path: Path) -> None:
    model = models["S"]
    embed_nodes(model, GRAPH.x, walk(), tmp_path / "codes")
    stored = NodeCodes.open(tmp_path / "codes")
    x = GRAPH.x[:1]
    with pytest.raises(EigenmapError, match="another model"):
        models["S2"].encode(x, edges=[[90], [0]], stored=stored)
    with pytest.raises(EigenmapError, match=r"edges.*91.*0 to 90"):
        model.encode(x, edges=[[90], [91]], stored=stored)
    with pytest.raises(EigenmapError, match=r"Node 90.*features"):
        model.encode(x, edges=[[], []], stored=stored, missing=[0])
    assert model.encode(x, edges=[[], []], stored=stored).shape == (1, 5)  # features are enough


def test_what_cannot_be_written(models: dict[str, Eigenmap], tmp_path: Path) -> None:
    model = models["S"]
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"a")
    with pytest.raises(EigenmapError, match=r"photos exists"):
        embed_nodes(model, GRAPH.x, walk(), tmp_path / "photos", overwrite=True)
    embed_nodes(model, GRAPH.x, walk(), tmp_path / "codes")
    ticks: list[int] = []
    with pytest.raises(EigenmapError, match="exists; choose"):
        embed_nodes(model, GRAPH.x, walk(), tmp_path / "codes", progress=lambda done, total: ticks.append(done))
    assert not ticks  # refused before any work
    embed_nodes(model, GRAPH.x, walk(), tmp_path / "codes", overwrite=True)
    for name in ("batch_size", "memory"):
        with pytest.raises(EigenmapError, match=rf"{name} .*1.*0"):
            embed_nodes(model, GRAPH.x, walk(), tmp_path / "other", **{name: 0})
    with pytest.raises(EigenmapError, match=r"89 rows.*90 nodes"):
        embed_nodes(model, GRAPH.x[:89], walk(), tmp_path / "other")
    fresh = fit_graph((GRAPH.x, EDGES), 5, **SMALL)
    with pytest.raises(EigenmapError, match="save the model first"):
        embed_nodes(fresh, GRAPH.x, walk(), tmp_path / "other")
    with pytest.raises(EigenmapError, match=r"Node 7.*features"):
        alone = load_graph((GRAPH.x[:8], [[0], [1]])).walk()
        embed_nodes(model, GRAPH.x[:8], alone, tmp_path / "other", missing=[7])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes", "photos"]  # nothing is half written


def test_damaged_folders_are_refused(models: dict[str, Eigenmap], tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=re.escape(str(tmp_path))):
        NodeCodes.open(tmp_path)
    folder = embed_nodes(models["concat"], GRAPH.x, walk(), tmp_path / "codes")
    about = json.loads((folder / MANIFEST).read_text())
    for change, words in (
        ({"nodes": 91}, "has shape"),
        ({"way": "mean"}, "way must be one of"),
        ({"files": {}}, r"damaged.*\.npy"),
        ({"files": dict.fromkeys(about["files"], 1)}, r"damaged.*checksums"),
        ({"files": about["files"] | {"../secret.npy": about["files"]["own.npy"]}}, r"damaged.*checksums"),
    ):
        (folder / MANIFEST).write_text(json.dumps({**about, **change}))
        with pytest.raises(EigenmapError, match=words):
            NodeCodes.open(folder)
    (folder / MANIFEST).write_text(json.dumps(about).replace('"size": ', '"size": 1e999, "was": ', 1))
    with pytest.raises(EigenmapError, match=r"damaged.*checksums"):
        NodeCodes.open(folder)
    (folder / MANIFEST).write_text("[]")
    with pytest.raises(EigenmapError, match=f"{MANIFEST} is damaged"):
        NodeCodes.open(folder)
    (folder / MANIFEST).write_text(json.dumps(about))
    own = np.load(folder / "own.npy", mmap_mode="r+")
    own[5] += 1
    own.flush()
    with pytest.raises(EigenmapError, match=r"own\.npy is damaged"):
        NodeCodes.open(folder).verify()


def test_weights_are_kept_for_new_nodes(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2, EDGES.shape[1])
    model = fit_graph((GRAPH.x, EDGES, weights), 5, **SMALL, neighbours="S")
    model.save(tmp_path / "run")
    graph = load_graph((GRAPH.x, EDGES, weights))
    stored = NodeCodes.open(embed_nodes(model, GRAPH.x, graph.walk(), tmp_path / "codes"))
    np.testing.assert_allclose(stored.codes, model.encode(GRAPH.x, edges=(EDGES, weights)), atol=2e-6)
    kept, given = stored.walk(), graph.walk()
    assert torch.equal(kept.indptr, given.indptr) and torch.equal(kept.indices, given.indices)
    assert given.cumulative is not None and torch.equal(kept.cumulative, given.cumulative)  # type: ignore[arg-type]


def test_a_folder_that_is_replaced_while_it_is_opened(
    models: dict[str, Eigenmap], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The description of one folder never comes with the codes of another."""
    for name, way in (("codes", "none"), ("other", "S")):
        embed_nodes(models[way], GRAPH.x, walk(), tmp_path / name)
    wanted = np.array(NodeCodes.open(tmp_path / "other").codes)
    read = node_store.open_npy

    def replaced_meanwhile(*given: Any) -> Any:
        if (tmp_path / "other").exists():
            (tmp_path / "codes").rename(tmp_path / "old")
            (tmp_path / "other").rename(tmp_path / "codes")
        return read(*given)

    monkeypatch.setattr(node_store, "open_npy", replaced_meanwhile)
    stored = NodeCodes.open(tmp_path / "codes")
    assert stored.fingerprint == models["S"].weights_sha256
    np.testing.assert_array_equal(stored.codes, wanted)
