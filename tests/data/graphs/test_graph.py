from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from eigenmap import EigenmapError, Graph, load_graph, save_graph
from eigenmap.core import folders
from eigenmap.data.graphs.files import read_features, read_nodes
from eigenmap.data.graphs.graph import as_features
from eigenmap.networks import SparseRows

EDGES = np.array([[0, 1, 1, 2, 3, 2], [1, 0, 2, 1, 2, 3]], np.int32)
X = np.arange(12, dtype=np.float32).reshape(4, 3)
ARRAYS: dict[str, Any] = {
    "edge_index": EDGES,
    "x": X,
    "y": np.array([0, 1, -1, 1], np.int16),
    "train_idx": np.array([0]),
    "val_idx": np.array([1]),
    "test_idx": np.array([2, 3]),
}


def write(path: Path, **changes: Any) -> Path:
    """A graph file with some arrays changed, or (None) left out."""
    np.savez(path, **{name: value for name, value in {**ARRAYS, **changes}.items() if value is not None})
    return path


def sparse_parts(x: np.ndarray[Any, Any], transposed: bool = False) -> dict[str, Any]:
    csr = scipy.sparse.csr_matrix(x)
    shape = np.array(x.shape[::-1] if transposed else x.shape)
    return {"x": None, "x_indptr": csr.indptr, "x_indices": csr.indices, "x_data": csr.data, "x_shape": shape}


def dense(x: torch.Tensor | SparseRows) -> torch.Tensor:
    return x.dense() if isinstance(x, SparseRows) else x


def test_a_file_with_everything(tmp_path: Path) -> None:
    graph = load_graph(write(tmp_path / "g.npz"))
    assert len(graph) == 4 and graph.n_features == 3
    torch.testing.assert_close(graph.x, torch.from_numpy(X))
    assert graph.y is not None and graph.y.tolist() == [0, 1, -1, 1]
    assert {name: nodes.tolist() for name, nodes in graph.splits.items()} == {
        "train": [0],
        "validation": [1],
        "test": [2, 3],
    }
    assert graph.walk().degrees().tolist() == [1, 2, 2, 1]


@pytest.mark.parametrize("transposed", [False, True])
def test_sparse_features_whatever_way_round_their_shape_is_written(tmp_path: Path, transposed: bool) -> None:
    graph = load_graph(write(tmp_path / "g.npz", **sparse_parts(X, transposed)))
    assert isinstance(graph.x, SparseRows) and graph.x.shape == (4, 3)
    torch.testing.assert_close(graph.x.dense(), torch.from_numpy(X))


def test_binary_sparse_features_need_no_values(tmp_path: Path) -> None:
    graph = load_graph(write(tmp_path / "g.npz", **{**sparse_parts(X), "x_data": None}))
    torch.testing.assert_close(dense(graph.x), torch.from_numpy((X != 0).astype(np.float32)))


@pytest.mark.parametrize("name", ["again.npz", "folder"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, name: str, sparse: bool, weighted: bool) -> None:
    changes: dict[str, Any] = sparse_parts(X) if sparse else {}
    if weighted:
        changes["edge_weight"] = np.array([1.0, 1, 2, 2, 5, 5])
    graph = load_graph(write(tmp_path / "g.npz", **changes))
    again = load_graph(save_graph(graph, tmp_path / name))
    torch.testing.assert_close(dense(again.x), dense(graph.x))
    torch.testing.assert_close(again.y, graph.y)
    torch.testing.assert_close(again.splits["test"], graph.splits["test"])
    first, second = graph.walk(), again.walk()
    torch.testing.assert_close(second.indices.long(), first.indices.long())
    torch.testing.assert_close(second.degrees(), first.degrees())
    assert (again.adjacency is not None) == (name == "folder")


def test_weights_of_very_different_size_are_stored_and_read(tmp_path: Path) -> None:
    weights = np.array([1e12, 1e12, 1e-12, 1e-12, 1.0, 1.0])
    again = load_graph(save_graph(load_graph(write(tmp_path / "g.npz", edge_weight=weights)), tmp_path / "folder"))
    torch.testing.assert_close(again.walk().degrees().sum(), torch.tensor(2e12 + 2, dtype=torch.float64))


def test_a_folder_is_read_as_a_memory_map_and_never_written_to(tmp_path: Path) -> None:
    folder = save_graph(load_graph(write(tmp_path / "g.npz")), tmp_path / "folder")
    before = (folder / "x.npy").read_bytes()
    graph = load_graph(folder)
    assert isinstance(graph.x, torch.Tensor)
    graph.x.zero_()
    assert (folder / "x.npy").read_bytes() == before


def test_the_stored_edges_of_a_folder_are_symmetric_already(tmp_path: Path) -> None:
    graph = load_graph(save_graph(load_graph(write(tmp_path / "g.npz")), tmp_path / "folder"))
    with pytest.raises(EigenmapError, match="symmetric"):
        graph.walk("bipartite")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": None}, "edge_index"),
        ({"x": None}, "x_indptr"),
        ({"x": X[:3]}, "node 3.*0 to 2"),
        ({"x": np.where(X == 7, np.nan, X)}, "NaN.*row 2"),
        ({"x": X[:, 0]}, "matrix"),
        ({"x": X[:, :0]}, "empty"),
        ({"x": X[:0]}, "empty"),
        ({"x": np.array([["a"]] * 4)}, "numbers"),
        ({"edge_index": EDGES[:, :0]}, "no edges"),
        ({"edge_index": EDGES.astype(float)}, "whole numbers"),
        ({"y": np.array([0, 1])}, "label"),
        ({"train_idx": np.array([9])}, "train split"),
        ({**sparse_parts(X), "x_shape": np.array([9, 9])}, "4 rows"),
        ({**sparse_parts(X), "x_indices": np.array([0, 1])}, "x_indices"),
        ({**sparse_parts(X), "x_indices": np.full(11, 7)}, "column"),
        ({**sparse_parts(X), "x_data": np.full(11, np.inf)}, "NaN.*infinity"),
        ({"edge_weight": np.array([1.0])}, "weight"),
        ({"edge_weight": np.array(["a"] * 6)}, "edge_weight.*numbers"),
        ({"edge_index": EDGES.astype(str)}, "edge_index.*numbers"),
        ({"x": X.astype(np.float64) * 1e300}, "float32.*row 0"),
        ({"y": np.array(["a", "b", "a", "b"])}, "y .*names"),
        ({"y": np.eye(4)}, r"label.*\(4\).*\(4, 4\)"),
        ({"y": np.array([0.5, 1, 1, 0])}, "class numbers"),
        ({"y": np.array([np.inf, 1, 1, 0])}, "class numbers"),
        ({"train_idx": np.array([0.0])}, "train_idx.*mask"),
        ({"train_idx": np.array([True, False])}, "train_idx.*mask.*4"),
    ],
)
def test_bad_files(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        load_graph(write(tmp_path / "g.npz", **changes))


def test_what_is_no_graph_file(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"none\.npz"):
        load_graph(tmp_path / "none.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    np.save(tmp_path / "one.npy", X)
    (tmp_path / "list.json").write_text("[1, 2]")
    for name in ("broken.npz", "one.npy", "list.json"):
        with pytest.raises(EigenmapError, match=rf"{name}.*\.npz"):
            load_graph(tmp_path / name)
    with pytest.raises(EigenmapError, match=r"list\.json.*\.npz"):
        read_features(tmp_path / "list.json")
    with pytest.raises(EigenmapError, match="has neither x"):
        load_graph(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").touch()
    with pytest.raises(EigenmapError, match="photos is not a graph"):
        load_graph(tmp_path / "photos")
    np.savez(tmp_path / "pickled.npz", **{**ARRAYS, "y": np.array([0, "a", None, {}], dtype=object)})
    with pytest.raises(EigenmapError, match=r"pickled\.npz.*read"):
        load_graph(tmp_path / "pickled.npz")


def test_a_mask_is_the_nodes_it_marks_and_a_label_that_is_not_a_number_is_none(tmp_path: Path) -> None:
    mask = np.array([False, True, False, True])
    graph = load_graph(write(tmp_path / "g.npz", train_idx=mask, y=np.array([0.0, np.nan, 2.0, 1.0])))
    assert graph.splits["train"].tolist() == [1, 3]
    assert graph.y is not None and graph.y.tolist() == [0, -1, 2, 1]


def test_features_in_a_file_that_may_only_be_read_are_not_copied(tmp_path: Path) -> None:
    shape = (3_000_000, 1024)  # 12 GB, of which the disk has nothing
    big = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=shape)
    del big
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    for part in (x, x[5:]):
        rows = as_features(part)
        assert isinstance(rows, torch.Tensor)
        assert rows.data_ptr() == part.__array_interface__["data"][0]
    assert as_features(np.broadcast_to(np.float32(1), (2, 3))).shape == (2, 3)  # no file: a copy that can be written


def test_numbers_of_another_byte_order(tmp_path: Path) -> None:
    graph = load_graph(write(tmp_path / "g.npz", x=X.astype(">f4"), edge_index=EDGES.astype(">i4")))
    torch.testing.assert_close(graph.x, torch.from_numpy(X))
    assert graph.walk().degrees().tolist() == [1, 2, 2, 1]
    long = load_graph((X.astype(np.longdouble), EDGES.astype(np.uint64)))
    torch.testing.assert_close(long.x, torch.from_numpy(X).double())


def test_nodes_need_no_edges(tmp_path: Path) -> None:
    path = write(tmp_path / "nodes.npz", edge_index=None)
    nodes = read_nodes(path)
    assert len(nodes) == 4 and nodes.y is not None and nodes.y.tolist() == [0, 1, -1, 1]
    assert nodes.splits["test"].tolist() == [2, 3]
    torch.testing.assert_close(read_features(path), torch.from_numpy(X))
    sparse = write(tmp_path / "sparse.npz", edge_index=None, **sparse_parts(X))
    torch.testing.assert_close(dense(read_features(sparse)), torch.from_numpy(X))
    with pytest.raises(EigenmapError, match="edge_index"):
        load_graph(path)
    with pytest.raises(EigenmapError, match="NaN"):
        read_nodes(write(tmp_path / "nan.npz", x=X * np.nan))


@pytest.mark.parametrize("weight", [-1.0, np.inf])
def test_entries_of_an_adjacency_matrix_are_weights_even_if_all_are_the_same(weight: float) -> None:
    with pytest.raises(EigenmapError, match="finite"):
        load_graph(scipy.sparse.csr_matrix(([weight, weight], ([0, 1], [1, 2])), shape=(4, 4)), x=X)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("indices", np.zeros((2, 3), np.int32), "indices .*list"),
        ("indptr", np.int64(3), "indptr .*list"),
        ("indptr", np.empty(0, np.int64), "indptr"),
        ("weights", np.arange(1, 7, dtype=np.float32), "float64"),
        ("weights", np.ones((6, 1)), "indices"),
        ("indices", np.array([0, 0, 1, 1, 2, 3], np.int32), "self-loops|both directions"),
    ],
)
def test_arrays_of_a_folder_of_the_wrong_kind(tmp_path: Path, name: str, array: Any, message: str) -> None:
    folder = save_graph(load_graph(write(tmp_path / "g.npz")), tmp_path / "folder")
    np.save(folder / f"{name}.npy", array)
    with pytest.raises(EigenmapError, match=message):
        load_graph(folder)


@pytest.mark.parametrize("damage", ["indptr", "indices", "empty", "weights"])
def test_a_damaged_folder(tmp_path: Path, damage: str) -> None:
    folder = save_graph(load_graph(write(tmp_path / "g.npz")), tmp_path / "folder")
    if damage == "indptr":
        np.save(folder / "indptr.npy", np.array([0, 5, 2, 5, 6]))
    elif damage == "indices":
        np.save(folder / "indices.npy", np.full(6, 4))
    elif damage == "weights":
        np.save(folder / "weights.npy", np.ones(6))  # the weights themselves, not their running sum
    else:
        np.save(folder / "indices.npy", np.empty(0, np.int32))
        np.save(folder / "indptr.npy", np.zeros(5, np.int64))
    with pytest.raises(EigenmapError, match=r"damaged|no edges|running sum"):
        load_graph(folder)


def test_features_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    torch.testing.assert_close(read_features(tmp_path / "x.npy"), torch.from_numpy(X))
    np.savez(tmp_path / "x.npz", x=X)
    torch.testing.assert_close(read_features(tmp_path / "x.npz"), torch.from_numpy(X))
    for form in ("csr", "csc", "coo", "bsr"):
        scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_matrix(X).asformat(form))
        torch.testing.assert_close(dense(read_features(tmp_path / "sparse.npz")), torch.from_numpy(X))
    torch.testing.assert_close(read_features(write(tmp_path / "g.npz")), torch.from_numpy(X))
    with pytest.raises(EigenmapError, match=r"none.npy"):
        read_features(tmp_path / "none.npy")


def test_a_graph_needs_edges() -> None:
    with pytest.raises(EigenmapError, match="edge_index"):
        Graph(torch.from_numpy(X))


@pytest.mark.parametrize("name", ["g", "g.npz"])
def test_a_graph_can_be_written_over_the_one_it_was_read_from(tmp_path: Path, name: str) -> None:
    weights = np.array([1.0, 1.0, 2.0, 2.0, 4.0, 4.0])
    first = load_graph(write(tmp_path / "first.npz", edge_weight=weights))
    degrees = first.walk().degrees()
    path = save_graph(first, tmp_path / name)
    for _ in range(2):
        save_graph(load_graph(path), path)
        again = load_graph(path)
        torch.testing.assert_close(dense(again.x), torch.from_numpy(X))
        torch.testing.assert_close(again.walk().degrees(), degrees)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["first.npz", name])


def test_weights_survive_the_way_from_a_folder_to_a_file(tmp_path: Path) -> None:
    weights = np.array([1.0, 1.0, 2.0, 2.0, 4.0, 4.0])
    graph = load_graph(write(tmp_path / "g.npz", edge_weight=weights))
    save_graph(load_graph(save_graph(graph, tmp_path / "folder")), tmp_path / "again.npz")
    torch.testing.assert_close(load_graph(tmp_path / "again.npz").walk().degrees(), graph.walk().degrees())


def test_nothing_of_the_graph_that_was_there_before_stays(tmp_path: Path) -> None:
    weights = np.array([1.0, 1.0, 2.0, 2.0, 4.0, 4.0])
    folder = save_graph(load_graph(write(tmp_path / "g.npz", edge_weight=weights)), tmp_path / "folder")
    bare = Graph(SparseRows.of(scipy.sparse.csr_matrix(np.eye(4))), torch.from_numpy(EDGES))
    found = load_graph(save_graph(bare, folder))
    assert isinstance(found.x, SparseRows) and found.y is None and not found.splits
    assert found.walk().cumulative is None


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    graph = load_graph(write(tmp_path / "g.npz"))
    for name in ("photos", "photos/cat.jpg"):
        with pytest.raises(EigenmapError, match=r"photos.*graph"):
            save_graph(graph, tmp_path / name)
    assert [file.name for file in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


def test_a_graph_that_cannot_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_graph(write(tmp_path / "g.npz"))
    folder = save_graph(graph, tmp_path / "folder")

    def full(*given: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    monkeypatch.setattr(np, "savez", full)
    for name in ("folder", "new", "new.npz"):
        with pytest.raises(EigenmapError, match="No space left"):
            save_graph(graph, tmp_path / name)
    monkeypatch.undo()

    def stuck(source: Path, target: Path) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(folders, "exchange", stuck)
    with pytest.raises(EigenmapError, match="busy"):
        save_graph(graph, folder)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "g.npz"]
    assert len(load_graph(folder)) == 4


def test_edges_of_a_folder_lead_in_both_directions(tmp_path: Path) -> None:
    folder = save_graph(load_graph(write(tmp_path / "g.npz")), tmp_path / "folder")
    np.save(folder / "indptr.npy", np.array([0, 2, 3, 3, 3]))
    np.save(folder / "indices.npy", np.array([1, 2, 2]))
    with pytest.raises(EigenmapError, match="both directions"):
        load_graph(folder)


def test_damage_inside_an_archive_is_one_sentence(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "g.npz", **ARRAYS)
    whole = bytearray((tmp_path / "g.npz").read_bytes())
    name = whole.index(b"x.npy")
    whole[name + 40 : name + 60] = bytes(20)
    (tmp_path / "g.npz").write_bytes(whole)
    with pytest.raises(EigenmapError, match=r"g\.npz.*read"):
        load_graph(tmp_path / "g.npz")
    np.savez(tmp_path / "no.npz", format=np.array(b"csr"), shape=np.array([4, 3]), data=np.ones(4))
    with pytest.raises(EigenmapError, match=r"no\.npz.*indices"):
        read_features(tmp_path / "no.npz")


@pytest.mark.parametrize("damage", [3, -1, "indptr", "row"])
def test_sparse_features_whose_parts_do_not_fit_are_refused_and_named(tmp_path: Path, damage: int | str) -> None:
    rows = scipy.sparse.csr_matrix(X)
    if damage == "row":
        rows = rows.tocoo()
        rows.row[0] = 1000
    elif damage == "indptr":
        rows.indptr[1] = 1000
    else:
        rows.indices[0] = damage
    with pytest.raises(EigenmapError, match=r"sparse.*damaged"):
        as_features(rows)
    scipy.sparse.save_npz(tmp_path / "far.npz", rows)
    with pytest.raises(EigenmapError, match=r"far\.npz.*(sparse.*damaged|read)"):
        read_features(tmp_path / "far.npz")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("x_shape", np.array(4), r"x_shape \(4,\)"),
        ("x_indices", np.zeros(11), "list"),
        ("x_indptr", np.array([0, 2.5, 5, 8, 11]), "list"),
        ("x_indptr", np.array(4), "list"),
        ("x_indices", np.zeros((11, 1), np.int64), "list"),
    ],
)
def test_parts_of_sparse_features_of_the_wrong_kind(tmp_path: Path, part: str, value: Any, message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        load_graph(write(tmp_path / "g.npz", **(sparse_parts(X) | {part: value})))


def test_a_mask_of_numbers_is_asked_about(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"mask.*boolean"):
        load_graph(write(tmp_path / "g.npz", train_idx=np.array([1, 0, 0, 1])))


def test_arrays_that_were_turned_round() -> None:
    graph = load_graph((X[::-1], EDGES[::-1]))
    torch.testing.assert_close(dense(graph.x), torch.from_numpy(X[::-1].copy()))
    assert graph.edge_index is not None and graph.edge_index.tolist() == EDGES[::-1].tolist()
