"""`eigenmap figures` and `eigenmap report`: figures of a run as files, and one page about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from eigenmap.cli.app import ABOUT, app
from eigenmap.cli.console import log_function, print_result, progress_bar
from eigenmap.cli.figures.studies import (
    Asked,
    DataOption,
    FeaturesOption,
    LabelsFileOption,
    MetricOption,
    QueriesOption,
    QueryLabelsOption,
    ScoresOption,
    SeedOption,
    TopOption,
    check_asked,
    examine,
)
from eigenmap.cli.options import (
    HOW,
    OUTPUT,
    WHAT,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    QuietOption,
    StrictOption,
    argument,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_files, write_json_output
from eigenmap.core.errors import EigenmapError


@app.command(
    rich_help_panel=ABOUT,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap figures runs/mine --data PHOTOS/[/cyan]

[cyan]  eigenmap figures runs/mine --only optimised --steps 1000[/cyan]

[cyan]  eigenmap figures --scores ours=s0.json --scores ours=s1.json --scores scl=b.json --out figures[/cyan]
""",
)
def figures(
    run: Annotated[Path | None, argument("RUN", "The model written by `eigenmap fit`.")] = None,
    only: Annotated[
        list[str] | None,
        option("--only NAME,...", "Figures to draw [dim](default: all possible ones except optimised)[/dim].", WHAT),
    ] = None,
    data: DataOption = None,
    labels: LabelsFileOption = None,
    queries: QueriesOption = None,
    query_labels: QueryLabelsOption = None,
    scores: ScoresOption = None,
    metric: MetricOption = None,
    features: FeaturesOption = 8,
    top: TopOption = None,
    steps: Annotated[int, option("--steps N", "Steps per optimised image.", HOW, min=1, shown=True)] = 5000,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    out: Annotated[
        Path | None, option("--out -o FOLDER", "Folder for the files [dim](default: RUN/figures)[/dim].", OUTPUT)
    ] = None,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draw figures of a run, each as SVG and as PNG.

    [bold]figure     shows                                          needs[/bold]
    spectrum   the eigenvalue of every feature                RUN
    lengths    neighbours that a cut code keeps               RUN
    pairs      score on held-out pairs by length              RUN, a vector model
    training   loss and health by step                        RUN, its metrics.jsonl
    exciting   images that excite the first features          RUN, --data
    queries    query results at 4 ... 64 features             RUN, --data
    retrieval  mAP and precision by length, with baselines    RUN, labelled --data
    scores     quality by length, from files                  --scores
    optimised  images synthesised to excite features (slow)   RUN, --only optimised
    """
    from eigenmap.figures.names import FIGURES
    from eigenmap.figures.study import draw_figures, figure_data, read_run
    from eigenmap.figures.style import save

    chosen = choose(only or (), has_run=run is not None, has_data=data is not None, has_scores=bool(scores))
    asked = Asked(chosen, data, labels, queries, query_labels, scores or (), metric or (), top, features, steps, seed)
    check_asked(asked)
    trained = None if run is None else read_run(run)
    folder = out or (Path("figures") if run is None else run / "figures")
    check_files(
        force,
        *(folder / f"{name}.{kind}" for name in chosen for kind in ("svg", "png")),
        json,
        reads=[run, *asked.inputs],
    )
    study = examine(trained, asked, check_device(device), strict=strict, quiet=quiet)
    drawn = draw_figures(study, chosen)
    for name in only_names(only or ()):
        if name not in drawn:
            raise EigenmapError(f"{name} cannot be drawn from this: it needs {FIGURES[name].needs}.")
    with progress_bar("drawing", quiet) as tick:
        for number, (name, figure) in enumerate(drawn.items(), start=1):
            for file in save(figure, folder / name):
                print_result(str(file))
            if tick is not None:
                tick(number, len(drawn))
    if json is not None:
        write_json_output(json, figure_data(study))


@app.command(
    rich_help_panel=ABOUT,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap report runs/mine[/cyan]

[cyan]  eigenmap report runs/mine --data PHOTOS/ --optimise 1000 --out mine.html[/cyan]
""",
)
def report(
    run: Annotated[
        Path, argument("RUN", "The model written by `eigenmap fit`; or an index, or vectors, without their model.")
    ],
    data: DataOption = None,
    labels: LabelsFileOption = None,
    queries: QueriesOption = None,
    query_labels: QueryLabelsOption = None,
    scores: ScoresOption = None,
    metric: MetricOption = None,
    features: FeaturesOption = 8,
    top: TopOption = None,
    optimise: Annotated[
        int,
        option(
            "--optimise STEPS",
            "Also synthesise images that excite the first features, in this many steps; the paper uses 5,000.",
            HOW,
            min=0,
            shown=True,
        ),
    ] = 0,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    out: Annotated[
        Path | None,
        option(
            "--out -o FILE",
            "The page [dim](default: RUN/report.html; for photos.index or photos.npy, photos.html)[/dim].",
            OUTPUT,
        ),
    ] = None,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write one HTML page about a run: curves, spectrum, health, settings, how to load the model.

    With --data it also shows what excites the features, query results and, for labelled images, their quality at every
    length. About an index or a file of vectors it shows how much of a search short codes keep, as `eigenmap advise`
    measures it. The page is a single file that works offline, in light and dark mode, and can be printed.
    """
    if _has_no_model(run):
        images = {"--data": data, "--labels": labels, "--queries": queries, "--query-labels": query_labels}
        others = {"--scores": scores, "--metric": metric, "--optimise": optimise}
        given = next((option for option, value in (*images.items(), *others.items()) if value), None)
        if given is not None:
            raise EigenmapError(f"{given} needs a model, but {run} is not one; leave it out.")
        _report_items(run, out or run.with_suffix(".html"), json, force=force, quiet=quiet)
        return
    from eigenmap.figures.report import write
    from eigenmap.figures.run_page import run_page
    from eigenmap.figures.study import draw_figures, figure_data, read_run

    chosen = choose((), has_run=True, has_data=data is not None, has_scores=bool(scores))
    chosen += ["optimised"] if optimise else []
    asked = Asked(
        chosen, data, labels, queries, query_labels, scores or (), metric or (), top, features, optimise, seed
    )
    check_asked(asked)
    page = out or run / "report.html"
    trained = read_run(run)
    check_files(force, page, json, reads=[run, *asked.inputs])
    study = examine(trained, asked, check_device(device), strict=strict, quiet=quiet)
    log_function(quiet)("Drawing ...")
    print_result(str(write(run_page(study, draw_figures(study, chosen)), page)))
    if json is not None:
        write_json_output(json, figure_data(study))


def _has_no_model(source: Path) -> bool:
    """Tell whether this is an index or a file of vectors."""
    from eigenmap.cli.search.database import is_plain

    return is_plain(source) or (source / "index.json").is_file()


def _report_items(source: Path, page: Path, json: Path | None, *, force: bool, quiet: bool) -> None:
    """Write the page about an index or a file of vectors."""
    from eigenmap.cli.search.database import codes_at
    from eigenmap.figures.advice_page import advice_page
    from eigenmap.figures.report import write
    from eigenmap.search.advisor import advise

    check_files(force, page, json, reads=[source])
    with codes_at(str(source), None) as opened:
        advice = advise(opened, say=log_function(quiet))  # unlike `opened.advise`, leaves the stored advice alone
        made = advice_page(source.resolve().name, opened.n_components, advice, learned=opened.fingerprint is not None)
        print_result(str(write(made, page)))
    if json is not None:
        write_json_output(json, {"measured": "search settings", "index": str(source), **advice.as_json()})


def only_names(given: Sequence[str]) -> list[str]:
    """Parse and validate the names in `--only a,b --only c`."""
    from eigenmap.figures.names import FIGURES

    names = [name for text in given for name in text.replace(",", " ").split()]
    for name in names:
        if name not in FIGURES:
            raise EigenmapError(f"Unknown figure {name}: choose among {', '.join(FIGURES)}.")
    return list(dict.fromkeys(names))


def choose(only: Sequence[str], *, has_run: bool, has_data: bool, has_scores: bool) -> list[str]:
    """Return the figures to draw: those named, if possible, or all possible ones except the slow one."""
    from eigenmap.figures.names import DATA_FIGURES, FIGURES

    def possible(name: str) -> bool:
        if name == "scores":
            return has_scores
        return has_run and (has_data or name not in DATA_FIGURES)

    named = only_names(only)
    for name in named:
        if not possible(name):
            raise EigenmapError(f"{name} needs {FIGURES[name].needs}: see `eigenmap figures --help`.")
    chosen = named or [name for name in FIGURES if possible(name) and name != "optimised"]
    if not chosen:
        raise EigenmapError("Nothing to draw from: give a RUN, or files with --scores.")
    return chosen
