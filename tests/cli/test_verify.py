from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from eigenmap import NeuralEigenmap, fit_images
from tests.cli.run import refused, succeed
from tests.end_to_end.photos import pictures


def flip(file: Path, place: int = -3) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 2
    file.write_bytes(content)


def test_an_index_is_checked_with_its_pictures_and_its_model(index_dir: Path, model_dir: Path, tmp_path: Path) -> None:
    result = succeed("verify", index_dir)
    lines = result.out.splitlines()
    assert lines[0] == f"{index_dir} is an index, and nothing of it is damaged:"
    assert {"  thumbnails.sqlite: 15 pictures", "  model: whole", "  sources.json: whole"} <= set(lines)
    assert succeed("verify", index_dir, "--quiet").out == ""
    for name in ("model/model.safetensors", "model/model.json", "ids.hash", "log", "codec.json"):
        copy = shutil.copytree(index_dir, tmp_path / "copy.index")
        flip(copy / name, -1 if name == "log" else -3)
        assert name.split("/")[-1] in refused("verify", copy)
        shutil.rmtree(copy)
    copy = shutil.copytree(index_dir, tmp_path / "copy.index")
    for name in ("thumbnails.sqlite", "sources.json"):
        (copy / name).unlink()
        assert f"{name} is missing, and the index was made with it" in refused("verify", copy)
        shutil.copy(index_dir / name, copy / name)
    shutil.rmtree(copy / "model")
    assert "model is missing, and the index was made with it" in refused("verify", copy)
    other = fit_images(
        pictures(60), 8, steps=2, batch_size=32, codes="projector", hidden=64, device="cpu", progress=False
    )
    other.save(copy / "model")
    assert "is another model than the one that made the codes" in refused("verify", copy)


def test_a_run_is_checked_with_its_checkpoint_and_metrics(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_images(
        pictures(60), 8, steps=4, batch_size=32, codes="projector", hidden=64, out=run, device="cpu", progress=False
    )
    out = succeed("verify", run).out
    assert out.startswith(f"{run} is a run, and nothing of it is damaged:\n") and "model.safetensors: " in out
    assert "checkpoint.pt: after 4 steps" in out and "metrics.jsonl: " in out
    for name in ("model.safetensors", "checkpoint.pt", "metrics.jsonl"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[: len(content) // 2] + b"\xff" + content[len(content) // 2 + 1 :])
        assert name in refused("verify", run)
        (run / name).write_bytes(content)
    (run / "model.json").unlink()  # its training has not ended
    (run / "model.safetensors").unlink()
    assert "checkpoint.pt: after 4 steps" in succeed("verify", run).out


@pytest.mark.parametrize("files", ["npy", "parquet"])
def test_a_folder_of_codes_is_checked(model_dir: Path, photos: Path, tmp_path: Path, files: str) -> None:
    codes = tmp_path / "codes"
    succeed("embed", model_dir, photos, "--out", codes, "--shard-size", 4, "--files", files)
    out = succeed("verify", codes).out
    assert out.startswith(f"{codes} is a folder of codes") and "shards: 4 with 15 codes, checksums agree" in out
    flip(codes / f"part-00002.{files}", 200)
    assert f"part-00002.{files}" in refused("verify", codes)


def test_what_cannot_be_checked_is_named(tmp_path: Path) -> None:
    assert "does not exist; name the folder" in refused("verify", tmp_path / "nowhere")
    (tmp_path / "file").write_text("text")
    assert "is a file; name the folder" in refused("verify", tmp_path / "file")
    assert "is not a model directory" in refused("verify", tmp_path)


def test_a_saved_estimator_is_checked(tmp_path: Path) -> None:
    place = (
        NeuralEigenmap(2, random_state=0).fit(np.random.default_rng(0).normal(size=(40, 2))).save(tmp_path / "kernel")
    )
    lines = succeed("verify", place).out.splitlines()
    assert lines[0] == f"{place} is a saved NeuralEigenmap, and nothing of it is damaged:"
    assert lines[1] == "  model.json: whole"
    for name in ("model.json", "model.safetensors"):
        copy = shutil.copytree(place, tmp_path / "copy")
        flip(copy / name)
        assert name in refused("verify", copy)
        shutil.rmtree(copy)
