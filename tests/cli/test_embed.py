from __future__ import annotations

import json
import re
from pathlib import Path

import faiss
import numpy as np
import pytest

from eigenmap import Eigenmap
from eigenmap.data import load_images
from eigenmap.embedding.shards import Codebook
from eigenmap.embedding.workspace import Workspace
from eigenmap.search import CodeIndex
from tests.cli.run import refused, succeed


def test_codes_and_names_go_to_two_files(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "codes.npy"
    result = succeed("embed", model_dir, photos, "--out", out, "--dim", 3, "--batch-size", 4)
    assert result.out == ""
    assert re.search(r"1 of 16 files.*\n  disc/broken\.jpg: ", result.err)
    names = out.parent / "codes.ids.json"
    assert re.search(f"15 codes of 3 .*{out} .*{names}", result.err)
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
    assert re.search(f"{tmp_path / 'codes.ids.json'} exists.*--force", refused(*arguments))
    assert not (tmp_path / "codes.npy").exists()
    succeed(*arguments, "--force")
    assert len(json.loads((tmp_path / "codes.ids.json").read_text())) == 12


def test_embed_and_export_do_not_share_a_file_of_names(
    model_dir: Path, index_dir: Path, array_file: Path, tmp_path: Path
) -> None:
    """Both used codes.ids.json: the second was refused, and with --force replaced the names of the first."""
    embed = ("embed", model_dir, array_file, "--out", tmp_path / "codes.npy")
    export = ("export", index_dir, "--to", tmp_path / "codes.faiss")
    for force in ((), ("--force",)):
        for command in (embed, export):
            succeed(*command, *force)
        assert len(json.loads((tmp_path / "codes.ids.json").read_text())) == len(np.load(tmp_path / "codes.npy")) == 12
        with CodeIndex.open(index_dir) as index:
            assert json.loads((tmp_path / "codes.faiss.ids.json").read_text()) == index.ids
            assert faiss.read_index(str(tmp_path / "codes.faiss")).ntotal == len(index) == 15
    assert len(list(tmp_path.iterdir())) == 4


def test_a_folder_of_codes_is_replaced_only_by_force(model_dir: Path, array_file: Path, tmp_path: Path) -> None:
    arguments = ("embed", model_dir, array_file, "--out", tmp_path / "codes")
    succeed(*arguments, "--dim", 3)
    assert re.search(f"{tmp_path / 'codes'} exists.*--force", refused(*arguments))
    assert Codebook.open(tmp_path / "codes").plan.dim == 3
    succeed(*arguments, "--force")
    assert Codebook.open(tmp_path / "codes").plan.dim == 8
    (tmp_path / "mine").mkdir()
    assert re.search("exists.*folder", refused(*arguments[:-1], tmp_path / "mine", "--force"))


def test_an_output_that_another_process_writes_is_refused(model_dir: Path, array_file: Path, tmp_path: Path) -> None:
    with Workspace(tmp_path / "codes").held():
        for force in ((), ("--force",)):
            sentence = refused("embed", model_dir, array_file, "--out", tmp_path / "codes", *force)
            assert re.search(f"process.*{tmp_path / 'codes'}", sentence)
    succeed("embed", model_dir, array_file, "--out", tmp_path / "codes")


@pytest.mark.parametrize("dim", [0, -1, 9])
def test_a_length_that_no_code_has(dim: int, model_dir: Path, photos: Path, tmp_path: Path) -> None:
    sentence = refused("embed", model_dir, photos, "--out", tmp_path / "codes.npy", "--dim", dim)
    assert re.search(f"dim .*1 to 8.*{dim}", sentence)
    assert not list(tmp_path.iterdir())


def test_strict_refuses_a_damaged_file(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    assert re.search(
        r"disc/broken\.jpg.*read", refused("embed", model_dir, photos, "--out", tmp_path / "codes.npy", "--strict")
    )
    assert not list(tmp_path.iterdir())


def test_other_mistakes(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    assert ".npy, .npz or .parquet" in refused("embed", model_dir, photos, "--out", tmp_path / "codes.txt")
    assert re.search(
        "gone.*model directory", refused("embed", tmp_path / "gone", photos, "--out", tmp_path / "codes.npy")
    )
    assert re.search("gone.*exist", refused("embed", model_dir, tmp_path / "gone", "--out", tmp_path / "codes.npy"))
    embed = ("embed", model_dir, photos, "--out")
    assert re.search("--files.*folder", refused(*embed, tmp_path / "codes.npy", "--files", "parquet"))
    assert re.search("--actors.*--engine ray", refused(*embed, tmp_path / "codes", "--actors", 2))
    assert not list(tmp_path.iterdir())
