"""Options and evaluations shared by `eigenmap figures` and `eigenmap report`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import log_function, progress_bar
from eigenmap.cli.encoding import read_images
from eigenmap.cli.options import HOW, SOURCES_HELP, WHAT, option
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction

if TYPE_CHECKING:
    from eigenmap.data import ImageSet
    from eigenmap.evaluation.retrieval import ScoreRow
    from eigenmap.figures.scores import Scores
    from eigenmap.figures.study import Study, TrainedRun
    from eigenmap.model import Eigenmap

DataOption = Annotated[Path | None, option("--data SOURCE", f"Images. {SOURCES_HELP}", WHAT)]
LabelsFileOption = Annotated[
    Path | None, option("--labels CSV", "A table `file,labels` for --data [dim](default: class folders)[/dim].", WHAT)
]
QueriesOption = Annotated[
    Path | None,
    option(
        "--queries SOURCE",
        "Images to search for in --data [dim](default: a random fifth of it, searched for in the rest)[/dim].",
        WHAT,
    ),
]
QueryLabelsOption = Annotated[Path | None, option("--query-labels CSV", "Like --labels, for --queries.", WHAT)]
ScoresOption = Annotated[
    list[str] | None,
    option(
        "--scores [NAME=]FILE",
        "A file of `eigenmap evaluate ... --json`; repeat it for more. Files of one NAME are averaged.",
        WHAT,
    ),
]
MetricOption = Annotated[
    list[str] | None,
    option(
        "--metric NAME",
        "Metric of --scores to draw, such as precision@100; repeat it for more "
        "[dim](default: mAP and precision, or accuracy)[/dim].",
        WHAT,
    ),
]
TopOption = Annotated[
    int | None,
    option(
        "--top M",
        "Number of results that count in retrieval [dim](default: 1,000, fewer for little data)[/dim].",
        HOW,
        min=1,
    ),
]
FeaturesOption = Annotated[int, option("--features N", "Features in exciting and optimised.", HOW, min=1, shown=True)]
SeedOption = Annotated[int, option("--seed N", "Random seed.", HOW, min=0, shown=True)]


@dataclass(frozen=True)
class Asked:
    """Data and settings of a study."""

    wanted: Collection[str]
    """Names in `figures.names.FIGURES`."""
    data: Path | None = None
    labels: Path | None = None
    queries: Path | None = None
    query_labels: Path | None = None
    scores: Sequence[str] = ()
    metrics: Sequence[str] = ()
    top: int | None = None
    features: int = 8
    steps: int = 5000
    seed: int = 0

    @property
    def inputs(self) -> list[Path]:
        """Files and folders that the study reads."""
        scores = [_named_file(text)[1] for text in self.scores]
        return [path for path in (self.data, self.labels, self.queries, self.query_labels, *scores) if path is not None]


def read_series(given: Sequence[str]) -> list[Scores]:
    """Read files of scores, each given as FILE or NAME=FILE."""
    from eigenmap.figures.scores import read_scores

    return [read_scores(file, name) for name, file in map(_named_file, given)]


def _named_file(text: str) -> tuple[str | None, Path]:
    """Split NAME=FILE into name and file; a file may have = in its name."""
    name, _, path = text.partition("=")
    named = bool(name and path) and not Path(text).exists()
    return (name, Path(path)) if named else (None, Path(text))


def check_asked(asked: Asked) -> None:
    """Refuse an option without the one it needs."""
    if asked.data is None:
        options = {"--labels": asked.labels, "--queries": asked.queries, "--query-labels": asked.query_labels}
        for option, value in options.items():
            if value is not None:
                raise EigenmapError(f"{option} needs --data, the images to search in: add it.")
    if asked.query_labels is not None and asked.queries is None:
        raise EigenmapError("--query-labels needs --queries: add it, or use --labels for --data.")
    if asked.metrics and not asked.scores:
        raise EigenmapError("--metric needs --scores, the file whose metric is drawn: add it.")


def examine(run: TrainedRun | None, asked: Asked, device: str, *, strict: bool = False, quiet: bool = False) -> Study:
    """Compute everything requested about a run."""
    from eigenmap.figures.excitation import make_exciting
    from eigenmap.figures.study import Study

    scores = read_series(asked.scores)
    if run is None:
        return Study(None, scores=scores, metrics=asked.metrics)
    run.model.network.to(device)
    found = Study(run, scores=scores, metrics=asked.metrics)
    if asked.data is not None:
        reader = partial(read_images, run.model, strict=strict, quiet=quiet)
        found = _look_at_data(run.model, asked, reader, found, log_function(quiet))
    if "optimised" in asked.wanted:
        with progress_bar("making images", quiet) as tick:
            made = make_exciting(run.model, asked.features, asked.steps, asked.seed, tick)
        found = replace(found, made=made)
    return found


def _look_at_data(
    model: Eigenmap, asked: Asked, read: Callable[..., ImageSet], found: Study, say: LogFunction
) -> Study:
    """Add the parts that need images: exciting images, query results and retrieval scores."""
    from eigenmap.evaluation.baselines import split_queries
    from eigenmap.figures.answers import find_answers, first_of_each_class
    from eigenmap.figures.excitation import excited_by

    images = read(asked.data, labels=asked.labels)
    if "exciting" in asked.wanted:
        found = replace(found, exciting=excited_by(model, images, asked.features))
    if not {"queries", "retrieval"} & set(asked.wanted):
        return found
    if asked.queries is None:
        gallery, queries = split_queries(images, seed=asked.seed)
    else:
        gallery, queries = images, read(asked.queries, labels=asked.query_labels)
    if "queries" in asked.wanted:
        chosen = first_of_each_class(queries, most=4)
        found = replace(found, answers=find_answers(model, gallery, queries.subset(chosen)))
    if "retrieval" not in asked.wanted:
        return found
    if gallery.labels is None or queries.labels is None:
        say("No retrieval curves: the images have no labels (class folders, or a table with --labels).")
        return found
    say(f"Searching for {len(queries):,} images among {len(gallery):,} ...")
    return replace(
        found, comparison=_compare(model, gallery, queries, asked), protocol=_protocol(gallery, queries, asked)
    )


def _compare(model: Eigenmap, gallery: ImageSet, queries: ImageSet, asked: Asked) -> dict[str, list[ScoreRow]]:
    from eigenmap.evaluation.baselines import DRAWS, affordable_pixels, compare

    top = [asked.top or default_top(len(gallery))]
    return compare(model, gallery, queries, top, pixels=affordable_pixels(gallery), draws=DRAWS, seed=asked.seed)


def default_top(images: int) -> int:
    """Return the default number of results: 1,000, 100 or 10, at most half of the images.

    >>> [default_top(n) for n in (10_000, 1_000, 150, 15)]
    [1000, 100, 10, 7]
    """
    return next((top for top in (1000, 100, 10) if 2 * top <= images), max(1, images // 2))


def _protocol(gallery: ImageSet, queries: ImageSet, asked: Asked) -> str:
    own = "given" if asked.queries is not None else "a random part of the data, taken out of the gallery"
    return (
        f"{len(queries):,} queries ({own}) against {len(gallery):,} images. Images that share a label with the query "
        "are relevant; items are ranked by the cosine of codes cut at the given length. The model has never seen the "
        "labels; whether it has seen the images depends on its training data. The projector's own features in "
        f"random order are the mean over 10 draws, seed {asked.seed}."
    )
