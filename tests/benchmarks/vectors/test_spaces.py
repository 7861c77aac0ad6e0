"""Known truths of the synthetic pairs, without the rival packages."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.vectors import RESULTS, cost, searched, spaces, translated, variants
from benchmarks.vectors.found import Found
from eigenmap.recipes.vectors import LARGE, NEURAL
from tests.linear.planted import canonical_correlations

from .data import pairs, write


def test_gaussian_pairs_have_the_correlations_that_were_chosen() -> None:
    found = canonical_correlations(*spaces.gaussian_pairs(0, 40_000))
    np.testing.assert_allclose(found[: len(spaces.RHO)], spaces.RHO, atol=0.02)


def test_functions_of_the_circle_are_recognised_whatever_their_rotation() -> None:
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 5000)
    wave = np.stack([np.cos(2 * angle + 0.7), 3 * np.sin(2 * angle + 0.7)], 1)
    assert spaces._shared(wave, angle, 2) == pytest.approx(1, abs=1e-3)
    assert spaces._shared(wave, angle, 1) == pytest.approx(0, abs=1e-2)


def test_values_on_the_circle_are_near_the_true_ones() -> None:
    found = spaces.circle("linear", 0, pairs=8000, new=4000)
    np.testing.assert_allclose(found["true"], np.exp(-np.array([1, 4, 9]) / 8))
    assert found["values"][0] == pytest.approx(found["true"][0], rel=0.05) and found["alignment"][0] > 0.95


def test_the_sum_of_correlations_of_equal_codes_is_their_number() -> None:
    both = pairs(400)
    test = type(both)(both.left, both.left)
    assert translated.correlation(lambda rows, side, length: rows[:, :length], test, 5) == pytest.approx(5)


def test_a_linear_fit_from_files_is_timed_beside_its_products(tmp_path: Path) -> None:
    found = cost.linear(tmp_path, 3000, 16, "float16")
    assert found["rows"] == 3000 and found["seconds"] > 0 and found["share_of_products"] > 0
    x, y = (np.load(tmp_path / f"{side}.npy") for side in "xy")
    correlation = np.corrcoef(x[:, 0].astype(float), y[:, 0].astype(float))[0, 1]
    assert x.dtype == np.float16 and correlation == pytest.approx(1 / (1 + 0.7**2), abs=0.05)


def test_a_file_is_fitted_from_disk_beside_its_limits(tmp_path: Path) -> None:
    found = cost.disk(tmp_path, 20_001, 16)
    assert (found["rows"], found["pairs"], found["file_bytes"]) == (20_001, 10_000, 20_001 * 32 + 128)
    assert found["share_of_disk"] > 0 and found["peak_memory_mb"] > found["memory_before_mb"] > 0
    x = np.load(tmp_path / "x.npy").astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=2e-3)
    assert (x[:-1:2] * x[1::2]).sum(1).mean() > 0.5


def test_variants_are_judged_on_held_out_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"default": {"steps": 5, "width": 8}, "two maps": {"steps": 5, "width": 8, "two_spaces": True}}
    monkeypatch.setattr(variants, "VARIANTS", settings)
    monkeypatch.setattr(variants, "ProcessPoolExecutor", AtOnce)
    file = tmp_path / "one.json"
    words = ["--data", str(write(tmp_path / "sets")), "--json", str(file), "--sets", "small", "--test", "100"]
    variants.main(words)
    found = json.loads(file.read_text())["rows"]
    assert [row["method"] for row in found] == ["default", "two maps"]
    for row in found:
        one = row["sets"]["small"]
        assert 0 < one["scores"]["8"]["ndcg@10"] < 1 and isinstance(one["kept"], bool) and row["quality"] > 0
    assert variants.best(found) == max(found, key=lambda row: row["quality"])["settings"]
    page = "\n\n".join(searched.words(Found(_as_variants(tmp_path, file))))
    assert page.index("| two maps") > 0 and "small, 16" in page
    assert variants.best([]) == {}


def _as_variants(tmp_path: Path, file: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "variants.json").write_bytes(file.read_bytes())
    return folder


class AtOnce:
    """Stands in for a pool of processes: work is done when it is submitted."""

    def __init__(self, *about: object) -> None:
        pass

    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *about: object) -> None:
        pass

    def submit(self, work: Callable[..., object], *given: object) -> Future[object]:
        done: Future[object] = Future()
        done.set_result(work(*given))
        return done


def test_the_large_recipe_has_the_settings_of_the_best_variant() -> None:
    rows = json.loads((RESULTS / "variants.json").read_text())["rows"]
    assert replace(NEURAL.but(**variants.best(rows)), name=LARGE.name) == LARGE
