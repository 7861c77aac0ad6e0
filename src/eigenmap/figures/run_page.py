"""Report of a training run: its sections, and the page written by `eigenmap report`.

    study = Study(read_run(Path("runs/mine")))
    write(run_page(study, draw_figures(study)), Path("runs/mine/report.html"))

The demo builds its page about two runs from the same sections.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.retrieval import ScoreRow
from eigenmap.figures import report
from eigenmap.figures.pairs import pairs_section
from eigenmap.figures.report import Html, Page, Section
from eigenmap.figures.scores import default_metrics, panels, words_for
from eigenmap.figures.study import BASELINES, Study, TrainedRun, comparison_metrics
from eigenmap.model import Eigenmap
from eigenmap.training.health import lowest_rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Figures = Mapping[str, "Figure"]


def run_page(study: Study, figures: Figures) -> Page:
    """Return the page about one run; parts that were not measured are left out."""
    run = study.run
    if run is None:
        raise EigenmapError("A report needs a run: give the folder that `eigenmap fit` wrote.")
    about = run.model.training
    recipe = about.get("recipe", {})
    sections = [
        Section("At a glance", [report.key_figures(_glance(run, study.comparison))]),
        pairs_section(run.model, figures),
        retrieval_section(study, figures),
        scores_section(study, figures),
        queries_section(study),
        features_section(figures),
        spectrum_section([run], figures),
        training_section([run], figures),
        usage_section(run),
        configuration_section([run]),
    ]
    return Page(
        title=f"Run {run.folder.resolve().name}",
        lead=(
            f"{run.model.n_components} features sorted by importance, learned without labels"
            + (f" from {about['images']:,} images" if "images" in about else "")
            + (f" with the objective {recipe['objective']}" if "objective" in recipe and not closed_form(run) else "")
            + ". One code, cut at any length."
        ),
        sections=[section for section in sections if section is not None],
        footer=f"Made by eigenmap report. The model is in {run.folder.as_posix()}.",
    )


def retrieval_section(study: Study, figures: Figures) -> Section | None:
    """Quality of the code at every length, compared with baselines."""
    if "retrieval" not in figures:
        return None
    blocks = [
        report.figure(
            figures["retrieval"],
            "How well codes of each length find images of the same class. The band around features in random order "
            "is one standard deviation over draws.",
        ),
        *(
            report.table(*comparison_rows(study.comparison, metric), words_for(metric), strong=0)
            for metric in comparison_metrics(study.comparison)
        ),
        report.paragraph(study.protocol),
    ]
    return Section("Retrieval", blocks)


def scores_section(study: Study, figures: Figures) -> Section | None:
    """Curves from files written by `eigenmap evaluate`."""
    if "scores" not in figures:
        return None
    metrics = study.metrics or default_metrics(study.scores)
    bands = any(curve.spread for metric in metrics for panel in panels(study.scores, metric) for curve in panel.curves)
    files = {scores.path.name: scores.name for scores in study.scores}
    return Section(
        "Scores",
        [
            report.figure(
                figures["scores"],
                "Measured earlier and read from files. " + ("Bands are one standard deviation. " if bands else ""),
            ),
            report.folded("Files", [report.facts(files)]),
        ],
    )


def queries_section(study: Study) -> Section | None:
    """Results of some queries at several lengths."""
    if not study.answers:
        return None
    known = any(hit.right is not None for answer in study.answers for hits in answer.hits.values() for hit in hits)
    frames = " A solid frame is the right class; a dashed frame with a cross is another one." if known else ""
    lengths = ", ".join(str(dim) for dim in study.answers[0].hits)
    text = f"The nearest images for some queries, with codes cut at {lengths} features.{frames}"
    return Section("What a query finds", [report.paragraph(text), report.gallery(study.answers)])


def features_section(figures: Figures) -> Section | None:
    """Pictures that excite the leading features."""
    blocks = []
    if "exciting" in figures:
        blocks.append(
            report.figure(
                figures["exciting"],
                "The images with the largest and smallest values of each leading feature; below the number of a "
                "feature is its eigenvalue. Which of the two ends is positive is arbitrary.",
            )
        )
    if "optimised" in figures:
        blocks.append(
            report.figure(
                figures["optimised"],
                "Images synthesised from noise, by gradient ascent under a decreasing blur, for the largest and "
                "smallest value of each feature; the value reached is shown below each.",
            )
        )
    return Section("Eigenfunctions", blocks) if blocks else None


def spectrum_section(runs: Sequence[TrainedRun], figures: Figures) -> Section:
    """Eigenvalues and suggested lengths."""
    kinds = (_SPECTRUM, _NEIGHBOURS)
    rows = [
        [
            run.title or "this run",
            *(_known(suggestions(run.model).get(kind)) for kind in kinds),
            f"{run.model.n_components}",
        ]
        for run in runs
    ]
    blocks = [
        report.figure(
            figures["spectrum"],
            "The eigenvalue of a feature is its correlation between the two sides of a pair, such as two random views "
            "of one picture: 1 if both agree, 0 if they share nothing. Measured on pairs held out of training.",
        ),
        report.table(["suggested length", *kinds, "all"], rows, "Where to cut"),
    ]
    if "lengths" in figures:
        text = "The share of the ten nearest neighbours under the full code that a code cut at each length also finds."
        blocks.append(report.folded("Neighbours kept at every length", [report.figure(figures["lengths"], text)]))
    return Section("Spectrum", blocks)


def training_section(runs: Sequence[TrainedRun], figures: Figures, numbers: Sequence[tuple[str, str]] = ()) -> Section:
    """Training curves and the health of the features."""
    blocks: list[Html] = [report.key_figures(numbers)] if numbers else []
    if "training" not in figures:
        why = "the folder of the model has no metrics.jsonl"
        if all(closed_form(run) for run in runs):
            why = "the model was solved in closed form"
        blocks.append(report.paragraph(f"Training curves are unavailable: {why}."))
    else:
        blocks.append(
            report.figure(
                figures["training"],
                "The objective, and the effective rank of the features on held-out pairs: a rank close to 1 would mean "
                "that features are copies of each other.",
            )
        )
    health = [row for run in runs if (row := health_row(run))]
    if health:
        head = ["last check", "loss", "largest gradient", "effective rank", "limit", "verdict"]
        blocks.append(report.table(head, health, "Health"))
    return Section("Training", blocks)


def usage_section(run: TrainedRun) -> Section:
    """Instructions for loading the model, in Python and on the command line."""
    folder, dim = run.folder.as_posix(), min(8, run.model.n_components)
    lengths = suggestions(run.model)
    share = "recall" if _NEIGHBOURS in lengths else "spectrum"
    keep = lengths.get(_NEIGHBOURS, lengths[_SPECTRUM])
    images = takes_images(run.model)
    vectors = run.model.kind == "vectors"
    items, source = ("images", "PHOTOS/") if images else ("x", "VECTORS.npy" if vectors else "FEATURES.npy")
    lines = {
        f"codes = model.encode({items}, dim={dim})": f"one row of {dim} numbers per item",
        f"model.eigenvalues_[:{dim}]": "the share of each feature on which the two sides of a pair agree",
        f"model.suggest_dim({share}=0.95)": str(keep),
    }
    widest = max(map(len, lines))
    python = f"import eigenmap as em\n\nmodel = em.Eigenmap.load({folder!r})\n" + "".join(
        f"{line:{widest}}  # {remark}\n" for line, remark in lines.items()
    )
    path = shlex.quote(folder)
    shell = f"eigenmap info {path}\neigenmap embed {path} {source} --out codes.npy --dim {dim}\n"
    if images or vectors:
        shell += f"eigenmap index {path} {source} --out {'photos' if images else 'vectors'}.index\n"
    return Section("Use it", [report.code(python), report.code(shell)])


def configuration_section(runs: Sequence[TrainedRun], machine: Mapping[str, object] | None = None) -> Section:
    """Settings of every run, and the machine and software used."""
    blocks = [
        report.folded(f"Recipe: {run.title.lower()}" if run.title else "Recipe", [report.facts(configuration(run))])
        for run in runs
    ]
    known = dict(machine or _environment(runs[0].model.training))
    return Section("Configuration", [*blocks, report.folded("Environment", [report.facts(known)])])


def closed_form(run: TrainedRun) -> bool:
    """Tell whether a vector model was solved in closed form, without training."""
    return run.model.kind == "vectors" and run.model.is_linear and not run.history


def takes_images(model: Eigenmap) -> bool:
    """Tell whether a model takes images; models of other kinds have no image size."""
    try:
        return model.image.size > 0
    except EigenmapError:
        return False


_SPECTRUM, _NEIGHBOURS = "95 % of the spectrum", "95 % of the neighbours"


def suggestions(model: Eigenmap) -> dict[str, int]:
    """Return the lengths that the model suggests; by neighbours only if it has measured recall."""
    lengths = {_SPECTRUM: model.suggest_dim(spectrum=0.95)}
    return lengths | ({_NEIGHBOURS: model.suggest_dim(recall=0.95)} if model.alignment.recall else {})


def health_row(run: TrainedRun) -> list[str]:
    """Return cells about the last check of a run; empty if it made none."""
    checks = [record for record in run.history if "effective_rank" in record]
    if not checks:
        return []
    last = checks[-1]
    limit = lowest_rank(last["n_components"])
    return [
        (f"{run.title}, " if run.title else "") + f"step {last['step']:,}",
        f"{last['loss']:.3f}",
        f"{max(record['gradient_norm'] for record in run.history):.3g}",
        f"{last['effective_rank']:.1f} of {last['n_components']}",
        f"{limit:.3g}",
        "healthy" if last["effective_rank"] >= limit else "collapsed",
    ]


def configuration(run: TrainedRun) -> dict[str, Any]:
    """Return all settings recorded in the model, flattened."""
    about, alignment = run.model.training, run.model.alignment
    # The steps say how long it trained; the recipe's epochs may not have been used.
    recipe = {k: v for k, v in about.get("recipe", {}).items() if v not in (None, {}) and k != "epochs"}
    known = {
        "steps": about.get("steps"),
        "seed": about.get("seed"),
        "seconds of training": about.get("seconds"),
        "code made from": run.model.source,
        "own order kept": alignment.own_order,
        "ridge": alignment.ridge,
        "diffusion time t": alignment.t,
        "training images": about.get("images"),
        "held-out images": about.get("held_out_images"),
    }
    return recipe | {name: value for name, value in known.items() if value is not None}


def comparison_rows(comparison: Mapping[str, Sequence[ScoreRow]], metric: str) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table: one row per code, one column per length, full length last."""
    dims = [int(row["dim"]) for row in comparison["ours"]][:-1][:8]
    rows = []
    for key, name in BASELINES.items():
        if key not in comparison:
            continue
        values = {int(row["dim"]): row[metric] for row in comparison[key]}
        full = max(values)
        cells = [f"{values[dim]:.3f}" if dim in values else "" for dim in dims]
        rows.append([name, *cells, f"{values[full]:.3f} ({full})"])
    return ["features", *map(str, dims), "full (of)"], rows


def _glance(run: TrainedRun, comparison: Mapping[str, Sequence[ScoreRow]]) -> list[tuple[str, str]]:
    """Return a few key numbers."""
    about = run.model.training
    numbers = [(str(run.model.n_components), "ordered features")]
    if run.model.alignment.recall:
        numbers.append((str(suggestions(run.model)[_NEIGHBOURS]), "of them keep 95 % of the nearest neighbours"))
    if comparison:
        metric = comparison_metrics(comparison)[0]
        row = next((row for row in comparison["ours"] if row["dim"] >= 8), comparison["ours"][-1])
        numbers.append((f"{row[metric]:.3f}", f"{words_for(metric)}, with {int(row['dim'])} features"))
    if "steps" in about:
        numbers.append((f"{about['steps']:,}", f"steps in {about.get('seconds', 0):,.0f} s"))
    if health := health_row(run):
        numbers.append((health[-1], f"effective rank {health[3]}"))
    return numbers


def _known(length: int | None) -> str:
    return "not known" if length is None else str(length)


def _environment(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine recorded in the model; earlier versions recorded less."""
    known = {name: about[name] for name in ("finished", "device", "torch") if name in about}
    return {
        name.replace("_", " "): value
        for name, value in (known | about.get("environment", {})).items()
        if value is not None
    } or {"environment": "not recorded"}
