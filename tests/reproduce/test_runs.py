from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.probe import fit_ridge
from eigenmap.networks import build_encoder, load_encoder_weights
from eigenmap.reproduce import load_sets, recipe_of
from eigenmap.reproduce.runs import ENCODER, PROBE, Runs, probe_outputs
from eigenmap.training import CollapseError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(load_sets("tiny", None), device="cpu", folder=tmp_path_factory.mktemp("runs"))


def test_equal_settings_are_trained_once(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_of("scl", "tiny").but(epochs=1)
    found = runs.probe(recipe)
    assert found["linear"] is not None and found["linear"] > 0.5 and found["collapsed"] is None
    monkeypatch.setattr("eigenmap.reproduce.runs.pipeline.train", None)  # nothing is trained from here on
    again = Runs(runs.sets, device="cpu", folder=runs.folder)
    assert again.probe(recipe.named("another name")) == found
    encoder = again.encoder(recipe)
    (folder,) = (runs.folder or Path()).glob("probe-*")
    other = build_encoder("small-cnn", 3, 16)
    load_encoder_weights(other, folder / ENCODER)
    assert all(torch.equal(a, b) for a, b in zip(encoder.parameters(), other.parameters(), strict=True))
    names = {runs.name(recipe), runs.name(recipe.but(lr=0.1)), runs.name(recipe, "linear")}
    assert len(names) == 3 and len({Runs(runs.sets, seed=seed).name(recipe) for seed in (0, 1)}) == 2
    (folder / PROBE).write_text("{}")
    with pytest.raises(EigenmapError, match=r"probe.json is damaged"):
        Runs(runs.sets, device="cpu", folder=runs.folder).probe(recipe)


def test_a_model_is_kept(runs: Runs) -> None:
    recipe, said = recipe_of("scl", "tiny").but(epochs=1), []
    model = runs.model(recipe)
    again = Runs(runs.sets, device="cpu", folder=runs.folder, say=said.append).model(recipe)
    assert said and "already" in said[0]
    codes = [each.encode(runs.sets.test.pixels) for each in (model, again)]
    torch.testing.assert_close(torch.from_numpy(codes[0]), torch.from_numpy(codes[1]))


def test_a_collapse_is_a_result(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(*words: object) -> None:
        raise CollapseError("the features are one")

    monkeypatch.setattr("eigenmap.reproduce.runs.pipeline.train", fall)
    recipe = recipe_of("ordered", "tiny")
    fallen = Runs(runs.sets, device="cpu", folder=tmp_path)
    assert fallen.probe(recipe)["collapsed"] == "the features are one" and fallen.probe(recipe)["linear"] is None
    (file,) = tmp_path.glob("*/probe.json")
    assert json.loads(file.read_text())["collapsed"]
    with pytest.raises(EigenmapError, match=r"neuralef cannot be transferred"):
        fallen.encoder(recipe)


def test_accuracies_are_those_of_the_probes() -> None:
    sets = load_sets("tiny", None)
    y, y_test = sets.classes()
    generator = torch.Generator().manual_seed(0)
    train, test = (torch.eye(4)[each] + torch.randn(len(each), 4, generator=generator) for each in (y, y_test))
    found = probe_outputs(train, test, sets, torch.arange(12))
    assert found["linear"] == pytest.approx(fit_ridge(train, y).accuracy(test, y_test))
    distances = torch.nn.functional.normalize(train[:12], dim=1) @ torch.nn.functional.normalize(train[12:], dim=1).T
    votes = torch.zeros(12, 4)
    for row in range(12):  # 200 neighbours: all 108 others
        for column in range(108):
            votes[row, y[12 + column]] += torch.exp(distances[row, column] / 0.1)
    assert found["knn_held_out"] == pytest.approx(float((votes.argmax(1) == y[:12]).double().mean()))


def test_a_run_leaves_the_number_of_threads_to_the_next(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that was busy for a moment, all later runs would be slow."""
    before = torch.get_num_threads()

    def slow(*words: object) -> None:
        torch.set_num_threads(before + 1)
        raise CollapseError("the features are one")

    monkeypatch.setattr("eigenmap.reproduce.runs.pipeline.train", slow)
    try:
        assert Runs(runs.sets, device="cpu").probe(recipe_of("ordered", "tiny"))["collapsed"]
        assert torch.get_num_threads() == before
    finally:
        torch.set_num_threads(before)
