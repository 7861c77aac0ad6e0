from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from eigenmap import Eigenmap
from eigenmap.augment.views import IMAGENET_STANDARDISATION, Standardisation
from eigenmap.cli.fit.options import parse_settings
from eigenmap.core.errors import EigenmapError
from eigenmap.networks import build_encoder
from tests.cli.run import refused, run, succeed
from tests.end_to_end.photos import pictures

QUICK = ("--steps", "3", "--device", "cpu")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "pictures.npy", pictures(40, 12))
    return tmp_path / "pictures.npy"


@pytest.mark.parametrize(
    ("pairs", "settings"),
    [
        ([], {}),
        (["clip_norm=1", "codes=projector"], {"clip_norm": 1, "codes": "projector"}),
        (["channels-last=true", " warmup = 0.2 "], {"channels_last": True, "warmup": 0.2}),
        (['objective_options={"alpha": "paper"}'], {"objective_options": {"alpha": "paper"}}),
        (["views=a=b"], {"views": "a=b"}),
    ],
)
def test_settings_are_json_or_text(pairs: list[str], settings: dict[str, Any]) -> None:
    assert parse_settings(pairs) == settings


@pytest.mark.parametrize("pair", ["clip_norm", "=1", ""])
def test_a_setting_without_a_name_or_a_value_is_refused(pair: str) -> None:
    with pytest.raises(EigenmapError, match=r"--set.*name=value"):
        parse_settings([pair])


@pytest.mark.parametrize("value", ["null", " null"])
def test_a_setting_that_is_no_value_is_not_silently_left_out(value: str) -> None:
    with pytest.raises(EigenmapError, match="no value"):
        parse_settings([f"clip_norm={value}"])


def test_values_of_settings_that_are_nested_too_deeply_are_text() -> None:
    deep = "[" * 100_000
    assert parse_settings([f"views={deep}"]) == {"views": deep}
    assert parse_settings(["lr=NaN"]) == {"lr": "NaN"}


def test_what_is_given_arrives(source: Path, tmp_path: Path) -> None:
    succeed(
        *("fit", "images", source, "--out", tmp_path / "run", *QUICK),
        *("-k", 5, "--encoder", "small-cnn", "--image-size", 16, "--objective", "scl", "--views", "weak"),
        *("--batch-size", 20, "--lr", 0.01, "--optimizer", "sgd", "--seed", 7, "--recipe", "catalogue", "--imagenet"),
        *("--set", "codes=projector", "--set", 'objective_options={"scale": 5.0}', "--set", "hidden=32"),
    )
    model = Eigenmap.load(tmp_path / "run")
    recipe = model.training["recipe"]
    wanted = {
        "name": "catalogue",
        "n_components": 5,
        "encoder": "small-cnn",
        "image_size": 16,
        "objective": "scl",
        "objective_options": {"scale": 5.0},
        "views": "weak",
        "batch_size": 20,
        "lr": 0.01,
        "optimizer": "sgd",
        "codes": "projector",
        "hidden": 32,
    }
    assert {name: recipe[name] for name in wanted} == wanted
    assert (model.training["seed"], model.training["steps"], model.source) == (7, 3, "projector")
    assert model.image.standardisation == IMAGENET_STANDARDISATION


def test_it_says_what_it_made_and_what_to_do_next(source: Path, tmp_path: Path) -> None:
    result = succeed("fit", "images", source, "--out", tmp_path / "run", "-k", 4, *QUICK)
    assert result.out == ""
    assert re.search(r"run: 4 .*features.*40 images.*3 steps.*\d+ s", result.err)
    assert "step 3/3  loss " in result.err
    assert f"eigenmap index {tmp_path / 'run'} {source} --out photos.index" in result.err
    assert Eigenmap.load(tmp_path / "run").image.standardisation == Standardisation()


def test_quiet_is_silent(source: Path, tmp_path: Path) -> None:
    result = succeed("fit", "images", source, "--out", tmp_path / "run", *QUICK, "--quiet")
    assert result == (0, "", "")


def test_on_a_terminal_there_are_bars_one_after_the_other(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    for i in range(3):
        (tmp_path / "all").mkdir(exist_ok=True)
        (tmp_path / "all" / str(i)).symlink_to(photos)
    out = tmp_path / "run"
    result = succeed("fit", "images", tmp_path / "all", "--out", out, "--image-size", 12, *QUICK, terminal=True)
    assert result.err.index("reading") < result.err.index("training")
    assert "3 of 48 files" in result.err and "48/48" not in result.err.split("training")[-1]


def test_a_frozen_encoder_from_a_file(source: Path, model_dir: Path, tmp_path: Path) -> None:
    prefix = "network.encoder."
    tensors = load_file(model_dir / "model.safetensors")
    trained = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    weights = tmp_path / "encoder.safetensors"
    save_file(trained, weights)
    fit = ("fit", "images", source, "--out", tmp_path / "run", "-k", 4, *QUICK, "--freeze", "--encoder-weights")
    succeed(*fit, weights)
    fitted = Eigenmap.load(tmp_path / "run").network.encoder.state_dict()
    assert all(torch.equal(fitted[name], trained[name]) for name in trained)


def test_weights_that_are_missing_or_do_not_fit(source: Path, tmp_path: Path) -> None:
    fit = ("fit", "images", source, "--out", tmp_path / "run", "-k", 4, *QUICK, "--encoder-weights")
    assert re.search(f"weights.*{tmp_path / 'no.pth'}", refused(*fit, tmp_path / "no.pth"))
    save_file({"weight": torch.zeros(1)}, tmp_path / "other.safetensors")
    assert "encoder SmallCNN" in refused(*fit, tmp_path / "other.safetensors")
    assert not (tmp_path / "run").exists()


def test_a_trained_encoder_is_ordered_without_training(source: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    weights = build_encoder("small-cnn").state_dict()
    save_file(weights, tmp_path / "trained.safetensors")
    save_file({name: x * (x.ndim < 2) for name, x in weights.items()}, tmp_path / "constant.safetensors")
    fit = (
        "fit",
        "images",
        source,
        "--out",
        tmp_path / "run",
        "--epochs",
        0,
        "--encoder",
        "small-cnn",
        "--device",
        "cpu",
    )
    trained = ("--encoder-weights", tmp_path / "trained.safetensors")
    for options, sentence in (
        ((), "--epochs 0 trains nothing.*--encoder-weights"),
        ((*trained, "--set", "codes=projector"), "--epochs 0.*projector untrained.*encoder"),
        ((*trained, "--steps", 3), "--epochs.*--steps"),
        ((*trained, "-k", 33), "33 components.*32"),
        (("-k", 24, "--encoder-weights", tmp_path / "constant.safetensors"), "same features.*--encoder-weights"),
    ):
        assert re.search(sentence, refused(*fit, *options))
        assert not (tmp_path / "run").exists()
    assert "24 ordered features from 40 images, 0 steps" in succeed(*fit, *trained, "-k", 24).err
    model = Eigenmap.load(tmp_path / "run")  # 24 features, 8 held-out images
    assert (model.source, model.n_components, model.training["held_out_images"]) == ("encoder", 24, 8)
    succeed("index", tmp_path / "run", source, "--out", tmp_path / "index")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--steps", 0], "steps.*1.*0"),
        (["--minutes", 0], "minutes.*0.*0.0"),
        (["--epochs", -1], "epochs.*0.*-1.0"),
        (["--epochs", 1, "--minutes", 1], "--epochs.*--steps.*--minutes"),
        (["--epochs", 1, "--steps", 1], "--epochs.*--steps.*--minutes"),
        (["--threads", 0], "--threads must be.*1"),
        (
            ["--resume", "--force"],
            "--resume.*--force",
        ),
        (["--set", "steps=3"], "'steps'.*stem"),
        (["--set", "epochs=2", "--steps", 3], "epochs.*steps"),
        (["--set", "lr=0.1", "--lr", 0.2], "lr .*twice.*--set"),
        (["--set", "lr=0.1", "--set", "lr=0.2"], "--set lr .*twice"),
        (
            ["--set", 'objective_options={"lengths": 4}', "--objective", "matryoshka-scl"],
            "lengths.*list",
        ),
        (
            ["--set", 'objective_options={"lengths": [4, 33]}', "--objective", "matryoshka-scl", "-k", 8],
            "lengths.*8 features.*33",
        ),
        (["--seed", 2**64], "seed.*0.*9223372036854775807.*18446744073709551616"),
        (["--set", "seed=3"], "setting 'seed'"),
        (["--set", "lr=fast"], "lr.*'fast'"),
        (["--recipe", "lunch"], "recipe 'lunch'.*auto, "),
        (["--objective", "win"], "objective 'win'.*neuralef, "),
        (
            ["--recipe", "imagenet-resnet50-100", "--objective", "barlow-twins"],
            "alpha, scale.*neuralef.*barlow-twins",
        ),
        (["--views", "sea"], "augmentation.*'sea'.*weak, "),
        (["--encoder", "resnet17"], "encoder 'resnet17'"),
        (["--optimizer", "adam"], "optimizer .*adamw, sgd, lars.*'adam'"),
        (["-k", 0], "--components.*0.*0"),
        (["-k", 33], "33 components.*32"),
        (["--batch-size", 33], "batch.*33.*32"),
        (["--image-size", 0], "--image-size.*0.*0"),
        (["--seed", -1], "seed.*0.*9223372036854775807.*-1"),
    ],
    ids=str,
)
def test_mistakes_are_told_in_a_sentence(options: list[object], sentence: str, source: Path, tmp_path: Path) -> None:
    assert re.search(sentence, refused("fit", "images", source, "--out", tmp_path / "run", *options))
    assert not (tmp_path / "run").exists()


def test_steps_and_minutes_end_at_whichever_comes_first(source: Path, tmp_path: Path) -> None:
    small = ("fit", "images", source, "--components", 4, "--batch-size", 8, "--set", "hidden=8", "--quiet")
    succeed(*small, "--out", tmp_path / "run", "--steps", 2, "--minutes", 5)
    assert Eigenmap.load(tmp_path / "run").training["steps"] == 2


def test_a_gpu_that_is_not_there(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "--device" in refused("fit", "images", source, "--out", tmp_path / "run", "--device", "cuda")


def test_words_for_numbers_are_refused_by_the_parser(source: Path, tmp_path: Path) -> None:
    result = run("fit", "images", source, "--out", tmp_path / "run", "--steps", "many")
    assert result.code == 2 and "--steps" in result.err and "Traceback" not in result.err
