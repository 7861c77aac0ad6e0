"""From images to a trained, ordered model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from eigenmap import Eigenmap, EigenmapError, fit_images, recipes
from eigenmap.augment.views import IMAGENET_STANDARDISATION
from eigenmap.core.rows import spread
from eigenmap.data import ImageSet, Labels
from eigenmap.networks import build_encoder
from eigenmap.objectives import OBJECTIVES
from eigenmap.training import CollapseError
from tests.end_to_end.photos import pictures

torch.set_num_threads(1)  # more threads do not help with small matrices

SIZE = 12
IMAGES = pictures(40, SIZE)
CLOCK = {"seconds", "images_per_second"}
QUICK: dict[str, Any] = {"steps": 4, "batch_size": 16, "device": "cpu", "progress": False}


class Flat(nn.Module):
    """The user's own encoder, without `out_features`; as fast as possible."""

    def __init__(self, features: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3 * SIZE * SIZE, features)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.linear(x.flatten(1))
        return features


def fit(images: object = IMAGES, n_components: int | None = 6, **options: Any) -> Eigenmap:
    return fit_images(images, n_components, **{**QUICK, "encoder": Flat(), **options})


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in CLOCK} for line in lines]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_gives_an_ordered_model(objective: str, tmp_path: Path) -> None:
    model = fit(objective=objective, out=tmp_path / "run")
    assert 1 <= model.n_components <= 6
    assert (np.abs(model.eigenvalues_) <= 1 + 1e-9).all()
    codes = model.encode(IMAGES)
    assert codes.shape == (40, model.n_components) and np.isfinite(codes).all()
    assert np.array_equal(Eigenmap.load(tmp_path / "run", encoder=Flat()).encode(IMAGES), codes)


def test_the_same_seed_gives_the_same_run(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        fit(out=tmp_path / name, seed=seed, encoder="small-cnn")
    one, two, other = (metrics(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two != other
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "other")]
    assert weights[0] == weights[1] != weights[2]


def test_a_run_leaves_a_model_a_checkpoint_and_metrics(tmp_path: Path) -> None:
    run = tmp_path / "deep" / "run"
    model = fit(out=run)
    assert sorted(path.name for path in run.iterdir()) == [
        "checkpoint.pt",
        "metrics.jsonl",
        "model.json",
        "model.safetensors",
    ]
    about = json.loads((run / "model.json").read_text())["training"]
    assert about == model.training
    assert (about["steps"], about["images"], about["held_out_images"], about["seed"]) == (4, 32, 8, 0)
    assert about["recipe"]["objective"] == "scl" and about["recipe"]["batch_size"] == 16
    assert metrics(run)[-1]["step"] == 4


def labelled(classes: list[int]) -> ImageSet:
    """Images with a visible class: black, grey or white."""
    levels = torch.tensor(classes).clamp(min=0)[:, None, None, None] * 120
    pixels = levels.expand(-1, 3, SIZE, SIZE).to(torch.uint8)
    return ImageSet(pixels, [str(i) for i in range(len(classes))], Labels.from_integers(np.array(classes)))


def test_labels_are_monitored_and_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = labelled([0, 1, 2, -1] * 15)
    plain = fit(data, out=tmp_path / "plain", encoder="small-cnn")
    watched = fit(data, out=tmp_path / "watched", encoder="small-cnn", monitor_labels=True, progress=True)
    last = metrics(tmp_path / "watched")[-1]
    assert 0 <= last["monitor"]["knn"] <= 1
    assert f"knn {last['monitor']['knn']:.4g}" in capsys.readouterr().err
    assert "monitor" not in metrics(tmp_path / "plain")[-1]
    assert np.array_equal(plain.encode(IMAGES), watched.encode(IMAGES))


def test_the_monitor_classifies_held_out_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With features that separate the classes, nearest neighbours are always right; few are enough."""

    class Level(nn.Module):
        out_features = 3

        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Parameter(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            level = x.mean((1, 2, 3))[:, None]
            return torch.nn.functional.one_hot(torch.bucketize(level[:, 0], torch.tensor([-0.9, 1.0])), 3) + self.unused

    monkeypatch.setattr("eigenmap.evaluation.monitor.MONITORED_IMAGES", 12)
    fit(labelled([0, 1, 2] * 30), encoder=Level(), out=tmp_path / "run", monitor_labels=True)
    assert metrics(tmp_path / "run")[-1]["monitor"]["knn"] == 1.0


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (IMAGES, "monitor"),
        (replace(labelled([0, 1] * 20), labels=Labels.from_integers(np.full(40, -1))), "few.*label"),
        (
            ImageSet(labelled([0] * 40).pixels, [str(i) for i in range(40)], Labels.from_names([["a", "b"]] * 40)),
            "several labels",
        ),
    ],
    ids=["none", "all missing", "several"],
)
def test_labels_that_cannot_be_monitored_are_refused(images: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=message):
        fit(images, out=tmp_path / "run", monitor_labels=True)
    assert not (tmp_path / "run" / "model.json").exists()


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fit()
    assert not list(tmp_path.iterdir())


def test_the_length_of_training_is_epochs_or_steps_or_minutes() -> None:
    assert fit(steps=None, epochs=3).training["steps"] == 6
    assert fit(steps=None, epochs=0.1).training["steps"] == 1
    said: list[str] = []
    # The minimum, even for very little time.
    assert fit(steps=None, minutes=1e-6, say=said.append).training["steps"] == 1
    assert re.search("1 step .*16 images.*1e-06 min", said[0])
    assert "Time is short" in said[1] and len(said) == 2


def test_crops_averages_and_deeper_projectors_make_a_model_that_loads(tmp_path: Path) -> None:
    settings = {"crops": 2, "weight_average": 0.9, "projector_layers": 3, "decay": "late", "clip_relative": 0.1}
    model = fit(encoder="small-cnn", out=tmp_path / "run", objective="scl", optimizer="lamb", **settings)
    loaded = Eigenmap.load(tmp_path / "run")
    assert loaded.network.projector.n_layers == 3
    np.testing.assert_allclose(loaded.encode(IMAGES), model.encode(IMAGES), atol=1e-6)
    stored = json.loads((tmp_path / "run" / "model.json").read_text())
    assert stored["training"]["recipe"].items() >= settings.items() and stored["network"]["projector_layers"] == 3


def test_an_encoder_that_cannot_take_small_crops_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"encoder Flat cannot take an input of shape \(3, 6, 6\)"):
        fit(crops=2, out=tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoint.pt").exists()


def test_what_decides_can_be_given_as_a_recipe() -> None:
    recipe = recipes.get("catalogue").but(n_components=5, batch_size=10, lr=1e-3)
    about = fit(n_components=None, recipe=recipe, batch_size=None).training["recipe"]
    assert (about["name"], about["n_components"], about["batch_size"], about["views"]) == (
        "catalogue",
        5,
        10,
        "catalogue",
    )


def test_an_image_set_is_taken_as_it_is() -> None:
    data = ImageSet(torch.from_numpy(IMAGES).permute(0, 3, 1, 2), [str(i) for i in range(40)])
    assert np.array_equal(fit(data).encode(IMAGES), fit().encode(IMAGES))


def test_views_have_the_size_asked_for() -> None:
    assert fit(image_size=16, encoder="small-cnn").image.size == 16
    assert fit().image.size == SIZE


def test_codes_come_from_the_output_asked_for() -> None:
    for output in ("encoder", "projector"):
        assert fit(codes=output).source == output


def test_an_encoder_of_ones_own(tmp_path: Path) -> None:
    encoder = Flat()
    model = fit(encoder=encoder, out=tmp_path / "run")
    assert model.network.encoder is encoder and model.encoder.name is None
    with pytest.raises(EigenmapError, match=r"encoder.*own"):
        Eigenmap.load(tmp_path / "run")
    again = Eigenmap.load(tmp_path / "run", encoder=Flat())
    assert np.array_equal(again.encode(IMAGES), model.encode(IMAGES))


def test_a_frozen_encoder_stays_as_it_is() -> None:
    torch.manual_seed(0)
    encoder = build_encoder("small-cnn")  # with BatchNorm, whose statistics move without any gradient
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    fit(encoder=encoder, freeze_encoder=True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())
    fit(encoder=encoder.requires_grad_(True))
    assert not any(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())


def test_an_encoder_starts_from_given_weights(tmp_path: Path) -> None:
    pretrained = build_encoder("small-cnn").state_dict()
    save_file(pretrained, tmp_path / "weights.safetensors")
    model = fit(encoder="small-cnn", encoder_weights=tmp_path / "weights.safetensors", freeze_encoder=True)
    for name, tensor in model.network.encoder.state_dict().items():
        assert torch.equal(tensor, pretrained[name]), name


def test_the_code_of_images_is_made_of_both_outputs() -> None:
    model = fit(n_components=12)
    assert model.source == "both" and model.alignment.head == 6 and model.n_components == 12
    pixels = model.input.read(IMAGES)
    with torch.inference_mode():
        outputs = model.network(model.input(pixels))  # type: ignore[arg-type]
    rows = np.hstack([np.sqrt(x.shape[1]) * x / x.norm(dim=1, keepdim=True) for x in outputs]).astype(np.float64)
    expected = (rows - model.alignment.mean.numpy()) @ model.alignment.rotation.numpy()
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode(IMAGES), expected, atol=1e-5)


@pytest.mark.parametrize("codes", ["encoder", "projector"])
def test_one_output_alone_can_be_asked_for(codes: str) -> None:
    model = fit(codes=codes)
    assert model.source == codes and model.alignment.head == 0
    assert (np.diff(model.eigenvalues_) <= 1e-12).all()


def test_a_trained_encoder_is_ordered_without_training(tmp_path: Path) -> None:
    pretrained = build_encoder("small-cnn").state_dict()
    save_file(pretrained, tmp_path / "weights.safetensors")
    settings: dict[str, Any] = {"epochs": 0, "batch_size": 16, "device": "cpu", "progress": False}
    model = fit_images(
        IMAGES,
        6,
        encoder="small-cnn",
        encoder_weights=tmp_path / "weights.safetensors",
        out=tmp_path / "run",
        **settings,
    )
    assert (model.source, model.n_components, model.training["steps"]) == ("encoder", 6, 0)
    assert all(torch.equal(x, pretrained[name]) for name, x in model.network.encoder.state_dict().items())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["model.json", "model.safetensors"]
    assert np.array_equal(Eigenmap.load(tmp_path / "run").encode(IMAGES), model.encode(IMAGES))
    again = fit_images(IMAGES, 6, encoder=model.network.encoder, **settings)
    np.testing.assert_allclose(again.encode(IMAGES), model.encode(IMAGES), atol=1e-5)


class Constant(Flat):
    """Encoder with a constant output."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ones(len(x), 8) + 0 * super().forward(x)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoder": "small-cnn"}, "epochs=0.*encoder_weights"),
        ({"codes": "projector"}, "epochs=0.*projector"),
        ({"encoder": Constant()}, "encoder returns the same features for every image.*encoder_weights"),
    ],
    ids=["no weights", "untrained projector", "constant features"],
)
def test_without_training_there_must_be_something_to_order(
    settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    given = {"encoder": Flat(), "epochs": 0, "batch_size": 16, "device": "cpu", **settings}
    with pytest.raises(EigenmapError, match=words):
        fit_images(IMAGES, 6, out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_a_frozen_encoder_that_is_constant_is_refused_before_training(tmp_path: Path) -> None:
    given: dict[str, Any] = {"encoder": Constant(), "steps": 10**9, "batch_size": 16, "device": "cpu"}
    with pytest.raises(EigenmapError, match="encoder returns the same features for every image"):
        fit_images(IMAGES, 6, freeze_encoder=True, out=tmp_path / "run", **given)


def test_copies_among_the_images_do_not_make_a_frozen_encoder_constant() -> None:
    images = IMAGES.copy()
    images[spread(len(images), 16).numpy()] = images[0]
    codes = fit(images, encoder=Flat(), freeze_encoder=True).encode(images)
    assert np.ptp(codes, axis=0).max() > 0.1


def test_an_earlier_run_stays_whole_if_there_is_nothing_to_order(tmp_path: Path) -> None:
    fit(out=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "checkpoint.pt" in before
    settings: dict[str, Any] = {"epochs": 0, "batch_size": 16, "device": "cpu", "force": True}
    with pytest.raises(EigenmapError, match="same features"):
        fit_images(IMAGES, 6, encoder=Constant(), out=tmp_path, **settings)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    fit_images(IMAGES, 6, encoder=Flat(), out=tmp_path, **settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.safetensors"]


@pytest.mark.parametrize("settings", [{"epochs": 0}, {"steps": 4}], ids=["frozen", "trained"])
def test_fewer_held_out_images_than_features(settings: dict[str, Any], tmp_path: Path) -> None:
    given = {"encoder": Flat(64), "batch_size": 16, "device": "cpu", "progress": False, **settings}
    model = fit_images(IMAGES, 24, out=tmp_path / "run", **given)
    assert model.training["held_out_images"] == 8 < model.n_components == 24
    assert np.isfinite(model.encode(IMAGES)).all() and np.isfinite(model.eigenvalues_).all()


def test_a_run_resumes_where_it_stopped(tmp_path: Path) -> None:
    fit(out=tmp_path / "whole", steps=10, encoder="small-cnn")
    with pytest.raises(KeyboardInterrupt):
        fit(out=tmp_path / "parts", steps=10, encoder="small-cnn", progress=StopAfter(5))
    assert not (tmp_path / "parts" / "model.json").exists()
    fit(out=tmp_path / "parts", steps=10, encoder="small-cnn", resume=True)
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


class StopAfter:
    """Progress bar that interrupts the run."""

    def __init__(self, step: int) -> None:
        self.step = step

    def start(self, step: int, steps: int) -> None: ...
    def report(self, record: Any, check: bool) -> None: ...
    def stop(self) -> None: ...

    def advance(self, step: int) -> None:
        if step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    "changed",
    [
        {"n_components": 7},
        {"views": "weak"},
        {"objective": "nested"},
        {"images": IMAGES[:-1]},
        {"lr": 1e-4},
        {"stem": "medium"},
        {"standardisation": IMAGENET_STANDARDISATION},
    ],
    ids=str,
)
def test_a_run_is_not_resumed_with_other_settings(changed: dict[str, Any], tmp_path: Path) -> None:
    fit(out=tmp_path / "run")
    name = next(iter(changed))
    with pytest.raises(EigenmapError, match=f"resumed.*{name} "):
        fit(out=tmp_path / "run", resume=True, **changed)


def test_a_run_is_not_resumed_with_another_part_frozen(tmp_path: Path) -> None:
    fit(out=tmp_path / "run", encoder="small-cnn", freeze_encoder=True)
    with pytest.raises(EigenmapError, match=r"resumed.*frozen.*True.*False"):
        fit(out=tmp_path / "run", encoder="small-cnn", resume=True)


def test_a_run_is_not_resumed_with_other_weights_of_the_encoder(tmp_path: Path) -> None:
    for name in ("first", "second"):
        save_file(build_encoder("small-cnn").state_dict(), tmp_path / f"{name}.safetensors")
    fit(out=tmp_path / "run", encoder="small-cnn", encoder_weights=tmp_path / "first.safetensors")
    with pytest.raises(EigenmapError, match=r"resumed.*encoder weights"):
        fit(out=tmp_path / "run", encoder="small-cnn", encoder_weights=tmp_path / "second.safetensors", resume=True)


def test_too_many_epochs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"epochs.*steps"):
        fit(out=tmp_path / "run", steps=None, epochs=1e308)
    assert not (tmp_path / "run").exists()


def test_freezing_random_weights_gives_a_message(tmp_path: Path) -> None:
    said: list[str] = []
    fit(encoder="small-cnn", freeze_encoder=True, say=said.append)
    assert any("encoder_weights" in line for line in said)
    save_file(build_encoder("small-cnn").state_dict(), tmp_path / "weights.safetensors")
    said.clear()
    fit(encoder="small-cnn", encoder_weights=tmp_path / "weights.safetensors", freeze_encoder=True, say=said.append)
    assert not any("frozen" in line for line in said)


def test_a_run_is_not_resumed_on_other_images(tmp_path: Path) -> None:
    fit(out=tmp_path / "run")
    with pytest.raises(EigenmapError, match=r"resumed.*digest"):
        fit(255 - IMAGES, out=tmp_path / "run", resume=True)
    one_other = IMAGES.copy() if isinstance(IMAGES, np.ndarray) else IMAGES.clone()
    one_other[1] = 255 - one_other[1]
    with pytest.raises(EigenmapError, match=r"resumed.*digest"):
        fit(one_other, out=tmp_path / "run", resume=True)


def test_a_run_that_had_its_minutes_is_not_trained_further(tmp_path: Path) -> None:
    fit(out=tmp_path / "run", steps=5)
    said: list[str] = []
    model = fit(out=tmp_path / "run", steps=None, minutes=1e-6, resume=True, say=said.append)
    assert model.training["steps"] == 5 and any("1e-06 min already" in line for line in said)


def test_a_run_that_is_resumed_without_a_length_keeps_its_own(tmp_path: Path) -> None:
    """The recipe's would be many epochs."""
    first = fit(out=tmp_path / "run", steps=5)
    again = fit(out=tmp_path / "run", steps=None, resume=True)
    assert again.training["steps"] == 5
    for one, other in zip(first.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("more", [{"steps": 9}, {"steps": None, "epochs": 4.5}])
def test_a_run_is_resumed_with_more_steps_or_epochs(tmp_path: Path, more: dict[str, Any]) -> None:
    fit(out=tmp_path / "run", steps=5)
    said: list[str] = []
    model = fit(out=tmp_path / "run", resume=True, say=said.append, **more)
    assert model.training["steps"] == 9 and any("5 steps" in line and "9" in line for line in said)
    assert [line["step"] for line in metrics(tmp_path / "run")] == list(range(1, 10))
    with pytest.raises(EigenmapError, match=r"steps was 9 .*5"):
        fit(out=tmp_path / "run", steps=5, resume=True)


def test_resuming_nothing_starts_from_the_beginning(tmp_path: Path) -> None:
    assert fit(out=tmp_path / "run", resume=True).training["steps"] == 4
    model = fit(out=tmp_path / "new", resume=True, steps=None, minutes=1e-6)
    assert model.training["steps"] == 1


def test_an_output_that_exists_is_refused_unless_forced(tmp_path: Path) -> None:
    fit(out=tmp_path / "run")
    before = (tmp_path / "run" / "model.json").read_bytes()
    with pytest.raises(EigenmapError, match=r"exists.*empty"):
        fit(out=tmp_path / "run", seed=1)
    assert (tmp_path / "run" / "model.json").read_bytes() == before
    fit(out=tmp_path / "run", seed=1, force=True)
    assert Eigenmap.load(tmp_path / "run", encoder=Flat()).training["seed"] == 1


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(EigenmapError, match=r"file.*folder|written"):
            fit(tmp_path / "no such folder", out=out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 1.0}, "setting 'learning_rate'"),
        ({"batchsize": 3}, "batch_size"),
        ({"recipe": "gourmet"}, "recipe 'gourmet'.*auto, "),
        ({"objective": "win"}, "objective 'win'"),
        ({"objective_options": {"beta": 1}}, "scl.*beta"),
        ({"views": "panorama"}, "augmentation.*'panorama'"),
        ({"encoder": "resnet17"}, "encoder 'resnet17'"),
        ({"encoder_weights": "no.pth"}, "weights.*no.pth"),
        ({"optimizer": "adam"}, "optimizer.*adamw, sgd, lars"),
        ({"lr": -1.0}, "lr.*0"),
        ({"lr": "fast"}, "lr"),
        ({"n_components": 0}, "n_components.*0"),
        ({"batch_size": 0}, "batch_size.*0"),
        ({"batch_size": 1}, "batch_size.*2"),
        ({"accumulate": 9, "batch_size": 8}, "accumulate.*9.*8"),
        ({"epochs": float("inf")}, "epochs.*finite"),
        ({"warmup": 2}, "warmup.*share"),
        ({"image_size": 0}, "image_size.*0"),
        ({"steps": 0}, "steps.*1.*0"),
        ({"steps": 1.5}, "steps.*1.*1.5"),
        ({"steps": "3"}, "steps.*1.*'3'"),
        ({"steps": None, "minutes": 0}, "minutes.*0.*0"),
        ({"steps": None, "minutes": "10"}, "minutes.*0.*'10'"),
        ({"epochs": 1}, "epochs.*steps.*minutes"),
        ({"seed": None}, "seed .*None"),
        ({"seed": 0.5}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"recipe": 3}, "recipe 3"),
        ({"recipe": None}, "recipe None"),
        ({"encoder": 3}, "encoder .*3"),
        ({"encoder": nn.Flatten}, "encoder .*module"),
        ({"encoder_weights": 3}, "encoder_weights.*path"),
        ({"standardisation": (0.5, 0.5)}, "standardisation.*Standardisation"),
        ({"devices": "2"}, "devices"),
        ({"devices": 1.5}, "devices"),
        ({"device": "gpu"}, "device .*auto, cpu, cuda"),
        ({"progress": "bar"}, "progress.*True, False"),
        ({"resume": True, "force": True}, "choose one"),
        ({"out": ""}, "out.*''"),
        ({"out": 3}, "out .*path.*3"),
        ({"out": None, "resume": True}, "out="),
        ({"objective_options": {3: 4}}, "objective_options.*mapping"),
        ({"n_components": 1}, "n_components.*2"),
        ({"projector_layers": 1}, "projector_layers.*2"),
        ({"crops": -1}, "crops.*0"),
        ({"weight_average": 1.0}, "weight_average"),
        ({"decay": "slow"}, "decay.*cosine, linear, late"),
    ],
    ids=str,
)
def test_impossible_settings_are_refused_before_anything_is_read(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(EigenmapError, match=message):
        fit(tmp_path / "no such folder", **{"out": tmp_path / "run", **options})
    assert not (tmp_path / "run").exists()


def test_lengths_beyond_the_features_are_refused_before_a_folder_is_begun(tmp_path: Path) -> None:
    options = {"objective": "matryoshka-scl", "objective_options": {"lengths": [4, 33]}, "n_components": 8}
    with pytest.raises(EigenmapError, match=r"lengths.*8 features.*33"):
        fit(out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_seed_of_numpy_is_a_seed() -> None:
    kinds = [fit(seed=kind(3)).encode(IMAGES[:5]) for kind in (int, np.int64, np.uint8)]
    assert all(np.array_equal(kinds[0], codes) for codes in kinds)


def test_nothing_to_resume_is_reported(tmp_path: Path) -> None:
    said: list[str] = []
    fit(out=tmp_path / "run", resume=True, say=said.append)
    assert len(said) == 1 and re.search(f"no checkpoint.*{tmp_path / 'run'}", said[0])
    said.clear()
    fit(out=tmp_path / "run", resume=True, say=said.append)
    assert said == []


def test_grey_images_get_the_channels_that_a_standardisation_is_for() -> None:
    model = fit(IMAGES[..., 0], standardisation=IMAGENET_STANDARDISATION)
    assert model.image.channels == 3
    codes = model.encode(IMAGES[:4, ..., 0])
    np.testing.assert_allclose(codes, model.encode(np.repeat(IMAGES[:4, ..., :1], 3, axis=-1)), atol=1e-6)


def test_missing_tensorboard_is_reported_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EigenmapError, match="TensorBoard"):
        fit(tmp_path / "no such folder", out=tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        (IMAGES[:3], {}, "3 images.*16"),
        (np.zeros_like(IMAGES), {}, "All images are the same"),
        (IMAGES, {"n_components": 33}, "33 components.*32"),
        (IMAGES, {"batch_size": 33}, "batch.*33.*32"),
        ("nowhere", {}, "nowhere.*exist"),
    ],
    ids=["too few images", "equal images", "too many components", "too large a batch", "no such folder"],
)
def test_data_that_do_not_suffice_are_refused(
    images: object, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(EigenmapError, match=message):
        fit(images, out=tmp_path / "run", **options)
    assert not (tmp_path / "run" / "model.json").exists()


def test_what_was_not_asked_for_is_cut_to_the_data() -> None:
    said: list[str] = []
    model = fit(n_components=None, batch_size=None, say=said.append)
    assert (model.training["recipe"]["n_components"], model.training["recipe"]["batch_size"]) == (32, 32)
    assert re.search("32 training.*8.*32 components.*256", said[0])


def test_more_components_than_the_rank_succeed_with_a_message() -> None:
    said: list[str] = []
    model = fit(encoder=Flat(3), n_components=9, codes="encoder", say=said.append)
    assert model.n_components == 3
    assert len(said) == 1 and re.search("rank.* 3.* 9", said[0])
    assert model.encode(IMAGES).shape == (40, 3)


def test_a_long_alignment_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigenmap.fitting.pipeline.WORTH_SAYING", 0.0)
    said: list[str] = []
    fit(say=said.append)
    (sentence,) = said
    assert re.fullmatch(r".*order.*\d+ s.*", sentence)


def test_unreadable_files_are_left_out_and_listed_or_refused(tmp_path: Path) -> None:
    from PIL import Image

    for i, image in enumerate(IMAGES):
        Image.fromarray(image).save(tmp_path / f"{i:02d}.png")
    for i in range(12):
        (tmp_path / f"broken{i:02d}.png").write_bytes(b"no picture")
    said: list[str] = []
    counts: list[tuple[int, int]] = []
    model = fit(tmp_path, say=said.append, reading=lambda done, total: counts.append((done, total)))
    assert model.training["skipped"] == 12 and len(said) == 12
    assert "12 of 52 files" in said[0]
    assert said[1].startswith("  broken00.png: ") and "2 more" in said[-1]
    assert counts[-1] == (52, 52)
    with pytest.raises(EigenmapError, match=r"broken00.png.*read"):
        fit(tmp_path, strict=True)


def test_a_collapse_stops_a_run_of_some_length(tmp_path: Path) -> None:
    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Parameter(torch.ones(8))

        def forward(self, x: Tensor) -> Tensor:
            return self.features.expand(len(x), 8)

    with pytest.raises(CollapseError, match=r"collapsed.*step 30"):
        fit(IMAGES, steps=31, encoder=Blind(), out=tmp_path / "long")
    assert not (tmp_path / "long" / "model.json").exists()
    with pytest.raises(EigenmapError, match="constant"):
        fit(IMAGES, steps=2, encoder=Blind())


PUBLISHED: dict[str, Any] = {
    **{"image_size": 14, "read_size": 16, "whole_images": True, "imagenet_pixels": True},
    **{"encoder": "small-cnn", "views": "barlow_twins"},
}


def test_whole_images_are_cropped_and_the_middle_is_encoded(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(24):
        height, width = (20, 36) if i % 2 else (30, 18)
        Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(folder / f"{i:02}.png")
    model = fit(folder, n_components=4, out=tmp_path / "run", batch_size=8, **PUBLISHED)
    assert (model.image.size, model.image.view, model.image.standardisation) == (16, 14, IMAGENET_STANDARDISATION)
    loaded = Eigenmap.load(tmp_path / "run")
    assert loaded.image == model.image
    # An encoded image: its shorter side has 16 pixels, of which the network sees the central 14.
    picture = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    seen = (torch.from_numpy(picture[1:15, 1:15]).permute(2, 0, 1)[None].float() / 255).sub(
        torch.tensor(IMAGENET_STANDARDISATION.mean).view(3, 1, 1)
    ) / torch.tensor(IMAGENET_STANDARDISATION.std).view(3, 1, 1)
    torch.testing.assert_close(loaded.image(loaded.image.read(picture[None])), seen, atol=1e-4, rtol=0)
    assert loaded.encode(picture[None]).shape == (1, model.n_components)


def test_invalid_settings_of_whole_images_are_refused(tmp_path: Path) -> None:
    for change, words in (
        ({"read_size": 12}, "read_size is 12"),
        ({"image_size": None, "read_size": 16}, "read_size is 16"),
        ({"views": "weak"}, "cannot be rotated"),
    ):
        with pytest.raises(EigenmapError, match=words):
            fit(**{**PUBLISHED, **change}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_on_squares_is_not_resumed_on_whole_images(tmp_path: Path) -> None:
    fit(out=tmp_path / "run", encoder="small-cnn", views="barlow_twins", image_size=14)
    with pytest.raises(EigenmapError, match="view was 'not set' and is now 14"):
        fit(out=tmp_path / "run", resume=True, **{**PUBLISHED, "imagenet_pixels": False})
