from __future__ import annotations

import sys
import types
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch

from eigenmap import EigenmapError, load_graph
from eigenmap.data import load_ogb, load_pyg
from eigenmap.networks import SparseRows

X = np.eye(4, 3, dtype=np.float32)
EDGES = np.array([[0, 1, 2], [1, 2, 3]])
DEGREES = [1, 2, 2, 1]

with warnings.catch_warnings():  # its own, about torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.data import Data


def test_arrays_tensors_and_lists() -> None:
    for x, edges in [(X, EDGES), (torch.from_numpy(X), torch.from_numpy(EDGES)), (X.tolist(), EDGES.tolist())]:
        assert load_graph((x, edges)).walk().degrees().tolist() == DEGREES
    assert load_graph((X, EDGES, [1.0, 2.0, 3.0])).walk().degrees().tolist() == [0.5, 1.5, 2.5, 1.5]
    assert load_graph((scipy.sparse.csr_matrix(X), EDGES)).x.shape == (4, 3)
    rows = load_graph((torch.from_numpy(X).to_sparse(), EDGES)).x
    assert isinstance(rows, SparseRows)
    torch.testing.assert_close(rows.dense(), torch.from_numpy(X))
    matrix = scipy.sparse.coo_matrix((np.ones(3), EDGES), shape=(4, 4))
    assert load_graph((X, matrix)).walk().degrees().tolist() == DEGREES


@pytest.mark.parametrize(
    ("source", "x", "message"),
    [
        ((X, [["a", "b"], ["b", "c"]]), None, "edge_index.*numbers"),
        ((X, [[0, 1, 2], [1, 2]]), None, "one length"),
        ((X, [[], []]), None, "no edges"),
        ((X, []), None, "no edges"),
        ((X, EDGES, ["a", "b", "c"]), None, "edge_weight.*numbers"),
        ((X, scipy.sparse.eye(4), [1.0] * 4), None, "edge_weight"),
        ((X, EDGES), X, "once"),
        ("graph.npz", X, "Graph.*own"),
        (Data(x=torch.from_numpy(X)), None, "edge_index"),
    ],
)
def test_arrays_that_are_no_graph(source: Any, x: Any, message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        load_graph(source, x)


def test_pyg_data_with_labels_and_masks() -> None:
    mask = torch.tensor([True, False, True, False])
    data = Data(
        x=torch.from_numpy(X), edge_index=torch.from_numpy(EDGES), y=torch.tensor([[0], [1], [2], [1]]), train_mask=mask
    )
    graph = load_graph(data)
    assert graph.walk().degrees().tolist() == DEGREES
    assert graph.y is not None and graph.y.tolist() == [0, 1, 2, 1]
    assert {name: nodes.tolist() for name, nodes in graph.splits.items()} == {"train": [0, 2]}
    several = Data(x=data.x, edge_index=data.edge_index, test_mask=torch.stack([~mask, mask], 1))
    assert load_graph(several).splits["test"].tolist() == [1, 3]
    weighted = Data(x=data.x, edge_index=data.edge_index, edge_weight=torch.tensor([[1.0], [2.0], [3.0]]))
    assert load_graph(weighted).walk().degrees().tolist() == [0.5, 1.5, 2.5, 1.5]
    # What is not one class number a node is no label: targets of a regression, several labels, a label of the graph.
    for y in (torch.rand(4), torch.ones(4, 2), torch.tensor([1])):
        assert load_graph(Data(x=data.x, edge_index=data.edge_index, y=y)).y is None
    with pytest.raises(EigenmapError, match="no features"):
        load_graph(Data(edge_index=data.edge_index, num_nodes=4))


def test_pyg_data_of_numpy_arrays() -> None:
    mask = np.array([True, False, True, False])
    graph = load_graph(Data(x=X, edge_index=EDGES, edge_weight=np.array([1.0, 2.0, 3.0]), train_mask=mask))
    assert graph.walk().degrees().tolist() == [0.5, 1.5, 2.5, 1.5]
    assert graph.splits["train"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("mask", "message"),
    [([1, 2, 3, 0], "node numbers"), ([True, False], "mask.*4")],
)
def test_pyg_masks_that_are_none(mask: list[int], message: str) -> None:
    data = Data(x=torch.from_numpy(X), edge_index=torch.from_numpy(EDGES), train_mask=torch.tensor(mask))
    with pytest.raises(EigenmapError, match=message):
        load_graph(data)


def test_numbers_that_torch_does_not_know() -> None:
    wide = load_graph((scipy.sparse.csr_matrix(X.astype(np.longdouble)), EDGES)).x
    assert isinstance(wide, SparseRows)
    torch.testing.assert_close(wide.dense(), torch.from_numpy(X).double())
    with pytest.raises(EigenmapError, match=r"[Ff]eatures.*complex64"):
        load_graph((scipy.sparse.csr_matrix(X + 0j), EDGES))
    with pytest.raises(EigenmapError, match="complex128"):
        load_graph(scipy.sparse.csr_matrix(np.eye(4) + 0j), X)


def test_scipy_matrices_of_any_format() -> None:
    W = scipy.sparse.coo_matrix((np.ones(3), EDGES), shape=(4, 4))
    for form in ("coo", "csr", "csc"):
        graph = load_graph(W.asformat(form), X)
        assert graph.walk().degrees().tolist() == DEGREES and graph.edge_weight is None
    weighted = scipy.sparse.coo_matrix(([2.0, 4.0, 0.0], EDGES), shape=(4, 4))
    graph = load_graph(weighted, X)
    assert graph.walk().degrees().tolist() == [1, 3, 2, 0]  # a stored zero is no edge
    with pytest.raises(EigenmapError, match="x="):
        load_graph(W)
    with pytest.raises(EigenmapError, match=r"3 rows.*4 nodes"):
        load_graph(W, X[:3])
    with pytest.raises(EigenmapError, match="square"):
        load_graph(scipy.sparse.csr_matrix(X), X)


def test_networkx_graphs_with_names_weights_and_attributes() -> None:
    graph = nx.Graph()
    for node, row in zip("dcba", X, strict=True):
        graph.add_node(node, x=row)
    graph.add_edges_from([("d", "c"), ("c", "b"), ("b", "a")])
    assert load_graph(graph).walk().degrees().tolist() == DEGREES
    np.testing.assert_array_equal(load_graph(graph, 2 * X).x, 2 * X)
    graph.add_edge("d", "a", weight=2.0)
    assert load_graph(graph).walk().degrees().tolist() == [3, 2, 2, 3]  # an edge without one has weight 1
    nx.set_edge_attributes(graph, 3.0, "weight")
    assert load_graph(graph).walk().degrees().tolist() == [6, 6, 6, 6]
    one_way = nx.DiGraph([(0, 2), (1, 2), (3, 2)])
    walk = load_graph(one_way, X).walk("bipartite")
    assert walk.degrees().tolist() == [0, 3, 0, 0]  # nodes in the order they were added: 0, 2, 1, 3
    with pytest.raises(EigenmapError, match='attribute "x"'):
        load_graph(one_way)
    with pytest.raises(EigenmapError, match=r"3 rows.*4 nodes"):
        load_graph(one_way, X[:3])
    with pytest.raises(EigenmapError, match="no edges"):
        load_graph(nx.empty_graph(4), X)
    graph.nodes["a"]["x"] = [1.0]
    with pytest.raises(EigenmapError, match="same length"):
        load_graph(graph)


def test_an_undirected_networkx_graph_is_its_adjacency_matrix() -> None:
    graph = nx.Graph()
    graph.add_nodes_from(range(4))
    graph.add_weighted_edges_from([(0, 1, 2.0), (2, 1, 3.0), (3, 3, 5.0)])
    walk = load_graph(graph, X).walk(self_loops="keep")
    W = nx.to_numpy_array(graph)
    assert walk.degrees().tolist() == W.sum(1).tolist() == [2, 5, 3, 5]  # a self-loop counts once
    # No direction is any truer than the other: who points to node 1 is not a matter of the order in which it was made.
    assert load_graph(graph, X).walk("bipartite").degrees().tolist() == [2, 5, 3, 0]


@pytest.mark.parametrize("source", [3, None, "x y", {"edge": 1}, (1, 2, 3, 4)])
def test_what_is_no_graph(source: Any) -> None:
    with pytest.raises(EigenmapError, match=r"x y|[Gg]raph must"):
        load_graph(source)


def test_ogb_brings_the_official_split(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dataset:
        def __init__(self, name: str, root: str) -> None:
            assert name == "ogbn-arxiv" and root in ("somewhere", "dataset")

        def __getitem__(self, place: int) -> tuple[dict[str, Any], Any]:
            return {"node_feat": X, "edge_index": EDGES}, np.array([[0.0], [1.0], [np.nan], [1.0]])

        def get_idx_split(self) -> dict[str, Any]:
            return {"train": np.array([0]), "valid": np.array([1]), "test": np.array([3])}

    module = types.ModuleType("ogb.nodeproppred")
    module.NodePropPredDataset = Dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ogb", types.ModuleType("ogb"))
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)
    assert len(load_ogb("ogbn-arxiv", "somewhere")) == len(load_graph("ogb:ogbn-arxiv")) == 4
    graph = load_ogb("ogbn-arxiv", "somewhere")
    assert graph.y is not None and graph.y.tolist() == [0, 1, -1, 1]
    assert {name: nodes.tolist() for name, nodes in graph.splits.items()} == {
        "train": [0],
        "validation": [1],
        "test": [3],
    }


def test_public_data_sets_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    class Proteins:
        def __init__(self, name: str, root: str) -> None:
            if name == "ogbn-nothing":
                raise ValueError("Invalid dataset name ogbn-nothing.")

        def __getitem__(self, place: int) -> tuple[dict[str, Any], Any]:
            return {"node_feat": None, "edge_index": EDGES}, np.zeros((4, 112))

    module = types.ModuleType("ogb.nodeproppred")
    module.NodePropPredDataset = Proteins  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ogb", types.ModuleType("ogb"))
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)
    with pytest.raises(EigenmapError, match=r"ogb:ogbn-nothing.*Invalid dataset name ogbn-nothing\.$"):
        load_ogb("ogbn-nothing")
    with pytest.raises(EigenmapError, match=r"ogbn-arxiv.*ogbn-products"):
        load_ogb("ogbn-proteins")

    def offline(root: str, name: str) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("torch_geometric.datasets.Planetoid", offline)
    with pytest.raises(EigenmapError, match=r"pyg:Cora.*no route to host"):
        load_pyg("Cora")


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ogb", None)
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with pytest.raises(EigenmapError, match=r"eigenmap\[ogb\]"):
        load_ogb("ogbn-products")
    for attempt in (lambda: load_pyg("Corra"), lambda: load_graph("pyg:Corra")):
        with pytest.raises(EigenmapError, match=r"PyG.*'Corra'"):
            attempt()
    monkeypatch.setitem(sys.modules, "torch_geometric.datasets", None)
    with pytest.raises(EigenmapError, match="pip install torch_geometric"):
        load_pyg("Cora")


def test_entries_that_repeat_are_added_whatever_the_format() -> None:
    matrix = scipy.sparse.coo_matrix((np.ones(4), ([0, 0, 1, 2], [1, 1, 2, 3])), shape=(4, 4))
    coo, csr = (load_graph(form, x=X) for form in (matrix, matrix.tocsr()))
    assert coo.edge_weight is not None and csr.edge_weight is not None
    assert coo.edge_weight.tolist() == csr.edge_weight.tolist() == [2, 1, 1]
    assert matrix.nnz == 4
