"""Output of the demo: figures, report.html and demo.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_path
from eigenmap.demo.methods import METRIC_NAMES, NAMES, Method, where_pixels_are_level
from eigenmap.figures import report
from eigenmap.figures.curves import Curve, retrieval_curves
from eigenmap.figures.excitation import exciting_figure
from eigenmap.figures.gallery import answer_grid
from eigenmap.figures.report import Html, Page, Section
from eigenmap.figures.run_page import (
    configuration_section,
    features_section,
    spectrum_section,
    suggestions,
    training_section,
    usage_section,
)
from eigenmap.figures.study import TrainedRun, runs_lengths, runs_spectrum, runs_training
from eigenmap.figures.style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eigenmap.demo.study import Demo, Scene

MAIN, STRICT = "map_over_found@1000", "map_over_found@100"
LENGTHS = (2, 4, 8, 16, 32, 64, 128)
"""Lengths shown in the tables, before the full length of each method."""
LONGEST_DRAWN = 256

_TITLES = {"clean": "The catalogue as it is", "posed": "The catalogue posed"}


def write_all(demo: Demo, out: Path) -> None:
    """Write the figures (SVG and PNG), demo.json and, last, the report."""
    figures = draw_demo(demo, out)
    for name, figure in figures.items():
        save(figure, out / "figures" / name)
    try:
        with atomic_path(out / "demo.json") as partial:
            partial.write_text(json.dumps(demo_as_json(demo), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise EigenmapError(f"{out / 'demo.json'} cannot be written: {error.strerror}.") from error
    report.write(page(demo, figures, out), out / "report.html")


def runs_of(demo: Demo, out: Path) -> list[TrainedRun]:
    """Return the two runs in the form required by run reports."""
    return [
        TrainedRun(scene.model, scene.history, out / name, name, _TITLES[name]) for name, scene in demo.scenes.items()
    ]


def draw_demo(demo: Demo, out: Path) -> dict[str, Figure]:
    """Return all figures by file name."""
    scenes, runs = demo.scenes, runs_of(demo, out)
    drawn = {
        "retrieval": retrieval_curves(_curves(scenes, MAIN), "mAP, found in the top 1,000", LONGEST_DRAWN),
        "retrieval-top100": retrieval_curves(_curves(scenes, STRICT), "mAP, found in the top 100", LONGEST_DRAWN),
        "spectrum": runs_spectrum(runs),
        "lengths": runs_lengths(runs),
        "training": runs_training(runs),
        "exciting": exciting_figure(scenes["clean"].exciting),
        **{f"gallery-{name}": answer_grid(scene.answers) for name, scene in scenes.items()},
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def demo_as_json(demo: Demo) -> dict[str, Any]:
    """Return all measurements in JSON form."""
    return {
        "seed": demo.seed,
        "steps": demo.steps,
        "seconds": {name: round(value, 1) for name, value in demo.seconds.items()},
        "environment": demo.environment,
        "protocol": protocol(demo),
        "rival": {name: value for name, value in demo.rival.items() if name != "scenes"},
        "scenes": {
            name: {
                "methods": {key: {"name": NAMES[key], "rows": scene.methods[key].rows} for key in NAMES},
                "pixels_level": where_pixels_are_level(scene.methods),
                "source": scene.model.source,
                "t": scene.model.alignment.t,
                "ridge": scene.model.alignment.ridge,
                "own_order": scene.model.alignment.own_order,
                "eigenvalues": scene.model.eigenvalues_.tolist(),
                "suggested_dim": suggestions(scene.model),
                "training": scene.model.training,
            }
            for name, scene in demo.scenes.items()
        },
    }


def protocol(demo: Demo) -> str:
    """Return one paragraph on how retrieval was measured and how the settings were chosen."""
    return (
        "Queries are the catalogue's 1,000 query images, the gallery its 10,000 training images; both are encoded "
        "without their labels, and an item is relevant if it has the query's class. Items are ranked by the cosine "
        "similarity of codes cut at the given length. mAP over what was found divides by the relevant items among the "
        "top results, and mAP over all that is relevant divides by all relevant items. Settings were chosen on 1,000 "
        "validation images, never on the "
        f"queries. One seed ({demo.seed}); docs/catalogue.md has three."
    )


def score_rows(methods: Mapping[str, Method], metric: str) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table: one row per method (and one for its spread), one column per length."""
    dims = [dim for dim in LENGTHS if any(dim in method.values(metric) for method in methods.values())]
    rows = []
    for key in NAMES:
        method = methods[key]
        values, spread = method.values(metric), method.spread(metric)
        cells = [_decimals(values.get(dim)) for dim in dims]
        rows.append([method.name, *cells, f"{_decimals(values[method.full])} ({method.full})"])
        if spread:
            rows.append(["  ± over draws", *(_decimals(spread.get(dim)) for dim in dims), ""])
    return ["features", *map(str, dims), "full (of)"], rows


def page(demo: Demo, figures: Mapping[str, Figure], out: Path) -> Page:
    """Return the report."""
    runs = runs_of(demo, out)
    return Page(
        title="One code, cut at any length",
        lead=(
            "The eigenmap demo: two models learned, without labels, to describe 10,000 pictures of garments by "
            "features sorted by importance. What does a code cut after the first few features still find?"
        ),
        sections=[
            Section("Retrieval", _retrieval(demo, figures)),
            Section("What a query finds", _gallery(demo)),
            *filter(None, [features_section(figures)]),
            spectrum_section(runs, figures),
            training_section(runs, figures, _speed(demo)),
            Section("All measurements", _tables(demo)),
            usage_section(runs[0]),
            configuration_section(runs, _machine(demo)),
        ],
        footer="Made by eigenmap demo. The pictures are a sample of Fashion-MNIST (Zalando SE, MIT licence).",
    )


def _retrieval(demo: Demo, figures: Mapping[str, Figure]) -> list[Html]:
    clean, posed = demo.scenes["clean"].methods, demo.scenes["posed"].methods
    return [
        report.key_figures(
            [
                (_score(clean["ours"], MAIN, 8), "mAP of our first 8 features"),
                (_score(clean["random"], MAIN, 32), "mAP of 32 random features of an unordered model (SCL)"),
                (_score(clean["pixels"], MAIN, clean["pixels"].full), "mAP of all raw pixels"),
                (
                    _score(posed["ours"], MAIN, 8),
                    "mAP of our first 8 features on posed pictures, where all raw pixels reach "
                    + _score(posed["pixels"], MAIN, posed["pixels"].full),
                ),
            ]
        ),
        report.figure(
            figures["retrieval"],
            "mAP over what was found in the top 1,000, against the number of features kept. Left: garments centred and "
            "upright, as in the data set. Right: the same garments shifted, turned, zoomed and mirrored at random. The "
            "band around random features is one standard deviation over ten draws.",
        ),
        *(
            report.table(*score_rows(scene.methods, MAIN), f"{_TITLES[name]}: {METRIC_NAMES[MAIN]}", strong=0)
            for name, scene in demo.scenes.items()
        ),
        report.paragraph(where_pixels_are_level(clean)),
        report.folded(
            "The same with mAP over the top 100",
            [
                report.figure(
                    figures["retrieval-top100"],
                    "mAP over what was found in the top 100: nearest neighbours alone, where pixels of centred, "
                    "upright pictures do well.",
                )
            ],
        ),
    ]


def _gallery(demo: Demo) -> list[Html]:
    clean, posed = (demo.scenes[name].answers for name in ("clean", "posed"))
    return [
        report.paragraph(
            "The ten nearest of 10,000 pictures, for the first query of four classes, with codes cut at 2, 4, 8, 16 "
            "and 32 features. A solid frame is the right class; a dashed frame with a cross is another one."
        ),
        report.gallery(clean),
        report.folded("The same garments, posed", [report.gallery(posed)]),
    ]


def _speed(demo: Demo) -> list[tuple[str, str]]:
    """Return the cost of training."""
    seconds = sum(scene.model.training["seconds"] for scene in demo.scenes.values())
    speed = max(scene.history[-1]["images_per_second"] for scene in demo.scenes.values())
    memory = demo.environment["peak_memory_mb"]
    return [
        (f"{demo.steps:,}", "steps for each of the two models"),
        (f"{seconds:.0f} s", "of training"),
        (f"{speed:,.0f}", "pictures per second, two views each"),
        ("unknown" if memory is None else f"{memory:,} MB", "of memory at most"),
    ]


def _tables(demo: Demo) -> list[Html]:
    rival = demo.rival
    return [
        report.paragraph(protocol(demo)),
        *(
            report.folded(
                title,
                [
                    report.table(*score_rows(scene.methods, metric), _TITLES[name], strong=0)
                    for name, scene in demo.scenes.items()
                ],
            )
            for metric, title in METRIC_NAMES.items()
            if metric != MAIN
        ),
        report.folded(
            "How the unordered rival was made",
            [
                report.paragraph(
                    "Same network, views, batches and optimiser, trained with the spectral contrastive loss. Its "
                    "projector's features are drawn at random ten times; the tables show the mean and the standard "
                    "deviation over draws."
                ),
                report.facts(
                    {name: value for name, value in rival.items() if name != "scenes"}
                    | {"steps of our models here": demo.steps}
                ),
            ],
        ),
    ]


def _machine(demo: Demo) -> dict[str, object]:
    known = {name.replace("_", " "): value for name, value in demo.environment.items()}
    return known | {"device": demo.scenes["clean"].model.training["device"]}


def _curves(scenes: Mapping[str, Scene], metric: str) -> dict[str, Sequence[Curve]]:
    return {
        _TITLES[name]: [
            Curve(key, NAMES[key], scene.methods[key].values(metric), scene.methods[key].spread(metric))
            for key in NAMES
        ]
        for name, scene in scenes.items()
    }


def _score(method: Method, metric: str, dim: int) -> str:
    return _decimals(method.value(metric, dim))


def _decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
