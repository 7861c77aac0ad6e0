"""Sentence-transformers folders, read by a loader of the published format that knows nothing of eigenmap.

The library itself loads such folders in `end_to_end/test_sentence_transformers.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eigenmap import EigenmapError
from eigenmap.export.sentence_transformers import Codes
from eigenmap.formats.sentence_transformers import CODES, read_modules
from tests.formats.models import FEATURES, LENGTH, vector_model
from tests.formats.test_linear_map import read_safetensors, unit_rows

VECTORS = np.random.default_rng(6).normal(1.0, 2.0, size=(8, LENGTH))
LIBRARY = "sentence_transformers.models"


def write_base(folder: Path, *more: str, length: int = LENGTH, modern: bool = False) -> Path:
    """A base with a transformer that is not looked at, a pooling, and more modules."""
    kinds = ["Transformer", "Pooling", *more]
    listed = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"{LIBRARY}.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "modules.json").write_text(json.dumps(listed))
    pooling = (
        {"embedding_dimension": length, "pooling_mode": "mean"}
        if modern
        else {"word_embedding_dimension": length, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    )
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "model.safetensors").write_bytes(b"the base's own weights")
    (folder / "README.md").write_text("About the base.")
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "q: "}, "truncate_dim": 3}')
    return folder


def run_folder(folder: Path, vectors: np.ndarray) -> np.ndarray:
    """What the modules after the pooling make of its output, by the published format alone."""
    modules: list[dict[str, Any]] = json.loads((folder / "modules.json").read_text())
    assert [entry["idx"] for entry in modules] == list(range(len(modules)))
    assert len({entry["name"] for entry in modules}) == len({entry["path"] for entry in modules}) == len(modules)
    for entry in modules[2:]:
        kind = entry["type"].removeprefix(f"{LIBRARY}.")
        if kind == "Normalize":
            vectors = unit_rows(vectors)
            continue
        assert kind == "Dense"
        config = json.loads((folder / entry["path"] / "config.json").read_text())
        assert config.pop("activation_function") == "torch.nn.modules.linear.Identity" and config.pop("bias") is True
        tensors, _ = read_safetensors(folder / entry["path"] / "model.safetensors")
        assert tensors["linear.weight"].shape == (config["out_features"], config["in_features"])
        vectors = vectors @ tensors["linear.weight"].T.astype(np.float64) + tensors["linear.bias"]
    return vectors


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("dim", [None, 4])
def test_a_linear_model_is_modules_of_the_library(tmp_path: Path, unit: bool, normal: bool, dim: int | None) -> None:
    base = write_base(tmp_path / "base", *(["Normalize"] if normal else []), modern=unit)
    model = vector_model(unit)
    assert model.to_sentence_transformers(base, tmp_path / "out", dim) == tmp_path / "out"
    seen = unit_rows(VECTORS) if normal else VECTORS  # what the base makes, and the model was fitted to
    made = run_folder(tmp_path / "out", VECTORS)
    np.testing.assert_allclose(made, model.encode(seen, dim), rtol=0, atol=2e-6)
    np.testing.assert_allclose(unit_rows(made[:, :2]), model.encode(seen, 2), rtol=0, atol=2e-6)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == b"the base's own weights"
    assert (tmp_path / "out" / "README-base.md").read_text() == "About the base."
    about = json.loads((tmp_path / "out" / "config_sentence_transformers.json").read_text())
    assert about == {"prompts": {"query": "q: "}, "similarity_fn_name": "cosine"}
    assert "eigenmap" not in (tmp_path / "out" / "modules.json").read_text()


@pytest.mark.parametrize("unit", [True, False])
def test_a_neural_model_is_a_module_of_ours(tmp_path: Path, unit: bool) -> None:
    base, model = write_base(tmp_path / "base"), vector_model(unit, width=6)
    model.to_sentence_transformers(base, tmp_path / "out", 5)
    last = json.loads((tmp_path / "out" / "modules.json").read_text())[-1]
    assert last["type"] == CODES == f"{Codes.__module__}.{Codes.__qualname__}"
    module = Codes.load(str(tmp_path / "out" / last["path"]))
    x = torch.from_numpy(VECTORS.astype(np.float32))
    made = module({"sentence_embedding": x, "input_ids": None})["sentence_embedding"]
    np.testing.assert_allclose(made.detach().numpy(), model.encode(VECTORS, 5), rtol=0, atol=1e-6)
    assert module.get_embedding_dimension() == module.get_sentence_embedding_dimension() == 5
    module.save(str(tmp_path / "again"))
    assert Codes.load(str(tmp_path / "again")).model.n_components == 5
    assert model.weights_sha256 is None and model.n_components == FEATURES  # the model itself is as it was


def test_a_live_base_saves_itself(tmp_path: Path) -> None:
    class Live:
        def save(self, path: str) -> None:
            write_base(Path(path), "Normalize")

    model = vector_model(True)
    model.to_sentence_transformers(Live(), tmp_path / "out")
    np.testing.assert_allclose(run_folder(tmp_path / "out", VECTORS), model.encode(VECTORS), rtol=0, atol=2e-6)


def test_a_folder_is_replaced_only_if_asked_to(tmp_path: Path) -> None:
    base, model = write_base(tmp_path / "base"), vector_model(True)
    model.to_sentence_transformers(base, tmp_path / "out", 3)
    with pytest.raises(EigenmapError, match="out exists"):
        model.to_sentence_transformers(base, tmp_path / "out")
    model.to_sentence_transformers(base, tmp_path / "out", overwrite=True)
    assert run_folder(tmp_path / "out", VECTORS).shape[1] == FEATURES
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(EigenmapError, match=r"mine .*not a sentence-transformers folder"):
        model.to_sentence_transformers(base, tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_mistakes(tmp_path: Path) -> None:
    base, model = write_base(tmp_path / "base"), vector_model(True)
    longer = write_base(tmp_path / "longer", length=16)
    dense = write_base(tmp_path / "dense", "Dense")
    (dense / "2_Dense").mkdir()
    (dense / "2_Dense" / "config.json").write_text('{"in_features": 12, "out_features": 9}')
    (tmp_path / "empty").mkdir()
    for given, words in [
        (longer, r"16 numbers.*12"),
        (dense, r"9 numbers.*12"),
        (tmp_path / "empty", r"empty.*modules\.json"),
        (tmp_path / "nowhere", r"nowhere.*modules\.json"),
        (7, "base.*7"),
    ]:
        with pytest.raises(EigenmapError, match=words):
            model.to_sentence_transformers(given, tmp_path / "out")
    with pytest.raises(EigenmapError, match=r"codes.*base"):
        model.to_sentence_transformers(base, base / "codes")
    with pytest.raises(EigenmapError, match=r"1 to 7.*0"):
        model.to_sentence_transformers(base, tmp_path / "out", 0)
    assert not (tmp_path / "out").exists() and not (base / "codes").exists()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", "[7]", '[{"idx": 0}]', '[{"idx": 0, "name": "0", "path": "../x", "type": "a.B"}]', "[[[["],
)
def test_a_damaged_list_of_modules(tmp_path: Path, content: str) -> None:
    base = write_base(tmp_path / "base")
    (base / "modules.json").write_text(content)
    with pytest.raises(EigenmapError, match=r"modules\.json is damaged"):
        read_modules(base)
