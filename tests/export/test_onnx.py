from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
import pytest

from eigenmap import Eigenmap, EigenmapError, fit_images, fit_vectors
from eigenmap.export import export_onnx
from eigenmap.export import onnx as exporting
from eigenmap.networks import code_rows
from tests.end_to_end.photos import pictures
from tests.linear.planted import squared, two_spaces


def pixels(n: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 256, (n, channels, 16, 16), dtype=np.uint8)


@pytest.mark.parametrize("dim", [None, 3])
def test_codes_are_those_of_the_model_for_any_number_of_images(
    run: Path, model: Eigenmap, tmp_path: Path, dim: int | None
) -> None:
    difference = export_onnx(run, tmp_path / "model.onnx", dim)
    assert difference is not None and difference < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for n in (1, 2, 7, 64):
        (codes,) = session.run(None, {"pixels": pixels(n)})
        assert codes.dtype == np.float32 and codes.shape == (n, dim or 8)
        np.testing.assert_allclose(codes, model.encode(pixels(n), dim), atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, atol=1e-5)


def test_the_file_says_what_it_is(run: Path, model: Eigenmap, tmp_path: Path) -> None:
    export_onnx(run, tmp_path / "model.onnx", 3)
    known = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert known["eigenmap_fingerprint"] == Eigenmap.fingerprint(run)
    assert json.loads(known["eigenmap_eigenvalues"]) == model.eigenvalues_[:3].tolist()
    onnx.checker.check_model(tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_grey_images_a_resnet_and_codes_of_the_encoder(tmp_path: Path) -> None:
    fit_images(
        pictures(40)[..., :1], 4, steps=1, batch_size=16, encoder="resnet18", codes="encoder", hidden=16,
        out=tmp_path / "run", device="cpu", progress=False,
    )  # fmt: skip
    difference = export_onnx(tmp_path / "run", tmp_path / "model.onnx")
    assert difference is not None and difference < 1e-5


def test_a_file_that_computes_something_else_is_not_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "code_rows", lambda *outputs: code_rows(*outputs).abs())
    with pytest.raises(EigenmapError, match="disagrees"):
        export_onnx(run, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_onnx_is_an_extra(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EigenmapError, match=r'pip install "eigenmap\[onnx\]"'):
        export_onnx(run, tmp_path / "model.onnx")
    assert "onnx" in sys.modules and not list(tmp_path.iterdir())


@pytest.mark.parametrize("side", ["left", "right"])
def test_both_sides_of_a_model_of_vectors_are_exported(side: Literal["left", "right"], tmp_path: Path) -> None:
    x, y = two_spaces(400)
    model = fit_vectors(x, pairs=y, unit=True, out=tmp_path / "run", progress=False)
    difference = export_onnx(tmp_path / "run", tmp_path / "model.onnx", dim=5, side=side)
    assert difference is not None and difference < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    rows = (x if side == "left" else y)[:7].astype(np.float32)
    (codes,) = session.run(None, {"vectors": rows})
    np.testing.assert_allclose(codes, model.side(side).encode(rows, dim=5), atol=1e-5)
    with pytest.raises(EigenmapError, match="two spaces"):
        export_onnx(tmp_path / "run", tmp_path / "other.onnx")


def test_the_residual_head_of_a_model_of_vectors_is_exported(tmp_path: Path) -> None:
    """Its mean unit becomes a constant that the converter calls "mean"."""
    x, y = squared(1500)
    how: dict[str, Any] = {"steps": 150, "lr": 3e-2, "batch_size": 256, "width": 64, "dropout": 0.0, "unit": False}
    run = tmp_path / "run"
    model = fit_vectors(x, 6, pairs=y, solver="neural", out=run, progress=False, **how)
    assert not model.is_linear
    difference = export_onnx(tmp_path / "run", tmp_path / "model.onnx", dim=5)
    assert difference is not None and difference < 1e-5
