"""The figures of a run show the numbers of the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from eigenmap import EigenmapError
from eigenmap.data import ImageSet
from eigenmap.evaluation.baselines import compare, compare_random, split_queries
from eigenmap.figures.excitation import excited_by, make_exciting
from eigenmap.figures.study import Study, TrainedRun, draw_figures, figure_data, read_run, runs_lengths, runs_spectrum


@pytest.fixture(scope="module")
def run(run_dir: Path) -> TrainedRun:
    return read_run(run_dir)


def test_a_run_alone_gives_three_figures(run: TrainedRun) -> None:
    figures = draw_figures(Study(run))
    assert list(figures) == ["spectrum", "lengths", "training"]
    (spectrum,) = figures["spectrum"].axes[0].get_lines()
    assert list(spectrum.get_ydata()) == run.model.eigenvalues_.tolist()
    (recall,) = figures["lengths"].axes[0].get_lines()
    assert dict(zip(recall.get_xdata(), recall.get_ydata(), strict=True)) == run.model.alignment.recall
    loss = figures["training"].axes[0].get_lines()[0]
    written = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert list(loss.get_ydata()) == [record["loss"] for record in written]
    assert list(draw_figures(Study(run), ["lengths"])) == ["lengths"]


def test_retrieval_shows_each_code_at_its_lengths(run: TrainedRun, garments: ImageSet) -> None:
    parts = split_queries(garments)
    comparison = compare(run.model, *parts, top=[10]) | {"random": compare_random(run.model, *parts, top=[10], draws=3)}
    study = Study(run, comparison=comparison)
    figure = draw_figures(study, ["retrieval"])["retrieval"]
    quality, precision = figure.axes
    assert (quality.get_ylabel(), precision.get_ylabel()) == (
        "mAP, over found in the top 10",
        "precision of the top 10",
    )
    lines = {line.get_label(): line for line in precision.get_lines()}
    ours = lines["ordered code (ours)"]
    assert dict(zip(ours.get_xdata(), ours.get_ydata(), strict=True)) == {
        row["dim"]: row["precision@10"] for row in comparison["ours"]
    }
    (band,) = precision.collections
    first = comparison["random"][0]
    top = first["precision@10"] + first["precision@10_spread"]
    assert np.isclose(band.get_paths()[0].vertices, [2, top]).all(1).any()
    assert lines["raw pixels"].get_ydata()[0] == comparison["pixels"][0]["precision@10"]
    assert json.loads(json.dumps(figure_data(study)))["retrieval"] == comparison


def test_numbers_name_the_items_that_are_shown(run: TrainedRun, garments: ImageSet) -> None:
    study = Study(run, exciting=excited_by(run.model, garments, 2, 3), made=make_exciting(run.model, 2, steps=2))
    assert list(draw_figures(study))[-2:] == ["exciting", "optimised"]
    held = figure_data(study)
    values = run.model.encode(garments.pixels, weighting="none", normalize=False)
    assert held["exciting"][1]["largest"] == [garments.ids[row] for row in np.argsort(-values[:, 1])[:3]]
    assert held["optimised"][0]["largest"] == study.made[0].values[0]


def test_several_runs_share_a_figure(run: TrainedRun) -> None:
    runs = [run, TrainedRun(run.model, run.history, run.folder, "second")]
    assert [text.get_text() for text in runs_spectrum(runs).legends[0].get_texts()] == ["run", "second"]
    lengths = runs_lengths(runs)
    assert lengths is not None and len({line.get_color() for line in lengths.axes[0].get_lines()}) == 2


def test_a_run_without_metrics_and_one_that_has_not_ended(run_dir: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(run_dir, tmp_path / "moved")
    (moved / "metrics.jsonl").unlink()
    assert "training" not in draw_figures(Study(read_run(moved)))
    unfinished = shutil.copytree(run_dir, tmp_path / "unfinished")
    (unfinished / "model.json").unlink()
    with pytest.raises(EigenmapError, match="training"):
        read_run(unfinished)
    with pytest.raises(EigenmapError, match="model directory"):
        read_run(tmp_path / "nowhere")
