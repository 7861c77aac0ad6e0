from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap import Eigenmap
from eigenmap.figures.pairs import pair_scores, pairs_figure, pairs_section
from eigenmap.figures.run_page import run_page
from eigenmap.figures.study import Study, TrainedRun, draw_figures
from tests.formats.models import vector_model

SCORES = {"ours": {"2": 0.25, "7": 0.75}, "pca": {"2": 0.125, "7": 0.5}, "prefix": {"2": 0.0625, "12": 0.5}}


@pytest.fixture
def model() -> Eigenmap:
    made = vector_model(True)
    made.training = {
        "vectors": {"scores": SCORES, "pairs": 1234, "winner": "pairs", "keeps": {"share": 0.95, "dim": 7}},
        "recipe": {"objective": "matryoshka-info-nce", "solver": "linear"},
    }
    return made


def test_the_figure_has_a_curve_per_method(model: Eigenmap) -> None:
    figure = pairs_figure(model)
    assert figure is not None
    drawn = [(*line.get_xdata(), *line.get_ydata()) for line in figure.axes[0].get_lines()]
    assert sorted(drawn) == [(2, 7, 0.125, 0.5), (2, 7, 0.25, 0.75), (2, 12, 0.0625, 0.5)]


def test_the_report_of_a_linear_model(model: Eigenmap) -> None:
    study = Study(TrainedRun(model, [], Path("runs/text")))
    text = run_page(study, draw_figures(study)).html()
    assert "Held-out pairs" in text
    assert "<b>1,234</b><span>training pairs" in text and "<b>7</b><span>features keep 95%" in text
    assert "0.750" in text and "PCA of the vectors" in text and "closed form" in text
    assert "VECTORS.npy" in text and "--out vectors.index" in text and "with the objective" not in text


@pytest.mark.parametrize("told", [None, {}, {"scores": 7}, {"scores": {"ours": {"x": 1}}}, {"scores": {"ours": {}}}])
def test_a_model_that_has_measured_nothing(model: Eigenmap, told: object) -> None:
    model.training = {"vectors": told}
    assert pair_scores(model) == {} and pairs_figure(model) is None and pairs_section(model, {}) is None


def test_a_time_series_has_another_score(model: Eigenmap) -> None:
    model.training["vectors"]["metric"] = "vamp-2"
    study = Study(TrainedRun(model, [], Path("runs/slow")))
    text = run_page(study, draw_figures(study)).html()
    assert "VAMP-2 by number of features" in text and "slow dynamics" in text
    assert "nDCG" not in text and "artners of held-out" not in text
