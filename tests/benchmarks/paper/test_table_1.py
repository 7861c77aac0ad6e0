"""Table 1 at small scale: its runs end to end on generated images, its jobs, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.plan import Place, Stored
from benchmarks.paper import page, study, table_1, verdicts
from benchmarks.vision import RESULTS as VISION
from eigenmap.objectives import build
from eigenmap.recipes import Recipe
from eigenmap.reproduce import recipe_of
from eigenmap.reproduce.table_6 import RIVALS
from eigenmap.reproduce.table_6 import TITLES as CODES


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten shades with noise, as cifar10.npz."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 10
    x = np.clip(25 * y[:, None, None, None] + rng.integers(0, 20, (120, 32, 32, 3)), 0, 255).astype(np.uint8)
    folder = tmp_path_factory.mktemp("data")
    np.savez(folder / "cifar10.npz", train_x=x[:100], train_y=y[:100], test_x=x[100:], test_y=y[100:])
    return folder


@pytest.mark.parametrize("method", table_1.METHODS)
def test_every_method_trains_and_is_measured(method: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = table_1.Job.recipe

    def small(job: table_1.Job) -> Recipe:
        return recipe(job).but(encoder="small-cnn", batch_size=32, n_components=16, hidden=16, precision="32-true")

    monkeypatch.setattr(table_1.Job, "recipe", small)
    result = table_1.run(table_1.Job(method, seed=1, epochs=2), data, compiled=False)
    assert result["recipe"]["objective"] == method and result["job"]["seed"] == 1
    assert 0 <= result["linear_ridge_test"] <= 1 and 0 <= result["knn_test"] <= 1
    assert result["history"] and json.dumps(result)


def test_settings_are_those_of_the_vision_study_but_for_the_method() -> None:
    (shared,) = table_1.SHARED["barlow-twins"]
    for method in table_1.METHODS:
        one, other = table_1.Job(method).recipe(), shared.recipe()
        for setting in ("encoder", "stem", "image_size", "views", "epochs", "batch_size", "weight_decay", "warmup"):
            assert getattr(one, setting) == getattr(other, setting), setting
        assert one.hidden == 2048 and one.optimizer == "sgd"


@pytest.mark.parametrize("method", [*table_1.METHODS, "scl", "simclr", "barlow-twins"])
def test_the_command_reproduces_these_runs(method: str) -> None:
    """`eigenmap reproduce table-1 --scale small` has the settings of the study."""
    here = table_1.Job(method).recipe() if method in table_1.METHODS else table_1.SHARED[method][0].recipe()
    there = recipe_of(method, "small")
    for setting in ("encoder", "stem", "views", "epochs", "batch_size", "optimizer", "lr", "weight_decay", "clip_norm"):
        assert getattr(here, setting) == getattr(there, setting), setting
    assert (here.n_components, here.hidden or here.n_components) == (there.n_components, there.hidden)
    options = [vars(build(each.objective, **each.objective_options)) for each in (here, there)]
    plain = [{name: value for name, value in each.items() if isinstance(value, int | float | str)} for each in options]
    assert plain[0] == plain[1]


def test_one_seed_of_every_method_comes_first(tmp_path: Path) -> None:
    jobs = list(study.jobs(Place(tmp_path, tmp_path)))
    assert [job.name for job in jobs[:4]] == [table_1.Job(method).name for method in table_1.METHODS]
    assert {job.module for job in jobs if not job.gpu} == {"paper.gaussian"}


def test_the_page_has_means_of_stored_runs_and_says_what_is_missing(tmp_path: Path) -> None:
    for seed, linear in enumerate((0.5, 0.6)):
        result = {"linear_ridge_test": linear, "knn_test": 0.25, "history": [{"effective_rank": 3.0}]}
        (tmp_path / f"{table_1.Job('byol', seed).name}.json").write_text(json.dumps(result))
    text = page.page(tmp_path)
    assert "| BYOL | 66.5 | 55.0 ± 7.1 | 25.0 ± 0.0 | 2 |" in text
    assert "| MoCo v2 | 67.4 | not run | not run |  |" in text
    assert "BYOL (seed 2)" in text and "MoCo v2 (seed 0, 1, 2)" in text


def test_shared_runs_are_those_of_the_vision_study() -> None:
    stored = Stored(VISION)
    found = {method: len(page.results_of(method, stored)) for method in table_1.SHARED}
    assert found == {"simclr": 3, "scl": 3, "barlow-twins": 1, "paper": 3, "paper-unordered": 1}


def test_the_verdict_follows_the_figures(tmp_path: Path) -> None:
    for method, linear in (("byol", 0.1), ("swav", 0.9), ("moco", 0.7185)):
        result = {"linear_ridge_test": linear, "knn_test": 0}
        (tmp_path / f"{table_1.Job(method, 0).name}.json").write_text(json.dumps(result))
    text = verdicts.section(Stored(VISION, tmp_path))
    ordered = next(line for line in text.splitlines() if line.startswith("- The ordered form"))
    behind, level, ahead = ordered.split("; ")
    assert ahead == "ahead of BYOL." and level == "level with MoCo v2" and "SwAV" in behind and "SCL" in behind
    default = next(line for line in text.splitlines() if line.startswith("- Our default"))
    assert "behind SwAV" in default and default.count("SCL") == 1  # not compared with its own network
    accuracies = {"GCN": 0.5, CODES["default"]: 0.6, CODES["ordered"]: 0.3, CODES["unordered"]: None}
    rows = [
        {"method": name, "share": share, "accuracy": accuracies.get(name, 0.25)}
        for name in (*RIVALS.values(), *CODES.values())
        for share in (1.0, 0.1, 0.01)
    ]
    (tmp_path / "table-6-planetoid_cora-s0.json").write_text(json.dumps({"rows": rows}))
    for method, AP in (("random", 0.1), ("unordered", 0.3), ("scl", 0.05)):
        (tmp_path / f"table-5-tiny-{method}-s0.json").write_text(json.dumps({"box": {"AP": AP}}))
    text = verdicts.section(Stored(VISION, tmp_path))
    assert "| Cora, 100% | GCN 50.0 | -20.0 (4 of 5) | collapsed | +10.0 (5 of 5) |" in text
    assert "- the paper's, unordered: ahead of random weights." in text
    assert "- SCL, our default: behind random weights." in text


def test_gaps_of_the_sweeps_name_what_is_not_known() -> None:
    cells = {"unordered": "57.2", "scl": "76.0", "barlow-twins": "69.9 (0.0051)", "simsiam": "not run"}
    assert [verdicts._gap(cells, rival) for rival in ("scl", "barlow-twins", "simsiam")] == [
        "-18.8",
        "-12.7",
        "not run",
    ]
    assert verdicts._gap(cells, "byol") == "–"
    assert verdicts._gap(cells | {"unordered": "collapsed"}, "scl") == "collapsed"
