from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenmap import Eigenmap, fit_graph
from eigenmap.embedding.node_store import NodeCodes
from tests.cli.run import refused, succeed
from tests.graphs import blocks

GRAPH = blocks(90, degree=6)
SMALL: dict[str, Any] = {"width": 8, "blocks": 1, "batch_size": 32, "device": "cpu", "progress": False, "steps": 3}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a graph, and new nodes."""
    folder = tmp_path_factory.mktemp("nodes")
    fit_graph((GRAPH.x, GRAPH.edge_index), 5, **SMALL, neighbours="S2").save(folder / "run")
    np.savez(folder / "graph.npz", x=GRAPH.x, edge_index=GRAPH.edge_index)
    np.savez(folder / "gaps.npz", x=GRAPH.x, edge_index=GRAPH.edge_index, missing_idx=np.array([2, 3]))
    np.savez(folder / "new.npz", x=GRAPH.x[:2], edge_index=np.array([[90, 91], [4, 90]]))
    np.savez(folder / "bare.npz", edge_index=np.array([[90, 91], [4, 5]]))
    return folder


def test_codes_with_neighbours_in_one_file(place: Path, tmp_path: Path) -> None:
    said = succeed(
        "embed", place / "run", place / "graph.npz", "--neighbours", "--dim", 3, "-o", tmp_path / "c.npy"
    ).err
    assert re.search("averaged over neighbours.*: S2", " ".join(said.split()))
    model = Eigenmap.load(place / "run")
    expected = model.encode(GRAPH.x, 3, edges=GRAPH.edge_index)
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), expected, atol=2e-6)
    succeed("embed", place / "run", place / "gaps.npz", "--neighbours", "-o", tmp_path / "c.npz", "--quiet")
    expected = model.encode(GRAPH.x, edges=GRAPH.edge_index, missing=[2, 3])
    np.testing.assert_allclose(np.load(tmp_path / "c.npz")["codes"], expected, atol=2e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.npy", "c.npz"]  # no scratch is left


def test_new_nodes_of_a_stored_graph(place: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    succeed("embed", place / "run", place / "graph.npz", "--neighbours", "-o", store)
    assert "codes of nodes without damage" in succeed("verify", store).out
    succeed("embed", place / "run", place / "new.npz", "--stored", store, "-o", tmp_path / "new.npy")
    model, stored = Eigenmap.load(place / "run"), NodeCodes.open(store)
    expected = model.encode(GRAPH.x[:2], edges=[[90, 91], [4, 90]], stored=stored)
    np.testing.assert_array_equal(np.load(tmp_path / "new.npy"), expected)
    # Edges and no features at all.
    succeed("embed", place / "run", place / "bare.npz", "--stored", store, "-o", tmp_path / "bare.npy")
    nothing = np.zeros((2, 8), np.float32)
    expected = model.encode(nothing, edges=[[90, 91], [4, 5]], stored=stored, missing=[0, 1])
    np.testing.assert_array_equal(np.load(tmp_path / "bare.npy"), expected)


def test_codes_of_nodes_are_indexed_without_the_model(place: Path, tmp_path: Path) -> None:
    codes, index = tmp_path / "codes.npy", tmp_path / "nodes.index"
    succeed("embed", place / "run", place / "graph.npz", "-o", codes)
    for given in (place / "graph.npz", codes):
        assert "index that file without RUN" in refused("index", place / "run", given, "-o", index)
    assert "90 vectors" in succeed("index", codes, "-o", index).err


def test_the_file_to_index_in_a_folder_of_codes_is_named(place: Path, tmp_path: Path) -> None:
    store, index = tmp_path / "store", tmp_path / "nodes.index"
    succeed("embed", place / "run", place / "graph.npz", "--neighbours", "-o", store)
    for given in ([store], [place / "run", store]):
        assert "index " + str(store / "codes.npy") in refused("index", *given, "-o", index)
    assert "90 vectors" in succeed("index", store / "codes.npy", "-o", index).err


@pytest.mark.parametrize("name", ["map.npy", "model.onnx"])
def test_a_refused_export_does_not_advise_another_that_is_refused(place: Path, tmp_path: Path, name: str) -> None:
    said = refused("export", place / "run", "--to", tmp_path / name)
    assert "this one takes nodes." in said and "export it" not in said


def test_a_description_names_the_use_of_neighbours(place: Path, tmp_path: Path) -> None:
    said = succeed("info", place / "run").out
    assert re.search(r"neighbours +averaged where edges are given: S2", said)
    assert re.search(r"width 8, 1 block\b", said)
    fit_graph((GRAPH.x, GRAPH.edge_index), 5, **SMALL, neighbours="none").save(tmp_path / "alone")
    assert re.search("neighbours +not averaged", succeed("info", tmp_path / "alone").out)
    fit_graph((GRAPH.x, GRAPH.edge_index), 5, **SMALL, feature_hops=2).save(tmp_path / "hops")
    assert re.search("neighbours +needed: features are averaged over 2 steps", succeed("info", tmp_path / "hops").out)
    assert "--neighbours" in refused("embed", tmp_path / "hops", place / "graph.npz", "-o", tmp_path / "codes.npy")


def test_nodes_that_arrive_are_appended(place: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    succeed("embed", place / "run", place / "graph.npz", "--neighbours", "-o", store, "--quiet")
    said = succeed("embed", place / "run", place / "new.npz", "--append", "-o", store).err
    assert re.search("2 new codes, 1 .*, 92 ", " ".join(said.split()))
    assert len(NodeCodes.open(store)) == 92
    append = ("embed", place / "run", place / "new.npz", "--append", "-o", store)
    assert "joins two stored nodes" in refused(*append)  # again
    assert "full length" in refused(*append, "--dim", 2)
    assert "leave --stored out" in refused(*append, "--stored", store)


def test_what_is_refused(place: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    embed = ("embed", place / "run", place / "graph.npz")
    succeed(*embed, "--neighbours", "-o", store)
    assert "exists" in refused(*embed, "--neighbours", "-o", store)
    assert "full length" in refused(*embed, "--neighbours", "-o", tmp_path / "other", "--dim", 2)
    assert ".npy or .npz" in refused(*embed, "-o", tmp_path / "other")
    assert str(tmp_path) in refused(*embed, "--stored", tmp_path, "-o", tmp_path / "c.npy")
    assert "joins two stored nodes" in refused(*embed, "--stored", store, "-o", tmp_path / "c.npy")
    np.savez(tmp_path / "far.npz", x=GRAPH.x[:1], edge_index=np.array([[90], [200]]))
    assert "node 200" in refused(
        "embed", place / "run", tmp_path / "far.npz", "--stored", store, "-o", tmp_path / "c.npy"
    )
    np.savez(tmp_path / "alone.npz", x=GRAPH.x[:1])
    words = refused("embed", place / "run", tmp_path / "alone.npz", "--stored", store, "-o", tmp_path / "c.npy")
    assert "no edge_index" in words
    np.savez(tmp_path / "old.npz", edge_index=np.array([[3], [4]]))
    assert "numbered from 90" in refused(
        "embed", place / "run", tmp_path / "old.npz", "--stored", store, "-o", tmp_path / "c.npy"
    )
    fit_graph((GRAPH.x, GRAPH.edge_index), 5, **SMALL, neighbours="S2", seed=1).save(tmp_path / "run")
    words = refused("embed", tmp_path / "run", place / "new.npz", "--stored", store, "-o", tmp_path / "c.npy")
    assert "another model" in words
    assert not (tmp_path / "c.npy").exists()
    flipped = store / "own.npy"
    content = bytearray(flipped.read_bytes())
    content[-1] ^= 2
    flipped.write_bytes(content)
    assert "own.npy is damaged" in refused("verify", store)
