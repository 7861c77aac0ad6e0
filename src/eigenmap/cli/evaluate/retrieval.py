"""`eigenmap evaluate retrieval`: retrieval of images of the same class with codes of every length."""

from __future__ import annotations

import platform
import re
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from eigenmap.cli.app import USE, Kinds, app
from eigenmap.cli.console import log_function, number_table, print_result, progress_bar
from eigenmap.cli.encoding import encode_images, read_images
from eigenmap.cli.options import (
    HOW,
    WHAT,
    BatchOption,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    StrictOption,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_files, write_json_output
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction
from eigenmap.core.words import count

if TYPE_CHECKING:
    from torch import Tensor

    from eigenmap.data import ImageSet
    from eigenmap.evaluation.retrieval import ScoreRow
    from eigenmap.model import Codes, Eigenmap

evaluate = typer.Typer(cls=Kinds, no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(evaluate, name="evaluate", rich_help_panel=USE)


DimsOption = Annotated[
    list[int] | None, option("--dims N...", "Code lengths to measure [dim](default: 2 4 8 ... all)[/dim].", HOW)
]


class RankedBy(str, Enum):
    """Representation by which the gallery is ranked."""

    codes = "codes"
    projector = "projector"
    encoder = "encoder"


class NumberLists(TyperCommand):
    """A command whose --dims, --top and --labels take several numbers: `--dims 2 4`, `--dims 2,4` or repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option for each number, as click requires."""
        return super().parse_args(ctx, repeat_options(args, ("--dims", "--top", "--labels")))


def repeat_options(args: Sequence[str], options: Sequence[str]) -> list[str]:
    """Expand one option with several numbers into several options with one number.

    >>> repeat_options(["RUN", "--dims", "2", "4,8", "--json", "r.json"], ["--dims"])
    ['RUN', '--dims', '2', '--dims', '4', '--dims', '8', '--json', 'r.json']
    """
    left = deque(args)
    spread: list[str] = []
    while left:
        arg = left.popleft()
        option, equals, value = arg.partition("=")
        numbers = [value] if equals else []
        while option in options and left and re.fullmatch(r"[\d.,\s]*\d[\d.,\s]*", left[0]):
            numbers.append(left.popleft())
        if option in options and numbers:
            spread += [part for number in re.findall(r"[^,\s]+", " ".join(numbers)) for part in (option, number)]
        else:
            spread.append(arg)
    return spread


@evaluate.callback()
def evaluate_group() -> None:
    """Measure the quality of a model's codes."""


@evaluate.command(
    cls=NumberLists,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap evaluate retrieval runs/mine --gallery TRAIN/ --query TEST/ --json r.json[/cyan]

[cyan]  eigenmap evaluate retrieval runs/mine --gallery PHOTOS/ --gallery-labels labels.csv --dims 2 8 --top 10[/cyan]

[cyan]  eigenmap evaluate retrieval runs/mine --gallery TRAIN/ --query TEST/ --of projector --random-features 10[/cyan]
""",
)
def retrieval(
    run: ModelArgument,
    gallery: Annotated[Path, option("--gallery SOURCE", "Images to search in.", WHAT)],
    query: Annotated[
        Path | None,
        option(
            "--query SOURCE",
            "Images to search for [dim](default: each image of the gallery among the others)[/dim].",
            WHAT,
        ),
    ] = None,
    gallery_labels: Annotated[
        Path | None,
        option(
            "--gallery-labels CSV",
            "A table `file,labels`, several labels separated by spaces [dim](default: class folders)[/dim].",
            WHAT,
        ),
    ] = None,
    query_labels: Annotated[
        Path | None, option("--query-labels CSV", "Like --gallery-labels, for the queries.", WHAT)
    ] = None,
    dims: DimsOption = None,
    top: Annotated[
        list[int] | None, option("--top M...", "Numbers of results to score [dim](default: 100 1000)[/dim].", HOW)
    ] = None,
    of: Annotated[
        RankedBy,
        option(
            "--of",
            "Ordered codes, or the raw output of the projector (the paper's code) or of the encoder, in its own order.",
            HOW,
            shown=True,
        ),
    ] = RankedBy.codes,
    random_draws: Annotated[
        int | None,
        option(
            "--random-features N",
            "Use random features instead of the first ones, mean over N draws; needs --of projector or encoder.",
            HOW,
            min=1,
        ),
    ] = None,
    batch_size: BatchOption = 256,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rank the gallery for every query, with codes of each length. Images that share a label are relevant.

    [bold]map_over_found@M[/bold]     average precision over the relevant images among the first M
    [bold]map_over_relevant@M[/bold]  the same sum divided by all relevant images in the gallery
    [bold]precision@M[/bold]          share of the first M that is relevant
    """
    from eigenmap.core.arguments import whole_number
    from eigenmap.evaluation.retrieval import lengths, random_features
    from eigenmap.evaluation.retrieval import retrieval as measure
    from eigenmap.model import Eigenmap

    check_files(force, json, reads=[run, gallery, query, gallery_labels, query_labels])
    if random_draws is not None and of is RankedBy.codes:
        raise EigenmapError("--random-features needs an unordered output: add --of projector or --of encoder.")
    place = check_device(device)
    model = Eigenmap.load(run)
    width = _width(model, of)
    at = [whole_number(dim, "dim", 1, width) for dim in dims] if dims else lengths(width)
    cuts = [whole_number(cut, "top") for cut in top or (100, 1000)]
    themselves = query is None or query.resolve() == gallery.resolve()
    if themselves and query_labels is not None:
        raise EigenmapError("The queries are the gallery: give their labels only once, with --gallery-labels.")

    offered = read_labelled(model, gallery, gallery_labels, "--gallery-labels", strict, quiet)
    asked = offered if themselves else read_labelled(model, query, query_labels, "--query-labels", strict, quiet)
    query_matrix, gallery_matrix = _comparable_labels(asked, offered, themselves, log_function(quiet))
    cuts = results_to_score(cuts, len(offered) - themselves, log_function(quiet))
    longest = max(at) if random_draws is None else width
    gallery_codes = _codes(model, offered, of, longest, place, batch_size, quiet)
    query_codes = gallery_codes if themselves else _codes(model, asked, of, longest, place, batch_size, quiet)
    compared = (query_codes, gallery_codes, query_matrix, gallery_matrix, at, cuts)
    if random_draws is None:
        rows = measure(*compared, drop_self=themselves, device=place)
    else:
        rows = random_features(*compared, draws=random_draws, drop_self=themselves, device=place)
    if json is not None:
        protocol = {
            "gallery": str(gallery),
            "gallery_images": len(offered),
            "query": str(gallery if themselves else query),
            "query_images": len(asked),
            "each_among_the_others": themselves,
            "classes": offered.labels.n_classes if offered.labels else 0,
            "of": of.value,
            "ranking": f"cosine of {_which(random_draws)}; ties by position in the gallery",
            "relevant": "gallery images that share at least one label with the query",
        }
        write_json_output(json, {**circumstances(run, model, place, "retrieval"), "protocol": protocol, "rows": rows})
    _show(rows, cuts, len(asked), len(offered))


def results_to_score(cuts: Sequence[int], available: int, say: LogFunction) -> list[int]:
    """Return the numbers of results to score, each at most the number of available images.

    >>> results_to_score([10, 100, 1000], 59, print)  # doctest: +NORMALIZE_WHITESPACE
    There are only 59 images to find: scores of all 59 replace those of 100 and 1,000, and precision@59 is the same for
    every code.
    [10, 59]
    """
    beyond = [f"{cut:,}" for cut in cuts if cut > available]
    if not beyond or available < 1:
        return list(cuts)
    found = "is only 1 image" if available == 1 else f"are only {available:,} images"
    say(
        f"There {found} to find: scores of all {available:,} replace those of {' and '.join(beyond)}, "
        f"and precision@{available} is the same for every code."
    )
    return list(dict.fromkeys(min(cut, available) for cut in cuts))


def _width(model: Eigenmap, of: RankedBy) -> int:
    from eigenmap.networks.network import encoder_width

    if of is RankedBy.encoder:
        return encoder_width(model.network.encoder, (model.image.channels, *2 * (model.image.view_size,)))
    return model.n_components if of is RankedBy.codes else model.network.n_components


def _codes(
    model: Eigenmap, images: ImageSet, of: RankedBy, dim: int, device: str, batch_size: int, quiet: bool
) -> Codes:
    """Return the ordered codes of images, or raw outputs of the network, cut at `dim`."""
    import numpy as np

    if of is RankedBy.codes:
        return encode_images(model, images, dim, device, batch_size, quiet)
    model.network.to(device)
    codes, done = np.empty((len(images), dim), np.float32), 0
    with progress_bar("encoding", quiet) as tick:
        for part in model.raw(images.pixels, batch_size, source=of.value):
            codes[done : done + len(part)] = part[:, :dim]
            done += len(part)
            if tick is not None:
                tick(done, len(images))
    return codes


def _which(draws: int | None) -> str:
    return "the first dim features" if draws is None else f"dim random features, mean over {draws} draws"


def read_labelled(
    model: Eigenmap, source: Path | None, labels: Path | None, option: str, strict: bool, quiet: bool
) -> ImageSet:
    """Read images whose labels must be known."""
    assert source is not None
    images = read_images(model, source, labels=labels, strict=strict, quiet=quiet)
    if images.labels is None:
        bare = [name for name in images.ids if "/" not in name]
        some = 0 < len(bare) < len(images)
        why = f"an image in no class folder, {bare[0]}" if some else "no class folders"
        raise EigenmapError(f"{source} has {why}, so its labels are unknown: give a table with {option}.")
    return images


def _comparable_labels(
    queries: ImageSet, gallery: ImageSet, themselves: bool, say: LogFunction
) -> tuple[Tensor, Tensor]:
    """Return both label matrices with the same columns; report labels that make scores meaningless."""
    asked, offered = queries.labels, gallery.labels
    assert asked is not None and offered is not None
    theirs = asked.in_classes(offered.names)
    lost = int((~theirs.matrix.any(1)).sum())
    if lost == len(theirs):
        raise EigenmapError(
            f"Queries and gallery have no class in common: {_listed(asked.names)} and {_listed(offered.names)}."
        )
    if lost:
        say(f"{lost:,} of {len(theirs):,} queries have no class that is in the gallery; they score 0.")
    if themselves:  # an image is not a result of its own query
        alone = int((~(theirs.matrix & (offered.matrix.sum(0) > 1)).any(1)).sum()) - lost
        if alone:
            say(f"{alone:,} of {len(theirs):,} images are the only one of their class; they score 0.")
    if offered.n_classes == 1:
        say(f"There is only one class ({offered.names[0]}), so every result is correct whatever the codes are.")
    return theirs.matrix, offered.matrix


def _listed(names: list[str], at_most: int = 3) -> str:
    return ", ".join(names[:at_most]) + (", ..." if len(names) > at_most else "") if names else "none"


def circumstances(run: Path, model: Eigenmap, device: str, measured: str) -> dict[str, Any]:
    """Return the software, machine and date of a measurement."""
    import numpy as np
    import torch

    from eigenmap import __version__

    return {
        "measured": measured,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu ({platform.machine()})",
        "versions": {
            "eigenmap": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "model": {
            "directory": str(run),
            "fingerprint": model.weights_sha256,
            "n_components": model.n_components,
            "seed": model.training.get("seed"),
            "training": model.training,
        },
    }


def _show(rows: Sequence[ScoreRow], cuts: Sequence[int], queries: int, gallery: int) -> None:
    """Print one table per number of results."""
    for cut in cuts:
        metrics = [f"{name}@{cut}" for name in ("map_over_found", "map_over_relevant", "precision")]
        cells = ([f"{row['dim']:.0f}", *(_cell(row, metric) for metric in metrics)] for row in rows)
        title = f"first {cut:,} of {count(gallery, 'image')}, {count(queries, 'query', 'queries')}"
        print_result(number_table(title, ["features", *metrics], cells))


def _cell(row: ScoreRow, name: str) -> str:
    spread = row.get(f"{name}_spread")
    return f"{row[name]:.4f}" + ("" if spread is None else f" ± {spread:.4f}")
