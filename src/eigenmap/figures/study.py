"""All data about a run and all figures that can be drawn from it.

run = read_run(Path("runs/mine"))
figures = draw_figures(Study(run, exciting=excited_by(run.model, images)))
save(figures["exciting"], Path("figures/exciting"))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.retrieval import ScoreRow
from eigenmap.figures.curves import Curve, Panel, length_curves
from eigenmap.figures.excitation import ExcitedFeature, MadeFeature, exciting_figure, made_figure
from eigenmap.figures.gallery import Answers, answer_grid
from eigenmap.figures.names import FIGURES
from eigenmap.figures.pairs import pairs_figure
from eigenmap.figures.scores import Scores, default_metrics, panels, words_for
from eigenmap.figures.spectrum import spectrum_figure
from eigenmap.figures.style import numbered_key
from eigenmap.figures.training import training_figure
from eigenmap.model import DESCRIPTION, Eigenmap
from eigenmap.training.metrics import Record, read
from eigenmap.training.run import METRICS_FILE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BASELINES = {
    "ours": "ordered code (ours)",
    "random": "projector, random order",
    "encoder-pca": "PCA of the encoder",
    "pixel-pca": "PCA of pixels",
    "pixels": "raw pixels",
}
"""Labels of the codes of `evaluation.baselines`."""


@dataclass(frozen=True)
class TrainedRun:
    """Output of `eigenmap fit`: model, metrics and folder; `name` is used in legends."""

    model: Eigenmap
    history: Sequence[Record]
    folder: Path
    name: str = "run"
    title: str = ""


@dataclass(frozen=True)
class Study:
    """Data for figures and the report; anything not measured is empty."""

    run: TrainedRun | None
    comparison: Mapping[str, Sequence[ScoreRow]] = field(default_factory=dict)
    answers: Sequence[Answers] = ()
    exciting: Sequence[ExcitedFeature] = ()
    made: Sequence[MadeFeature] = ()
    scores: Sequence[Scores] = ()
    metrics: Sequence[str] = ()
    """Metrics to draw; empty means mAP and precision, or accuracy."""
    protocol: str = ""


def read_run(folder: Path) -> TrainedRun:
    """Read a run; without metrics its history is empty."""
    metrics = folder / METRICS_FILE
    if metrics.is_file() and not (folder / DESCRIPTION).is_file():
        raise EigenmapError(
            f"{folder} has metrics but no model, since its training has not finished; use `eigenmap fit ... --resume`."
        )
    model = Eigenmap.load(folder)
    return TrainedRun(model, read(metrics) if metrics.is_file() else [], folder)


def draw_figures(study: Study, wanted: Collection[str] = FIGURES) -> dict[str, Figure]:
    """Draw the wanted figures for which data exist; return them by their names in `FIGURES`."""
    drawn = {name: _DRAWERS[name](study) for name in FIGURES if name in wanted}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def figure_data(study: Study) -> dict[str, Any]:
    """Return the measurements behind the figures, for JSON."""
    return {
        "run": None if study.run is None else str(study.run.folder),
        "protocol": study.protocol,
        "retrieval": study.comparison,
        "exciting": [
            {
                "feature": feature.number,
                "eigenvalue": feature.eigenvalue,
                "largest": [hit.label for hit in feature.most],
                "smallest": [hit.label for hit in feature.least],
            }
            for feature in study.exciting
        ],
        "optimised": [
            {"feature": made.number, "largest": made.values[0], "smallest": made.values[1]} for made in study.made
        ],
    }


def runs_spectrum(runs: Sequence[TrainedRun]) -> Figure:
    """Draw the spectra of several runs in one figure."""
    return spectrum_figure(
        {run.name: run.model.eigenvalues_ for run in runs}, noise=max(run.model.alignment.noise for run in runs)
    )


def runs_lengths(runs: Sequence[TrainedRun]) -> Figure | None:
    """Draw recall of the full-length neighbours by length; None if no run has measured it."""
    known = [run for run in runs if run.model.alignment.recall]
    if not known:
        return None
    curves = [
        Curve(numbered_key(number), run.name if len(known) > 1 else "", run.model.alignment.recall)
        for number, run in enumerate(known)
    ]
    return length_curves([Panel("", "recall@10 of full length", curves)])


def runs_training(runs: Sequence[TrainedRun]) -> Figure | None:
    """Draw loss and health of several runs; None if no run has metrics."""
    known = {run.name: run.history for run in runs if run.history}
    return training_figure(known) if known else None


def comparison_panels(comparison: Mapping[str, Sequence[ScoreRow]]) -> list[Panel]:
    """Return mAP and precision of the ordered code and its baselines, each at the largest cut-off scored."""
    return [
        Panel(
            "",
            words_for(metric),
            [
                Curve(
                    key,
                    BASELINES[key],
                    {int(row["dim"]): row[metric] for row in comparison[key]},
                    {int(row["dim"]): row[s] for row in comparison[key] if (s := f"{metric}_spread") in row},
                )
                for key in BASELINES
                if key in comparison
            ],
        )
        for metric in comparison_metrics(comparison)
    ]


def comparison_metrics(comparison: Mapping[str, Sequence[ScoreRow]]) -> list[str]:
    """Return the metrics of a comparison that are shown in figures and tables."""
    return default_metrics([Scores("ours", comparison["ours"], Path())])


def _retrieval(study: Study) -> Figure | None:
    if not study.comparison:
        return None
    longest = max(int(row["dim"]) for row in study.comparison["ours"])
    return length_curves(comparison_panels(study.comparison), longest=2 * longest)


def _scores(study: Study) -> Figure | None:
    if not study.scores:
        return None
    metrics = study.metrics or default_metrics(study.scores)
    return length_curves([panel for metric in metrics for panel in panels(study.scores, metric)])


_DRAWERS: dict[str, Callable[[Study], Figure | None]] = {
    "spectrum": lambda study: runs_spectrum([study.run]) if study.run else None,
    "lengths": lambda study: runs_lengths([study.run]) if study.run else None,
    "pairs": lambda study: pairs_figure(study.run.model) if study.run else None,
    "training": lambda study: runs_training([study.run]) if study.run else None,
    "exciting": lambda study: exciting_figure(study.exciting) if study.exciting else None,
    "queries": lambda study: answer_grid(study.answers) if study.answers else None,
    "retrieval": _retrieval,
    "scores": _scores,
    "optimised": lambda study: made_figure(study.made) if study.made else None,
}
