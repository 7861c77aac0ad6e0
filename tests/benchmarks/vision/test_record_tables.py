"""Sections on large batches and on long runs: choices by held-out figures, goals met or missed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.vision import plan
from benchmarks.vision.jobs import METHODS, Job
from benchmarks.vision.record_tables import large_batches, records


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder of results; the rates of the default are settled."""
    monkeypatch.setattr(plan, "RESULTS", tmp_path)
    monkeypatch.setattr(plan.Finished, "rate", lambda self, method: 0.75)
    monkeypatch.setattr(plan.Finished, "rate_at", lambda self, method, batch: 0.375)
    return tmp_path


def store(folder: Path, job: Job, **figures: float | str) -> None:
    about = {"device": "a card", "torch": "2", "commit": "abc", "date": "2026-01-01", "job": vars(job)}
    (folder / f"{job.name}.json").write_text(json.dumps(about | figures))


def read(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def cells(text: str, label: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def at(linear: float, held_out: float) -> dict[str, float]:
    return {"knn_held_out": held_out, "knn_test": 0.4, "linear_ridge_test": linear}


def test_a_remedys_rate_is_the_best_on_held_out_images_not_on_the_test(results: Path) -> None:
    store(results, plan.brief("scl", 0.75), **at(0.71, 0.67))
    store(results, plan.brief("scl", 0.375, batch_size=2048), **at(0.60, 0.55))
    first, second, _ = plan.REMEDIES["scl-warm"]
    store(results, plan.brief("scl-warm", first, batch_size=2048), **at(0.66, 0.50))
    store(results, plan.brief("scl-warm", second, batch_size=2048), **at(0.64, 0.60))
    text = "\n\n".join(large_batches(read(results), plan.Finished()))
    assert cells(text, METHODS["scl-warm"].words) == [f"{second:g}, best of 2", "0.600", "0.400", "0.640"]
    assert "**Missed**: the best on held-out images (SGD, four tenths of the steps as warm-up) loses 0.070." in text
    assert f"Not run: {METHODS['scl-relative'].words}" in text


def test_a_small_loss_at_the_large_batch_meets_the_goal(results: Path) -> None:
    store(results, plan.brief("scl", 0.75), **at(0.71, 0.67))
    store(results, plan.brief("scl-lamb", 0.005, batch_size=2048), **at(0.695, 0.6))
    store(results, plan.brief("scl-relative", 0.75, batch_size=2048), **at(0.72, 0.5))  # better, but on test images
    store(results, plan.brief("scl-average", 0.375, batch_size=2048), collapsed="features are constant")
    text = "\n\n".join(large_batches(read(results), plan.Finished()))
    assert "Met: the best on held-out images (LAMB) loses 0.015." in text
    assert cells(text, METHODS["scl-average"].words)[1:] == ["collapsed"] * 3


def test_records_are_of_the_candidate_that_is_best_on_held_out_images(results: Path) -> None:
    tried = list(plan.records(plan.Finished()))
    for place, job in enumerate(tried):
        store(results, job, knn_code_held_out=0.9 if place == 1 else 0.8, knn_code_test=0.95 - place / 100)
    for accuracy in (0.886, 0.909):
        *_, record = plan.records(plan.Finished())
        assert record.method == plan.CANDIDATES[1]
        store(results, record, knn_code_test=accuracy)
    text = "\n\n".join(records(read(results), plan.Finished()))
    assert cells(text, METHODS[plan.CANDIDATES[0]].words)[:2] == ["0.800", "0.950"]
    said = [line for line in text.splitlines() if line.startswith("- ")]
    assert [line.rsplit(": ", 1)[1] for line in said] == ["met (0.886).", "**missed** (0.909).", "not run."]


@pytest.mark.parametrize(("few", "better"), [(0.55, True), (0.65, False)])
def test_what_the_large_batch_loses_is_compared_with_as_few_steps(results: Path, few: float, better: bool) -> None:
    store(results, plan.brief("scl", 0.75), **at(0.71, 0.67))
    store(results, plan.brief("scl-lamb", 0.005, batch_size=2048), **at(0.60, 0.6))
    for job in plan.few_steps(plan.Finished()):
        store(results, job, **at(few, 0.5))
    text = "\n\n".join(large_batches(read(results), plan.Finished()))
    assert "It takes 210 steps." in text and f"{few:.3f} after 174, {few:.3f} after 261." in text
    assert ("better step by step" in text) is better


def test_a_goal_may_be_met_by_a_shorter_record(results: Path) -> None:
    for job in plan.records(plan.Finished()):
        store(results, job, knn_code_held_out=0.8)
    for epochs, code, linear in ((200, 0.92, 0.91), (800, 0.95, 0.94)):
        *_, record = plan.records(plan.Finished())
        assert record.epochs == epochs
        store(results, record, knn_code_test=code, linear_sgd_test=linear)
    assert [job.epochs for job in plan.records(plan.Finished()) if job.part == "records"] == [200, 800]
    text = "\n\n".join(records(read(results), plan.Finished()))
    said = [line.rsplit(": ", 1)[1] for line in text.splitlines() if line.startswith("- ")]
    assert said == ["met (0.920).", "met (0.920 after 200).", "met (0.940 after 800)."]
