from __future__ import annotations

import re
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
    assert re.search(f"{index_dir}.*index.*damage", lines[0])
    assert {line.split(":")[0].strip() for line in lines} >= {"thumbnails.sqlite", "model", "sources.json"}
    assert any(re.search(r"thumbnails\.sqlite: 15 ", line) for line in lines)
    assert succeed("verify", index_dir, "--quiet").out == ""
    for name in ("model/model.safetensors", "model/model.json", "ids.hash", "log", "codec.json"):
        copy = shutil.copytree(index_dir, tmp_path / "copy.index")
        flip(copy / name, -1 if name == "log" else -3)
        assert name.split("/")[-1] in refused("verify", copy)
        shutil.rmtree(copy)
    copy = shutil.copytree(index_dir, tmp_path / "copy.index")
    for name in ("thumbnails.sqlite", "sources.json"):
        (copy / name).unlink()
        assert re.search(f"{name}.*missing", refused("verify", copy))
        shutil.copy(index_dir / name, copy / name)
    shutil.rmtree(copy / "model")
    assert "model is missing" in refused("verify", copy)
    other = fit_images(
        pictures(60), 8, steps=2, batch_size=32, codes="projector", hidden=64, device="cpu", progress=False
    )
    other.save(copy / "model")
    assert "not the model" in refused("verify", copy)


def test_a_run_is_checked_with_its_checkpoint_and_metrics(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_images(
        pictures(60), 8, steps=4, batch_size=32, codes="projector", hidden=64, out=run, device="cpu", progress=False
    )
    out = succeed("verify", run).out
    assert re.search(f"^{run}.*run.*damage", out) and "model.safetensors: " in out
    assert re.search(r"checkpoint\.pt: .*4 steps", out) and "metrics.jsonl: " in out
    for name in ("model.safetensors", "checkpoint.pt", "metrics.jsonl"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[: len(content) // 2] + b"\xff" + content[len(content) // 2 + 1 :])
        assert name in refused("verify", run)
        (run / name).write_bytes(content)
    (run / "model.json").unlink()  # its training has not ended
    (run / "model.safetensors").unlink()
    assert re.search(r"checkpoint\.pt: .*4 steps", succeed("verify", run).out)


@pytest.mark.parametrize("files", ["npy", "parquet"])
def test_a_folder_of_codes_is_checked(model_dir: Path, photos: Path, tmp_path: Path, files: str) -> None:
    codes = tmp_path / "codes"
    succeed("embed", model_dir, photos, "--out", codes, "--shard-size", 4, "--files", files)
    out = succeed("verify", codes).out
    assert re.search(f"^{codes}.*folder", out) and re.search("shards: 4 .*15 codes.*checksums", out)
    flip(codes / f"part-00002.{files}", 200)
    assert f"part-00002.{files}" in refused("verify", codes)


def test_what_cannot_be_checked_is_named(tmp_path: Path) -> None:
    assert re.search("nowhere.*exist", refused("verify", tmp_path / "nowhere"))
    (tmp_path / "file").write_text("text")
    assert re.search("file.*folder", refused("verify", tmp_path / "file"))
    assert "model directory" in refused("verify", tmp_path)


def test_a_saved_estimator_is_checked(tmp_path: Path) -> None:
    place = (
        NeuralEigenmap(2, random_state=0).fit(np.random.default_rng(0).normal(size=(40, 2))).save(tmp_path / "kernel")
    )
    lines = succeed("verify", place).out.splitlines()
    assert re.search(f"{place}.*NeuralEigenmap.*damage", lines[0])
    assert "model.json: " in lines[1]
    for name in ("model.json", "model.safetensors"):
        copy = shutil.copytree(place, tmp_path / "copy")
        flip(copy / name)
        assert name in refused("verify", copy)
        shutil.rmtree(copy)
