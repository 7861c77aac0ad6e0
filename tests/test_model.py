"""The model and its directory."""

from __future__ import annotations

import errno
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from eigenmap import Eigenmap, EigenmapError, Moments, best_alignment
from eigenmap import saved as saved_files
from eigenmap.augment.views import IMAGENET_STANDARDISATION
from eigenmap.model import CodeSource, EncoderSpec, ImageInput, weights_file
from eigenmap.model import eigenmap as module
from eigenmap.model import files as model_files
from eigenmap.networks import Network, SmallCNN, code_rows
from eigenmap.search import CodeIndex
from tests.end_to_end.photos import pictures

torch.set_num_threads(1)  # more threads do not help with small matrices

SIZE, COMPONENTS = 16, 6
IMAGES = pictures(30, SIZE)


class Flat(nn.Module):
    """The user's own encoder."""

    def __init__(self, features: int = 5) -> None:
        super().__init__()
        self.out_features = features
        self.linear = nn.Linear(3 * SIZE * SIZE, features)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.linear(x.flatten(1))
        return features


def make_model(source: CodeSource = "projector", encoder: nn.Module | None = None) -> Eigenmap:
    """Untrained network, aligned on noisy copies of the images."""
    torch.manual_seed(0)
    network = Network(encoder or SmallCNN(3), COMPONENTS, hidden=32).eval()
    image = ImageInput(SIZE, 3, IMAGENET_STANDARDISATION)
    pixels = torch.from_numpy(IMAGES).permute(0, 3, 1, 2)
    x = image(pixels).repeat(8, 1, 1, 1)
    with torch.no_grad():
        views = [code_rows(*network(x + 0.3 * torch.randn_like(x)), source) for _ in range(2)]
    half = len(x) // 2
    fit, held_out = (Moments(views[0].shape[1]) for _ in range(2))
    fit.update(views[0][:half], views[1][:half])
    held_out.update(views[0][half:], views[1][half:])
    alignment = best_alignment(fit, held_out, (views[0][half:], views[1][half:]), n_components=COMPONENTS)
    spec = EncoderSpec(None if encoder else "small-cnn")
    return Eigenmap(network, alignment, source, image, spec, {"seed": 0, "note": "not trained"})


@pytest.fixture(scope="module")
def model() -> Eigenmap:
    return make_model()


@pytest.fixture
def saved(model: Eigenmap, tmp_path: Path) -> Path:
    return model.save(tmp_path / "model")


def edit(directory: Path, **changes: Any) -> None:
    path = directory / "model.json"
    about = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in about.items() if value is not ...}))


@pytest.mark.parametrize("source", ["encoder", "projector", "both"])
def test_a_model_read_back_gives_the_same_codes_to_the_bit(source: CodeSource, tmp_path: Path) -> None:
    model = make_model(source)
    loaded = Eigenmap.load(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.encode(IMAGES), model.encode(IMAGES))
    assert np.array_equal(loaded.eigenvalues_, model.eigenvalues_)
    assert (loaded.source, loaded.image, loaded.training) == (model.source, model.image, model.training)
    assert loaded.alignment.recall == model.alignment.recall
    assert loaded.alignment.agreement == model.alignment.agreement
    assert loaded.suggest_dim(recall=0.9) == model.suggest_dim(recall=0.9)
    assert loaded.suggest_dim(spectrum=0.9) == model.suggest_dim(spectrum=0.9)


def test_a_directory_holds_json_and_safetensors_only(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["model.json", "model.safetensors"]
    assert json.loads((saved / "model.json").read_text())["format"] == "eigenmap-model"
    header = int.from_bytes((saved / "model.safetensors").read_bytes()[:8], "little")
    assert "network.encoder" in (saved / "model.safetensors").read_bytes()[8 : 8 + header].decode()


def test_files_may_be_read_by_whoever_may_read_the_folder(saved: Path) -> None:
    (saved / "plain").write_text("")
    wanted = (saved / "plain").stat().st_mode
    assert [(saved / name).stat().st_mode for name in ("model.json", "model.safetensors")] == [wanted, wanted]


def test_saving_again_replaces_the_model(saved: Path) -> None:
    other = make_model("encoder")
    other.save(saved)
    assert np.array_equal(Eigenmap.load(saved).encode(IMAGES), other.encode(IMAGES))


def test_fingerprint_is_that_of_the_weights(saved: Path, model: Eigenmap, tmp_path: Path) -> None:
    again, other = model.save(tmp_path / "again"), make_model("encoder").save(tmp_path / "other")
    assert Eigenmap.fingerprint(saved) == Eigenmap.fingerprint(again) != Eigenmap.fingerprint(other)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_a_short_code_is_the_beginning_of_a_long_one(model: Eigenmap, dim: int) -> None:
    short, full = model.encode(IMAGES, dim, normalize=False), model.encode(IMAGES, normalize=False)
    np.testing.assert_allclose(short, full[:, :dim], rtol=1e-5, atol=1e-6)
    cut = model.encode(IMAGES)[:, :dim]
    np.testing.assert_allclose(model.encode(IMAGES, dim), cut / np.linalg.norm(cut, axis=1, keepdims=True), atol=1e-5)


def test_codes_are_float32_rows_of_norm_1_of_the_length_asked_for(model: Eigenmap) -> None:
    dim: Any = np.int64(4)
    codes = model.encode(IMAGES, dim)
    assert codes.shape == (30, 4) and codes.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, rtol=1e-5)


def test_batches_do_not_matter(model: Eigenmap) -> None:
    np.testing.assert_allclose(model.encode(IMAGES, batch_size=7), model.encode(IMAGES), atol=1e-5)


@pytest.mark.parametrize(
    "given",
    [
        IMAGES.transpose(0, 3, 1, 2),
        torch.from_numpy(IMAGES),
        torch.from_numpy(IMAGES).permute(0, 3, 1, 2),
        [Image.fromarray(image) for image in IMAGES],
        list(IMAGES),
        IMAGES.astype(np.float32) / 255,
    ],
    ids=["NCHW", "tensor NHWC", "tensor NCHW", "Pillow", "list of arrays", "floats"],
)
def test_images_may_have_any_usual_form(model: Eigenmap, given: object) -> None:
    assert np.array_equal(model.encode(given), model.encode(IMAGES))


def test_images_of_other_sizes_and_grey_ones_are_made_to_fit(model: Eigenmap) -> None:
    mixed = [Image.new("L", (40, 20), 200), Image.new("RGBA", (1, 1)), Image.new("RGB", (3, 300), "red")]
    assert model.encode(mixed).shape == (3, COMPONENTS)
    assert model.encode(mixed[0]).shape == (1, COMPONENTS)


def test_no_images_give_no_codes(model: Eigenmap) -> None:
    assert model.encode([], dim=3).shape == (0, 3)


def test_weighting_is_by_powers_of_the_eigenvalues(model: Eigenmap) -> None:
    bare = model.encode(IMAGES, weighting="none", normalize=False)
    weights = model.eigenvalues_.clip(0) / model.eigenvalues_.max()
    for t in (1.0, 3.0):
        expected = bare * weights**t
        np.testing.assert_allclose(model.encode(IMAGES, t=t, normalize=False), expected, rtol=1e-4, atol=1e-5)
    own = model.encode(IMAGES, t=model.alignment.t)
    assert np.array_equal(own, model.encode(IMAGES))
    assert np.array_equal(model.encode(IMAGES, weighting="none", t=5.0, normalize=False), bare)


def test_unknown_weighting_is_refused(model: Eigenmap) -> None:
    with pytest.raises(EigenmapError, match=r'weighting.*"diffusion".*"none"'):
        model.encode(IMAGES, weighting="heavy")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, "device 'gpu'"),
        ({"device": "meta"}, "device 'meta'"),
        ({"device": "cuda:99"}, "device 'cuda:99'"),
        ({"batch_size": 0}, "batch_size.*1.*0"),
        ({"batch_size": -1}, "batch_size.*1.*-1"),
        ({"batch_size": 1.5}, "batch_size.*1.*1.5"),
        ({"batch_size": None}, "batch_size.*None"),
        ({"t": "x"}, r"\bt .*'x'"),
        ({"t": -1}, r"\bt .*-1"),
        ({"t": float("nan")}, r"\bt .*nan"),
    ],
    ids=str,
)
def test_what_encode_cannot_do_is_refused_and_leaves_the_model_usable(
    model: Eigenmap, options: dict[str, Any], message: str
) -> None:
    before = model.encode(IMAGES)
    with pytest.raises(EigenmapError, match=message):
        model.encode(IMAGES, **options)
    assert np.array_equal(model.encode(IMAGES), before)


@pytest.mark.parametrize("directory", [None, 3, b"model", "", "a\0b"])
def test_a_path_that_is_not_a_directory_is_refused(model: Eigenmap, directory: Any) -> None:
    for call in (Eigenmap.load, Eigenmap.fingerprint, Eigenmap.is_of_nodes, model.save):
        with pytest.raises(EigenmapError, match=r"directory.*path"):
            call(directory)


def test_a_file_is_not_a_model_directory(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(EigenmapError, match=r"photo\.jpg.*model directory"):
        Eigenmap.load(tmp_path / "photo.jpg")


@pytest.mark.parametrize("encoder", ["resnet18", 3])
def test_an_encoder_that_is_not_a_module_is_refused(saved: Path, encoder: Any) -> None:
    with pytest.raises(EigenmapError, match=r"encoder.*module"):
        Eigenmap.load(saved, encoder=encoder)


@pytest.mark.parametrize("dim", [0, -1, COMPONENTS + 1, "x", "4", True, 2.0])
def test_lengths_that_no_code_has_are_refused(model: Eigenmap, dim: Any) -> None:
    with pytest.raises(EigenmapError, match=f"dim.*1.*{COMPONENTS}.*{dim!r}"):
        model.encode(IMAGES, dim)


def test_eigenvalues_descend(model: Eigenmap) -> None:
    assert model.eigenvalues_.shape == (COMPONENTS,)
    assert (np.diff(model.eigenvalues_) <= 1e-12).all()


def test_a_model_of_ones_own_encoder_needs_it_to_load(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = make_model(encoder=Flat())
    saved = model.save(tmp_path / "own")
    with pytest.raises(EigenmapError, match=r"Eigenmap\.load\(directory, encoder="):
        Eigenmap.load(saved)
    assert np.array_equal(Eigenmap.load(saved, encoder=Flat()).encode(IMAGES), model.encode(IMAGES))
    for wrong in (Flat(7), SmallCNN(3)):
        with pytest.raises(EigenmapError, match=r"encoder.*weights"):
            Eigenmap.load(saved, encoder=wrong)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"gone.*model directory"):
        Eigenmap.load(tmp_path / "gone")
    with pytest.raises(EigenmapError, match=r"model\.json"):
        Eigenmap.load(tmp_path)


def test_missing_weights_are_named(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    with pytest.raises(EigenmapError, match=r"model\.safetensors.*missing"):
        Eigenmap.load(saved)


def test_weights_that_may_not_be_read_are_named(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name != "model.safetensors":
            return read_bytes(path)
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(EigenmapError, match=r"model\.safetensors.*Permission denied"):
        Eigenmap.load(saved)


def test_truncated_weights_are_refused(saved: Path) -> None:
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(EigenmapError, match=r"model\.safetensors.*damaged"):
        Eigenmap.load(saved)


def test_weights_of_another_model_are_refused(saved: Path, tmp_path: Path) -> None:
    other = make_model("encoder").save(tmp_path / "other")
    shutil.copyfile(other / "model.safetensors", saved / "model.safetensors")
    with pytest.raises(EigenmapError, match=r"model\.json"):
        Eigenmap.load(saved)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_other_format_versions_are_refused(saved: Path, version: object) -> None:
    edit(saved, version=version)
    with pytest.raises(EigenmapError, match=f"version {version!r}.*version 1"):
        Eigenmap.load(saved)


def test_another_kind_of_json_is_refused(saved: Path) -> None:
    for content in ("[]", '{"format": "other"}', "3"):
        (saved / "model.json").write_text(content)
        with pytest.raises(EigenmapError, match="describe"):
            Eigenmap.load(saved)


@pytest.mark.parametrize("content", ["", "{", '{"format": "eigenmap-mod', "\x00\x01"])
def test_json_cut_short_is_refused(saved: Path, content: str) -> None:
    (saved / "model.json").write_text(content)
    with pytest.raises(EigenmapError, match=r"model\.json.*damaged"):
        Eigenmap.load(saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"weights_sha256": ...},
        {"input": ...},
        {"input": {"size": 16}},
        {"encoder": {"shape": "round"}},
        {"network": []},
        {"alignment": {"recall": 3}},
        {"source": ...},
        {"training": ...},
    ],
    ids=str,
)
def test_a_description_with_a_missing_value_is_refused(saved: Path, changes: dict[str, Any]) -> None:
    edit(saved, **changes)
    with pytest.raises(EigenmapError, match=r"model\.json.*damaged"):
        Eigenmap.load(saved)


def test_a_place_that_cannot_be_written_is_named(model: Eigenmap, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EigenmapError, match=r"written.*file/model"):
        model.save(tmp_path / "file" / "model")


def test_a_disk_that_is_full_leaves_the_old_model(
    model: Eigenmap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(partial: Path, content: bytes) -> int:
        partial.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    directory = model.save(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EigenmapError, match="No space left"):
        model.save(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_disk_that_is_full_at_the_description_leaves_the_old_model(
    model: Eigenmap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    directory = make_model("encoder").save(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(EigenmapError, match="No space left"):
        model.save(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_save_that_was_cut_short_between_its_files_is_read_copied_and_finished(
    model: Eigenmap, saved: Path, tmp_path: Path
) -> None:
    other = make_model("encoder")
    new = other.save(tmp_path / "new")
    shutil.copyfile(new / "model.json", saved / "model.json")
    shutil.copyfile(new / "model.safetensors", saved / ".model.safetensors.next")
    assert np.array_equal(Eigenmap.load(saved).encode(IMAGES), other.encode(IMAGES))
    index = CodeIndex(COMPONENTS)
    index.add(other.encode(IMAGES), range(len(IMAGES)))
    index.save(tmp_path / "index", model_dir=saved)
    assert np.array_equal(Eigenmap.load(tmp_path / "index" / "model").encode(IMAGES), other.encode(IMAGES))
    for again in (model, model):  # saving the same weights again leaves no waiting file either
        again.save(saved)
        assert np.array_equal(Eigenmap.load(saved).encode(IMAGES), again.encode(IMAGES))
        assert sorted(path.name for path in saved.iterdir()) == ["model.json", "model.safetensors"]


def test_weights_of_a_save_interrupted_before_its_description_are_ignored(
    model: Eigenmap, saved: Path, tmp_path: Path
) -> None:
    shutil.copyfile(
        make_model("encoder").save(tmp_path / "new") / "model.safetensors", saved / ".model.safetensors.next"
    )
    assert np.array_equal(Eigenmap.load(saved).encode(IMAGES), model.encode(IMAGES))
    assert weights_file(saved) == saved / "model.safetensors"


def test_an_unfinished_run_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"")
    with pytest.raises(EigenmapError, match=r"model\.json.*resume=True"):
        Eigenmap.load(tmp_path)


def test_a_model_knows_which_saved_weights_it_is(saved: Path) -> None:
    fresh = make_model("encoder")
    assert fresh.weights_sha256 is None
    first, loaded = Eigenmap.fingerprint(saved), Eigenmap.load(saved)
    assert loaded.weights_sha256 == first
    fresh.save(saved)
    assert fresh.weights_sha256 == Eigenmap.fingerprint(saved) == Eigenmap.load(saved).weights_sha256 != first
    assert loaded.weights_sha256 == first
    with pytest.raises(AttributeError):
        loaded.weights_sha256 = "another"  # type: ignore[misc]


def test_weights_that_are_replaced_while_they_are_read_are_not_taken_for_others(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content compared with the digest is the content used, even if the file changes a moment later."""
    first, expected = Eigenmap.fingerprint(saved), Eigenmap.load(saved).encode(IMAGES)
    other = make_model()
    for layer in other.network.projector.parameters():
        torch.nn.init.normal_(layer)
    weights_of = saved_files.weights_of

    def replaced_after(*arguments: Any) -> Any:
        found = weights_of(*arguments)
        other.save(saved)
        return found

    monkeypatch.setattr(saved_files, "weights_of", replaced_after)
    loaded = Eigenmap.load(saved)
    assert Eigenmap.fingerprint(saved) != first
    assert np.array_equal(loaded.encode(IMAGES), expected) and loaded.weights_sha256 == first


def test_a_model_that_is_replaced_while_it_is_copied_is_not_mixed(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model_files.copy_model(saved, tmp_path / "copy") == Eigenmap.load(tmp_path / "copy").weights_sha256
    weights_of = model_files.weights_of

    def replaced_after(*arguments: Any) -> Any:
        found = weights_of(*arguments)
        make_model("encoder").save(saved)
        return found

    monkeypatch.setattr(model_files, "weights_of", replaced_after)
    with pytest.raises(EigenmapError, match="replaced"):
        model_files.copy_model(saved, tmp_path / "another")


def test_a_model_that_is_replaced_between_its_files_is_not_called_damaged(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, read, found = make_model("encoder"), module.read_description, []

    def replaced_after(directory: Path) -> Any:
        found.append(read(directory))
        if len(found) == 1:
            with monkeypatch.context() as whole:
                whole.setattr(module, "read_description", read)
                other.save(saved)
        return found[-1]

    monkeypatch.setattr(module, "read_description", replaced_after)
    assert Eigenmap.load(saved).weights_sha256 == other.weights_sha256 != found[0]["weights_sha256"]


def test_pickles_that_name_the_class_in_its_room_find_it() -> None:
    assert pickle.loads(b"ceigenmap.model\nEigenmap\n.") is Eigenmap
    assert pickle.loads(pickle.dumps(Eigenmap)) is Eigenmap
