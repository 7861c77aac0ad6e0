"""Saved estimators: round trips, and one-sentence errors for damaged files."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.random import RandomState
from safetensors.torch import load_file, save_file
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from eigenmap import Eigenmap, EigenmapError, GraphEigenmap, NeuralEigenmap
from eigenmap import saved as files
from eigenmap.description import SEAL, description_text
from eigenmap.estimators.saved import verify_estimator
from eigenmap.objectives import RitzTrace

RNG = np.random.default_rng(0)
SPREAD = np.array([1.0, 0.5])
X = RNG.normal(size=(90, 2)) * SPREAD
NEW = RNG.normal(size=(40, 2)) * SPREAD
SMALL: dict[str, Any] = {"network_params": {"width": 24, "depth": 1}, "random_state": 0, "max_steps": 5, "tol": 1e-9}


def wave(x: Tensor, y: Tensor, period: float = 3.0) -> Tensor:
    return (x[:, :1] - y[:, :1].T).mul(6.28 / period).cos()


def other_wave(x: Tensor, y: Tensor) -> Tensor:
    return wave(x, y, period=2.0)


class Net(nn.Module):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(2, width), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def assert_same(found: NeuralEigenmap, expected: NeuralEigenmap, new: Any = NEW, **score: Any) -> None:
    """Assert that all attributes and methods of two fitted estimators agree to 1e-12."""
    for name in ("eigenvalues_", "held_out_eigenvalues_", "residual_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-12)
    for name in ("groups_", "rank_", "n_steps_", "n_features_in_"):
        assert getattr(found, name) == getattr(expected, name), name
    for evaluate in ("transform", "psi"):
        codes, right = getattr(found, evaluate)(new), getattr(expected, evaluate)(new)
        assert codes.dtype == right.dtype
        np.testing.assert_allclose(codes, right, rtol=0, atol=1e-12)
    assert found.score(new, **score) == pytest.approx(expected.score(new, **score), abs=1e-12)
    assert list(found.get_feature_names_out()) == list(expected.get_feature_names_out())
    assert found.network_.state_dict().keys() == expected.network_.state_dict().keys()


def change(directory: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Write a changed description with a valid seal."""
    path = directory / "model.json"
    about = json.loads(path.read_text())
    about.pop(SEAL)
    edit(about)
    path.write_text(description_text(about))


def change_tensors(directory: Path, edit: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(directory / "model.safetensors")
    edit(tensors)
    save_file(tensors, directory / "model.safetensors")
    change(
        directory,
        lambda about: about.update(
            weights_sha256=hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
        ),
    )


@pytest.fixture(scope="module")
def fitted() -> NeuralEigenmap:
    return NeuralEigenmap(3, kernel_params={"length_scale": 1.5}, **SMALL).fit(X)


@pytest.fixture
def saved(fitted: NeuralEigenmap, tmp_path: Path) -> Path:
    return fitted.save(tmp_path / "model")


# Round trips


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "rbf", "kernel_params": {"length_scale": np.array([1.5, 2.0])}},
        {"kernel": "matern", "kernel_params": {"length_scale": 2.0, "nu": np.inf}, "t": 0.5},
        {"kernel": "polynomial", "kernel_params": {"degree": np.int64(2)}, "n_components": np.int64(3)},
        {"network": "separate", "network_params": {"width": 4}, "objective": "neuralef-ratio"},
        {"objective": "neuralef-shifted", "objective_params": {"shift": "auto"}},
        {"kernel": "neighbours", "kernel_params": {"n_neighbors": 5}},
        {"kernel": "neighbours", "kernel_params": {"n_neighbors": 5, "laplacian": True}},
        {"batch_size": 16, "reference_size": 30},
    ],
    ids=str,
)
def test_what_is_loaded_does_what_was_saved(parameters: dict[str, Any], tmp_path: Path) -> None:
    estimator = NeuralEigenmap(**{"n_components": 3, **SMALL, **parameters}).fit(X)
    again = NeuralEigenmap.load(estimator.save(tmp_path / "model"))
    assert_same(again, estimator)
    ours, theirs = again.get_params(), estimator.get_params()
    ours["kernel_params"], theirs["kernel_params"] = (repr(_lists(p["kernel_params"])) for p in (ours, theirs))
    assert ours == theirs
    np.testing.assert_array_equal(again.fit(X).transform(NEW), estimator.fit(X).transform(NEW))  # the same refit


def _lists(params: Any) -> Any:
    return {name: np.asarray(value).tolist() for name, value in (params or {}).items()}


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
def test_a_gram_matrix(form: Any, tmp_path: Path) -> None:
    gram = X @ X.T
    alone = NeuralEigenmap(2, kernel="precomputed", **SMALL).fit(form(gram))
    again = NeuralEigenmap.load(alone.save(tmp_path / "alone"))
    assert_same(again, alone, form(NEW @ X.T))
    with_features = NeuralEigenmap(2, kernel="precomputed", **SMALL).fit(X, gram=form(gram))
    again = NeuralEigenmap.load(with_features.save(tmp_path / "features"))
    assert_same(again, with_features, gram=form(NEW @ NEW.T))
    with pytest.raises(EigenmapError, match=r"partial_fit.*kernel"):
        again.partial_fit(X)


def test_single_precision_names_of_features_and_frames(tmp_path: Path) -> None:
    frame = pd.DataFrame(X.astype(np.float32), columns=["a", "b"])
    estimator = NeuralEigenmap(3, **SMALL).set_output(transform="pandas").fit(frame)
    again = NeuralEigenmap.load(estimator.save(tmp_path / "model"))
    assert list(again.feature_names_in_) == ["a", "b"]
    codes = again.transform(frame)
    pd.testing.assert_frame_equal(codes, estimator.transform(frame))
    assert set(codes.dtypes) == {np.dtype("float32")}
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame.rename(columns={"a": "c"}))


def test_what_is_the_callers_own_is_passed_again(tmp_path: Path) -> None:
    own: dict[str, Any] = {"kernel": wave, "objective": RitzTrace(centre=False), "network": Net()}
    estimator = NeuralEigenmap(
        2, **own, kernel_params={"period": 3.0}, max_steps=5, tol=1e-9, random_state=RandomState(0)
    ).fit(X)
    directory = estimator.save(tmp_path / "model")
    own["random_state"] = None
    assert_same(NeuralEigenmap.load(directory, **own), estimator)
    for name in own:
        with pytest.raises(EigenmapError, match=rf"NeuralEigenmap\.load\(directory, {name}="):
            NeuralEigenmap.load(directory, **{key: value for key, value in own.items() if key != name})
        with pytest.raises(EigenmapError, match=f"{name} .*'rbf'"):
            NeuralEigenmap.load(directory, **{**own, name: "rbf"})
    with pytest.raises(EigenmapError, match=f"{directory}.*kernel"):
        NeuralEigenmap.load(directory, **{**own, "kernel": lambda x, y, period: other_wave(x, y)})
    with pytest.raises(EigenmapError, match=r"layers\.0\.weight"):
        NeuralEigenmap.load(directory, **{**own, "network": Net(5)})
    with pytest.raises(EigenmapError, match="kernel_params"):
        NeuralEigenmap.load(directory, **own, kernel_params={})
    lines = verify_estimator(directory)
    assert "kernel=wave" in lines[-1] and "network=Net" in lines[-1]


def test_parameters_that_were_set_after_the_fit(fitted: NeuralEigenmap, tmp_path: Path) -> None:
    estimator = NeuralEigenmap(3, kernel_params={"length_scale": 1.5}, **SMALL).fit(X)
    estimator.set_params(n_components=2, kernel_params={"length_scale": 9.0}, t=0.5)
    again = NeuralEigenmap.load(estimator.save(tmp_path / "model"))
    assert again.get_params() == estimator.get_params()
    assert_same(again, estimator)
    np.testing.assert_array_equal(again.partial_fit(NEW).transform(X), estimator.partial_fit(NEW).transform(X))
    with pytest.raises(EigenmapError, match=r"kernel.*changed"):
        estimator.set_params(kernel=wave).save(tmp_path / "other")
    with pytest.raises(EigenmapError, match="batch_size"):
        estimator.set_params(kernel="rbf", batch_size=0).save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("begin", ["fit", "partial_fit"])
@pytest.mark.parametrize("network", ["auto", "own"])
def test_partial_fit_continues_as_if_nothing_had_happened(begin: str, network: str, tmp_path: Path) -> None:
    own: dict[str, Any] = {"network": Net(), "network_params": None} if network == "own" else {}
    estimator = NeuralEigenmap(3, **{**SMALL, "reference_size": 30, "batch_size": 40, **own})
    getattr(estimator, begin)(X, sample_weight=RNG.uniform(size=90))  # more points than are kept
    if begin == "fit":
        estimator.partial_fit(NEW)
    own.pop("network_params", None)
    again = NeuralEigenmap.load(estimator.save(tmp_path / "model"), **own)  # before the last layer is solved
    assert_same(again, estimator)
    for _ in range(2):
        batch = RNG.normal(size=(50, 2))
        weights = RNG.uniform(size=50)
        again.partial_fit(batch, sample_weight=weights)
        estimator.partial_fit(batch, sample_weight=weights)
        assert_same(again, estimator)
    assert_same(NeuralEigenmap.load(again.save(tmp_path / "again"), **own), estimator)


def test_too_few_points_so_far_may_be_saved(tmp_path: Path) -> None:
    estimator = NeuralEigenmap(5, **SMALL).partial_fit(X[:3])
    again = NeuralEigenmap.load(estimator.save(tmp_path / "model"))
    with pytest.raises(EigenmapError, match="3 points"):
        again.transform(X)
    np.testing.assert_array_equal(again.partial_fit(X).transform(NEW), estimator.partial_fit(X).transform(NEW))


def test_two_processes(tmp_path: Path) -> None:
    code = """
        import sys, numpy as np
        from eigenmap import NeuralEigenmap
        from tests.estimators.test_saved import SMALL, X, NEW, wave
        for name, kernel in {"rbf": "rbf", "wave": wave}.items():
            model = NeuralEigenmap(2, kernel=kernel, **SMALL).fit(X)
            model.save(f"{sys.argv[1]}/{name}")
            np.savez(f"{sys.argv[1]}/{name}.npz", codes=model.transform(NEW), mu=model.eigenvalues_)
    """
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), tmp_path], check=True, cwd=root, timeout=300)
    for name, own in {"rbf": {}, "wave": {"kernel": wave}}.items():
        model = NeuralEigenmap.load(tmp_path / name, **own)  # type: ignore[arg-type]
        with np.load(tmp_path / f"{name}.npz") as right:
            np.testing.assert_allclose(model.transform(NEW), right["codes"], rtol=0, atol=1e-12)
            np.testing.assert_allclose(model.eigenvalues_, right["mu"], rtol=0, atol=1e-12)


# Files


def test_the_files(saved: Path, fitted: NeuralEigenmap) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["model.json", "model.safetensors"]
    about = json.loads((saved / "model.json").read_text())
    assert about["format"] == "eigenmap-kernel-model" and about["version"] == 1 and len(about[SEAL]) == 64
    assert about["fitted_with"]["kernel_params"] == {"length_scale": 1.5} and about["own"] == {}
    assert about["weights_sha256"] == hashlib.sha256((saved / "model.safetensors").read_bytes()).hexdigest()
    assert len(verify_estimator(saved)) == 2


def test_a_model_over_another_of_any_kind(fitted: NeuralEigenmap, tmp_path: Path) -> None:
    place = fitted.save(tmp_path / "model")
    other = NeuralEigenmap(2, **SMALL).fit(X)
    assert_same(NeuralEigenmap.load(other.save(place)), other)
    (place / "model.safetensors").rename(place / ".model.safetensors.next")  # a save that was cut short here
    assert_same(NeuralEigenmap.load(place), other)
    assert_same(NeuralEigenmap.load(fitted.save(place)), fitted)


def test_a_model_that_another_one_replaces_while_it_is_read(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, find = NeuralEigenmap(2, **SMALL).fit(X), files.weights_of

    def replaced_meanwhile(directory: Path, digest: str) -> files.Weights:
        monkeypatch.undo()
        other.save(directory)
        return find(directory, digest)

    monkeypatch.setattr(files, "weights_of", replaced_meanwhile)
    assert_same(NeuralEigenmap.load(saved), other)


def test_not_fitted(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        NeuralEigenmap().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_readers_say_what_it_is(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"NeuralEigenmap\.load.*Eigenmap\.load"):
        Eigenmap.load(saved)
    with pytest.raises(EigenmapError, match=r"NeuralEigenmap\.load.*GraphEigenmap\.load"):
        GraphEigenmap.load(saved)
    with pytest.raises(EigenmapError, match=r"nowhere.*exist"):
        NeuralEigenmap.load(tmp_path / "nowhere")
    with pytest.raises(EigenmapError, match="device 'moon'"):
        NeuralEigenmap.load(saved, device="moon")


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_damaged_and_missing_files_are_named(name: str, saved: Path) -> None:
    content = bytearray((saved / name).read_bytes())
    content[len(content) // 2] ^= 1
    (saved / name).write_bytes(content)
    with pytest.raises(EigenmapError, match=f"{name} .*damaged"):
        NeuralEigenmap.load(saved)
    with pytest.raises(EigenmapError, match=f"{name} .*damaged"):
        verify_estimator(saved)
    (saved / name).unlink()
    with pytest.raises(EigenmapError, match=name):
        NeuralEigenmap.load(saved)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda a: a.update(version=2), "format version 2"),
        (lambda a: a.update(n_features=3), r"standardise\.mean.*shape"),
        (lambda a: a.update(n_features=True), "n_features"),
        (lambda a: a.update(feature_names=["a"]), "feature_names.*2 texts"),
        (lambda a: a.update(extra=1), "extra"),
        (lambda a: a.update(found=None), None),  # solved for again
        (lambda a: a["solver"].update(seed=-1), "solver.seed"),
        (lambda a: a["solver"].update(dtype="float16"), "solver.dtype"),
        (lambda a: a["solver"].update(dtype="float32"), "hidden.*float32"),
        (lambda a: a["solver"].update(span_psi=True), "head.*24, 3"),
        (lambda a: a["solver"].update(seen=1), "solver.seen"),
        (lambda a: a["solver"].update(objective_options={"tau": "x"}), "tau"),
        (lambda a: a["solver"].pop("ridge"), "solver.ridge"),
        (lambda a: a["found"].update(groups=[[0], [2], [1]]), "found.groups"),
        (lambda a: a["found"].update(rank=1), "found.rank"),
        (lambda a: a["fitted_with"].update(network_params={"width": 10**12, "depth": 2}), "damaged"),
        (lambda a: a["fitted_with"].update(network_params={"width": 24, "depth": 10**9}), "1000 layers"),
        (lambda a: a["fitted_with"].update(n_components=10**15), "damaged"),
        (lambda a: a["fitted_with"].update(kernel_params={"length_scale": -1}), "length_scale"),
        (lambda a: a["fitted_with"].update(kernel="nothing"), "kernel 'nothing'"),
        (lambda a: a["fitted_with"].update(kernel="precomputed"), "known.x.*shape"),
        (lambda a: a["fitted_with"].update(objective=["x"]), "fitted_with.objective"),
        (lambda a: a["parameters"].update(t="x"), "t must be"),
        (lambda a: a["parameters"].update(unheard=1), "fit"),
        (lambda a: [a[n].update(unheard=1) for n in ("parameters", "fitted_with")], "unheard"),
    ],
)
def test_wrong_values_are_refused(
    edit: Callable[[dict[str, Any]], object], message: str | None, saved: Path, fitted: NeuralEigenmap
) -> None:
    change(saved, edit)
    if message is None:
        tensors = {"found.head", "found.eigenvalues", "found.held_out_eigenvalues", "found.residual"}
        with pytest.raises(EigenmapError, match=r"found\."):
            NeuralEigenmap.load(saved)
        change_tensors(saved, lambda t: [t.pop(name) for name in tensors])
        assert NeuralEigenmap.load(saved).transform(NEW).shape == (40, 3)
        return
    with pytest.raises(EigenmapError, match=message) as caught:
        NeuralEigenmap.load(saved)
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.pop("scale"), "scale.*missing"),
        (lambda t: t["scale"].zero_(), "scale.*positive"),
        (lambda t: t["found.head"].fill_(torch.nan), "NaN.*found.head"),
        (lambda t: t.update({"found.head": t["found.head"][1:].clone()}), "found.head.*shape"),
        (lambda t: t.update({"found.residual": t["found.residual"][1:].clone()}), "found.residual.*shape"),
        (lambda t: t.update({"generator": torch.zeros(3, dtype=torch.uint8)}), "generator"),
        (lambda t: t.update({"generator": torch.zeros(5056)}), "generator"),
        (lambda t: t.update({"unheard": torch.zeros(1)}), "unheard"),
        (lambda t: t.update({"trainer.unheard": torch.zeros(1)}), "unheard"),
        (lambda t: t.pop("network.head.weight"), "network.head.weight.*missing"),
        (lambda t: t.pop("optimizer.head.weight.exp_avg"), "head.weight.exp_avg.*shape"),
        (lambda t: t["optimizer.head.weight.exp_avg_sq"].sub_(9), "exp_avg_sq.*negative"),
        (lambda t: t["reservoir.keys"].fill_(torch.nan), "NaN.*reservoir.keys"),
        (lambda t: t["reservoir.weights"].fill_(-1), r"reservoir\.weights.*positive"),
        (lambda t: t.pop("reservoir.points"), "reservoir.points.*shape"),
    ],
)
def test_wrong_tensors_are_refused(edit: Callable[[dict[str, Tensor]], object], message: str, saved: Path) -> None:
    change_tensors(saved, edit)
    with pytest.raises(EigenmapError, match=message) as caught:
        NeuralEigenmap.load(saved)
    assert "model.safetensors" in str(caught.value)
