from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap
from eigenmap.data import load_images
from tests.cli.run import refused, succeed


def test_codes_and_names_go_to_two_files(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "codes.npy"
    result = succeed("embed", model_dir, photos, "--out", out, "--dim", 3, "--batch-size", 4)
    assert result.out == ""
    assert "1 of 16 files could not be read and were left out:\n  disc/broken.jpg: " in result.err
    names = out.parent / "codes.ids.json"
    assert result.err.endswith(f"15 codes of 3 features: {out} (names of the images: {names})\n")
    images = load_images(photos, size=16)
    codes = np.load(out)
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, Eigenmap.load(model_dir).encode(images, dim=3), atol=1e-5)
    assert json.loads(names.read_text()) == images.ids
    assert sorted(path.name for path in out.parent.iterdir()) == ["codes.ids.json", "codes.npy"]


def test_or_to_one_file(model_dir: Path, array_file: Path, tmp_path: Path) -> None:
    succeed("embed", model_dir, array_file, "--out", tmp_path / "codes.npz", "--quiet")
    with np.load(tmp_path / "codes.npz", allow_pickle=False) as archive:
        assert archive["codes"].shape == (12, 8)
        assert archive["ids"].tolist() == [str(i) for i in range(12)]
    assert [path.name for path in tmp_path.iterdir()] == ["codes.npz"]


def test_existing_files_are_replaced_only_by_force(model_dir: Path, array_file: Path, tmp_path: Path) -> None:
    (tmp_path / "codes.ids.json").write_text("mine")
    arguments = ("embed", model_dir, array_file, "--out", tmp_path / "codes.npy")
    assert refused(*arguments).startswith(f"{tmp_path / 'codes.ids.json'} exists; choose another name, or use --force")
    assert not (tmp_path / "codes.npy").exists()
    succeed(*arguments, "--force")
    assert len(json.loads((tmp_path / "codes.ids.json").read_text())) == 12


@pytest.mark.parametrize("dim", [0, -1, 9])
def test_a_length_that_no_code_has(dim: int, model_dir: Path, photos: Path, tmp_path: Path) -> None:
    sentence = refused("embed", model_dir, photos, "--out", tmp_path / "codes.npy", "--dim", dim)
    assert sentence == f"dim must be a whole number from 1 to 8, not {dim}."
    assert not list(tmp_path.iterdir())


def test_strict_refuses_a_damaged_file(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    assert "disc/broken.jpg cannot be read" in refused(
        "embed", model_dir, photos, "--out", tmp_path / "codes.npy", "--strict"
    )
    assert not list(tmp_path.iterdir())


def test_other_mistakes(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    assert "must end in .npy, .npz or .parquet, or name a folder" in refused(
        "embed", model_dir, photos, "--out", tmp_path / "codes.txt"
    )
    assert "is not a model directory: it does not exist" in refused(
        "embed", tmp_path / "gone", photos, "--out", tmp_path / "codes.npy"
    )
    assert "gone does not exist" in refused("embed", model_dir, tmp_path / "gone", "--out", tmp_path / "codes.npy")
    embed = ("embed", model_dir, photos, "--out")
    assert "--files goes with a folder" in refused(*embed, tmp_path / "codes.npy", "--files", "parquet")
    assert refused(*embed, tmp_path / "codes", "--actors", 2).startswith("--actors goes with --engine ray")
    assert not list(tmp_path.iterdir())
