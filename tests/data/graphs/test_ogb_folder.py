from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.graph import load_graph
from eigenmap.data.graphs.ogb_folder import is_ogb_folder, read_ogb_folder
from tests.data.images.released.miniatures import write_ogb


def test_nodes_edges_classes_and_the_official_split(tmp_path: Path) -> None:
    write_ogb(tmp_path)
    assert is_ogb_folder(str(tmp_path)) and not is_ogb_folder(str(tmp_path / "raw"))
    graph = load_graph(tmp_path)
    assert graph.digest(graph.walk()) == (again := read_ogb_folder(tmp_path)).digest(again.walk())
    assert graph.x.shape == (5, 3) and graph.y is not None and graph.y.tolist() == [0, 1, 1, -1, 0]
    pairs = set(map(tuple, graph.edge_index.T.tolist()))
    assert pairs == {(0, 1), (1, 2), (3, 4), (1, 0), (2, 1), (4, 3)}
    assert {name: rows.tolist() for name, rows in graph.splits.items()} == {
        "train": [0, 1],
        "validation": [2],
        "test": [4],
    }


def test_incomplete_and_damaged_sets(tmp_path: Path) -> None:
    write_ogb(tmp_path)
    edges = tmp_path / "raw" / "edge.csv.gz"
    good = edges.read_bytes()
    for bad in (good[:-9], b"no gzip", gzip.compress(b"0,x\n"), gzip.compress(b"0,9\n"), gzip.compress(b"0\n")):
        edges.write_bytes(bad)
        with pytest.raises(EigenmapError, match=r"extract the set again"):
            read_ogb_folder(tmp_path)
    edges.unlink()
    with pytest.raises(EigenmapError, match=r"edge.csv.gz .*exist: .*split/NAME/train.csv.gz"):
        read_ogb_folder(tmp_path)
    edges.write_bytes(good)
    for file in (tmp_path / "split" / "sales_ranking").iterdir():
        file.unlink()
    (tmp_path / "split" / "sales_ranking").rmdir()
    with pytest.raises(EigenmapError, match="no split"):
        read_ogb_folder(tmp_path)
