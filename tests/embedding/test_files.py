from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from eigenmap.embedding.blocks import Block
from eigenmap.embedding.files import join_shards, names_file
from eigenmap.embedding.shards import Codebook, Plan
from eigenmap.embedding.workspace import ShardFolder

IDS = ["a", "längerer Name", "c\udcff"]
CODES = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


@pytest.fixture
def shards(tmp_path: Path) -> Codebook:
    folder = ShardFolder(tmp_path / "parts", Plan("abc", 4, 5, "d", 2, "npy"))
    folder.make()
    for number, rows in enumerate((slice(0, 2), slice(2, 2), slice(2, 3))):
        folder.write(number, Block(IDS[rows], CODES[rows]))
    return folder.complete()


def test_one_npy_file(shards: Codebook, tmp_path: Path) -> None:
    join_shards(shards, ".npy", tmp_path / "codes.npy", tmp_path / "codes.ids.json")
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), CODES)
    assert json.loads((tmp_path / "codes.ids.json").read_text()) == IDS
    assert names_file(tmp_path / "codes.npy") == tmp_path / "codes.ids.json"


def test_one_npz_file(shards: Codebook, tmp_path: Path) -> None:
    join_shards(shards, ".npz", tmp_path / "codes.npz", tmp_path / "none")
    with np.load(tmp_path / "codes.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["codes"], CODES)
        assert archive["ids"].tolist() == IDS
    assert names_file(tmp_path / "codes.npz") is None


def test_one_parquet_file(shards: Codebook, tmp_path: Path) -> None:
    join_shards(shards, ".parquet", tmp_path / "codes.parquet", tmp_path / "none")
    table = pq.read_table(tmp_path / "codes.parquet").to_pydict()
    assert table["id"] == ["a", "längerer Name", "c\\xff"]
    np.testing.assert_array_equal(np.array(table["code"], np.float32), CODES)
