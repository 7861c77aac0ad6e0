from __future__ import annotations

import json
import re
from pathlib import Path

import faiss
import numpy as np
import onnxruntime
import pyarrow.parquet as pq
import torch

from eigenmap import fit_images
from eigenmap.formats.sentence_transformers import read_modules
from eigenmap.search import CodeIndex
from tests.cli.run import refused, succeed
from tests.formats.models import vector_model
from tests.formats.test_sentence_transformers import write_base


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


def test_a_linear_model_of_vectors_as_plain_numbers(tmp_path: Path) -> None:
    vector_model(True).save(tmp_path / "run")
    said = succeed("export", tmp_path / "run", "--to", tmp_path / "map.npz", "--dim", 4).err
    assert re.search(r"map\.npz: codes of 4 .* vectors of 12 .*norm 1", said)
    succeed("export", tmp_path / "run", "--to", tmp_path / "codes.sql", "--quiet")
    assert "FUNCTION codes(x vector)" in (tmp_path / "codes.sql").read_text()
    assert "codes.sql exists" in refused("export", tmp_path / "run", "--to", tmp_path / "codes.sql")
    said = succeed("export", tmp_path / "run", "--to", tmp_path / "Codes-64.sql").err
    assert "function codes_64(vector), codes of" in said


def test_the_weights_of_a_resnet(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    model = fit_images(
        pixels, n_components=4, encoder="resnet18", stem="imagenet", steps=1, batch_size=8, progress=False
    )
    model.save(tmp_path / "run")
    said = succeed("export", tmp_path / "run", "--to", tmp_path / "encoder.pth").err
    assert said.strip().endswith("encoder.pth: weights of the encoder, named as in torchvision.")
    theirs = torch.load(tmp_path / "encoder.pth", weights_only=True)
    assert torch.equal(theirs["layer1.0.conv1.weight"], model.network.encoder.layer1[0].conv1.weight)
    succeed("export", tmp_path / "run", "--to", tmp_path / "d2.pth", "--keys", "detectron2", "--quiet")
    assert "stem.conv1.norm.weight" in torch.load(tmp_path / "d2.pth", weights_only=True)["model"]
    assert "d2.pth exists" in refused("export", tmp_path / "run", "--to", tmp_path / "d2.pth")
    assert "--keys" in refused("export", tmp_path / "run", "--to", tmp_path / "a.onnx", "--keys", "detectron2")
    assert "--dim" in refused("export", tmp_path / "run", "--to", tmp_path / "a.pth", "--dim", 2)
    vector_model(True).save(tmp_path / "vectors")
    assert "no ResNet" in refused("export", tmp_path / "vectors", "--to", tmp_path / "a.pth")


def test_a_folder_of_sentence_transformers(tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", "Normalize")
    vector_model(True).save(tmp_path / "linear")
    vector_model(True, width=5).save(tmp_path / "neural")
    asked = ("--to", "sentence-transformers", "--base", base, "--out", tmp_path / "out")
    said = succeed("export", tmp_path / "linear", *asked, "--dim", 3).err
    assert "SentenceTransformer(" in said and "trust_remote_code" not in said
    assert [entry["type"].rpartition(".")[2] for entry in read_modules(tmp_path / "out")][2:] == [
        "Normalize",
        "Dense",
        "Normalize",
    ]
    assert "out exists" in refused("export", tmp_path / "linear", *asked)
    assert "trust_remote_code=True" in succeed("export", tmp_path / "neural", *asked, "--force").err
    assert read_modules(tmp_path / "out")[-1]["type"].startswith("eigenmap.")


def test_mistakes_with_folders(model_dir: Path, tmp_path: Path) -> None:
    base = write_base(tmp_path / "base")
    vector_model(True).save(tmp_path / "run")
    folder = ("--to", "sentence-transformers")
    assert "--base" in refused("export", tmp_path / "run", *folder, "--out", tmp_path / "out")
    assert "--out" in refused("export", tmp_path / "run", *folder, "--base", base)
    assert "images" in refused("export", model_dir, *folder, "--base", base, "--out", tmp_path / "out")
    assert "images" in refused("export", model_dir, "--to", tmp_path / "map.npy")
    assert "sentence-transformers" in refused("export", tmp_path / "run", "--to", tmp_path / "m.npy", "--base", base)
    assert "one space" in refused("export", tmp_path / "run", "--to", tmp_path / "m.npy", "--side", "right")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "run"]
