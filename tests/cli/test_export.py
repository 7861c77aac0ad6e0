from __future__ import annotations

import json
import re
from pathlib import Path

import faiss
import onnxruntime
import pyarrow.parquet as pq

from eigenmap.search import CodeIndex
from tests.cli.run import refused, succeed


def test_a_model(model_dir: Path, tmp_path: Path) -> None:
    result = succeed("export", model_dir, "--to", tmp_path / "model.onnx", "--dim", 5)
    assert re.search(r"model\.onnx.*differ", result.err)
    (output,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").get_outputs()
    assert output.name == "codes" and output.shape[1] == 5


def test_the_codes_of_an_index(index_dir: Path, tmp_path: Path) -> None:
    with CodeIndex.open(index_dir) as index:
        ids = index.ids
    result = succeed("export", index_dir, "--to", tmp_path / "codes.parquet")
    assert re.search(r"codes\.parquet: 15 codes.*id and code", result.err)
    assert pq.read_table(tmp_path / "codes.parquet")["id"].to_pylist() == ids
    succeed("export", index_dir, "--to", tmp_path / "codes.faiss", "--dim", 3, "--quiet")
    found = faiss.read_index(str(tmp_path / "codes.faiss"))
    assert (found.ntotal, found.d) == (15, 3)
    assert json.loads((tmp_path / "codes.faiss.ids.json").read_text()) == ids


def test_the_codes_of_a_table(model_dir: Path, photos: Path, database: str, tmp_path: Path) -> None:
    succeed("index", model_dir, photos, "--to", database, "--table", "photos")
    succeed("export", database, "--table", "photos", "--to", tmp_path / "codes.parquet")
    assert pq.read_table(tmp_path / "codes.parquet").num_rows == 15


def test_mistakes(model_dir: Path, index_dir: Path, tmp_path: Path) -> None:
    assert re.search(r"\.onnx.*\.parquet.*\.faiss", refused("export", model_dir, "--to", tmp_path / "a.txt"))
    assert "model directory" in refused("export", index_dir, "--to", tmp_path / "a.onnx")
    assert "not an index" in refused("export", model_dir, "--to", tmp_path / "a.parquet")
    assert "table" in refused("export", "postgresql://x/y", "--to", tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())
    (tmp_path / "a.faiss.ids.json").write_text("mine")
    assert "a.faiss.ids.json exists" in refused("export", index_dir, "--to", tmp_path / "a.faiss")
    succeed("export", index_dir, "--to", tmp_path / "a.faiss", "--force")
