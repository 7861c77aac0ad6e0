"""The description of a model: sealed, and checked value by value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from eigenmap import Eigenmap, EigenmapError
from eigenmap.description import SEAL, description_text, read_description
from tests.end_to_end.photos import pictures
from tests.test_model import COMPONENTS, SIZE, make_model

IMAGES = pictures(5, SIZE)


@pytest.fixture(scope="module")
def model() -> Eigenmap:
    return make_model()


@pytest.fixture
def saved(model: Eigenmap, tmp_path: Path) -> Path:
    return model.save(tmp_path / "model")


def change(directory: Path, edit: Callable[[dict[str, Any]], object], sealed: bool = False) -> None:
    """Change the description and write it without a seal, as version 0.1.0 did, or with one."""
    path = directory / "model.json"
    about = json.loads(path.read_text())
    about.pop(SEAL, None)
    edit(about)
    path.write_text(description_text(about) if sealed else json.dumps(about))


def digest(directory: Path) -> str:
    return hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()


def test_a_description_without_a_seal_is_read(saved: Path, model: Eigenmap) -> None:
    change(saved, lambda about: None)
    assert SEAL not in json.loads((saved / "model.json").read_text())
    assert np.array_equal(Eigenmap.load(saved).encode(IMAGES), model.encode(IMAGES))


def test_a_description_of_version_0_1_0_with_nan_as_quality_is_read(saved: Path) -> None:
    change(saved, lambda about: about["alignment"].update(quality=float("nan")))
    assert "NaN" in (saved / "model.json").read_text()
    assert np.isnan(Eigenmap.load(saved).alignment.quality)
    change(saved, lambda about: [about["alignment"].pop(name) for name in ("agreement", "noise", "quality")])
    assert Eigenmap.load(saved).alignment.agreement == {}


def test_an_unknown_quality_is_written_as_null(model: Eigenmap, tmp_path: Path) -> None:
    plain = copy(model)
    plain.alignment = replace(model.alignment, quality=float("nan"))
    saved = plain.save(tmp_path / "plain")
    assert json.loads((saved / "model.json").read_text())["alignment"]["quality"] is None
    assert np.isnan(Eigenmap.load(saved).alignment.quality)


def test_what_is_saved_is_sealed_whatever_it_remembers(tmp_path: Path) -> None:
    model = make_model()
    model.training = {"seed": 1, "note": "é \ud800", "numbers": {1: float("nan"), 2.5: [1, 2, (3,)]}, "final": {}}
    saved = model.save(tmp_path / "model")
    assert len(json.loads((saved / "model.json").read_text())[SEAL]) == 64
    assert Eigenmap.load(saved).training["numbers"]["2.5"] == [1, 2, [3]]


def test_spaces_and_the_order_of_names_do_not_break_the_seal(saved: Path) -> None:
    before = Eigenmap.load(saved).eigenvalues_
    about = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(dict(reversed(about.items()))))
    assert np.array_equal(Eigenmap.load(saved).eigenvalues_, before)


def test_another_value_breaks_the_seal(saved: Path) -> None:
    path = saved / "model.json"
    about = json.loads(path.read_text())
    for section, name, value in [
        ("alignment", "t", about["alignment"]["t"] + 1),
        ("input", "size", SIZE + 1),
        ("training", "seed", 7),
        ("encoder", "stem", "small"),
    ]:
        path.write_text(json.dumps(about | {section: about[section] | {name: value}}))
        for read in (Eigenmap.load, Eigenmap.fingerprint, Eigenmap.is_of_nodes):
            with pytest.raises(EigenmapError, match=r"model\.json.*damaged"):
                read(saved)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("alignment", "t", float("nan")),
        ("alignment", "t", float("inf")),
        ("alignment", "t", -1.0),
        ("alignment", "t", "2"),
        ("alignment", "t", None),
        ("alignment", "t", True),
        ("alignment", "t", 10**400),
        ("alignment", "ridge", float("nan")),
        ("alignment", "noise", float("nan")),
        ("alignment", "own_order", 1),
        ("alignment", "recall", {"0": 0.5}),
        ("alignment", "recall", {"1e0": 0.5}),
        ("alignment", "recall", {"1": float("nan")}),
        ("alignment", "recall", {"1": 2}),
        ("alignment", "agreement", {"nan": 0.5}),
        ("alignment", "unknown", 1),
        ("input", "size", 0),
        ("input", "size", 16.0),
        ("input", "channels", 2),
        ("input", "standardisation", {"mean": [float("nan")], "std": [0.25]}),
        ("input", "standardisation", {"mean": [0.5], "std": [0]}),
        ("input", "standardisation", {"mean": [0.5]}),
        ("encoder", "name", 3),
        ("encoder", "stem", "round"),
        ("network", "hidden", -3),
        ("network", "n_components", 1e9),
        ("network", "projector_layers", 1),
        ("training", "steps", "many"),
        ("training", "seconds", float("nan")),
        ("training", "recipe", []),
        ("training", "graph", {"nodes": "x"}),
    ],
    ids=str,
)
def test_an_invalid_value_is_refused(saved: Path, section: str, name: str, value: Any, sealed: bool) -> None:
    change(saved, lambda about: about[section].update({name: value}), sealed)
    with pytest.raises(EigenmapError, match=rf"model\.json.*damaged.*{section}\.{name}"):
        Eigenmap.load(saved)


@pytest.mark.parametrize("name", ["n_components", "hidden", "out_features"])
@pytest.mark.parametrize("value", [1, 10**9])
def test_sizes_that_differ_from_the_tensors_are_refused_before_allocation(saved: Path, name: str, value: int) -> None:
    change(saved, lambda about: about["network"].update({name: value}))
    with pytest.raises(EigenmapError, match=r"damaged.*model\.json.*model\.safetensors"):
        Eigenmap.load(saved)


def test_another_number_of_layers_than_stored_is_refused(saved: Path) -> None:
    change(saved, lambda about: about["network"].update({"projector_layers": 3}))
    with pytest.raises(EigenmapError, match=r"damaged.*projector.*model\.json.*model\.safetensors"):
        Eigenmap.load(saved)


def test_the_wrong_source_is_refused(saved: Path) -> None:
    change(saved, lambda about: about.update(source="encoder"))
    with pytest.raises(EigenmapError, match=r"alignment\.rotation.*\(256, 6\).*\(6, 6\)"):
        Eigenmap.load(saved)


def test_a_stored_encoder_that_does_not_fit_is_not_called_the_users(saved: Path) -> None:
    change(saved, lambda about: about["encoder"].update(name="resnet18"))
    with pytest.raises(EigenmapError, match=r"encoder.*model\.json"):
        Eigenmap.load(saved)
    change(saved, lambda about: about["encoder"].update(name="no-such-network"))
    with pytest.raises(EigenmapError, match="encoder 'no-such-network'"):
        Eigenmap.load(saved)


def test_lengths_beyond_the_code_are_refused(saved: Path) -> None:
    change(saved, lambda about: about["alignment"]["recall"].update({str(COMPONENTS + 1): 1.0}))
    with pytest.raises(EigenmapError, match=r"alignment\.recall.*6"):
        Eigenmap.load(saved)


@pytest.mark.parametrize("name", ["alignment.eigenvalues", "network.projector.layers.3.bias"])
def test_weights_that_are_not_finite_are_refused(saved: Path, name: str) -> None:
    tensors = load_file(saved / "model.safetensors")
    tensors[name] = torch.full_like(tensors[name], float("nan"))
    save_file(tensors, saved / "model.safetensors")
    change(saved, lambda about: about.update(weights_sha256=digest(saved)), sealed=True)
    with pytest.raises(EigenmapError, match=rf"model\.safetensors.*NaN.*{name}"):
        Eigenmap.load(saved)


def test_weights_that_are_not_safetensors_are_refused_despite_a_right_digest(saved: Path) -> None:
    (saved / "model.safetensors").write_bytes(b"\xff" * 100)
    change(saved, lambda about: about.update(weights_sha256=digest(saved)), sealed=True)
    with pytest.raises(EigenmapError, match=r"model\.safetensors.*damaged"):
        Eigenmap.load(saved)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 900 + "]" * 900])
def test_deeply_nested_descriptions_are_refused(saved: Path, text: str) -> None:
    (saved / "model.json").write_text(text)
    with pytest.raises(EigenmapError, match=r"model\.json"):
        read_description(saved)
