"""`eigenmap demo`: train on the embedded catalogue, print retrieval at every length, write the report."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.app import LEARN, app
from eigenmap.cli.console import log_function, print_result
from eigenmap.cli.options import HOW, OUTPUT, ForceOption, QuietOption, option
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from rich.table import Table

    from eigenmap.demo import Scene


OUT, OUT_READY = Path("runs/demo"), Path("runs/ready")
CATALOGUE = Path("catalogue")
"""The word for the embedded pictures, as `index` takes it."""


class Sample(str, Enum):
    """Name of a how-to with sample data; `eigenmap.demo.samples` writes them."""

    photos = "photos"
    pretrained = "pretrained"
    embeddings = "embeddings"
    pairs = "pairs"
    graph = "graph"
    time = "time"


@app.command(
    rich_help_panel=LEARN,
    epilog="""
Examples:

[cyan]  eigenmap demo --out runs/demo[/cyan]

[cyan]  eigenmap demo --ready[/cyan]

[cyan]  eigenmap demo --data photos[/cyan]
""",
)
def demo(
    out: Annotated[Path, option("--out -o FOLDER", "Folder for report.html and the models.", OUTPUT, shown=True)] = OUT,
    minutes: Annotated[float, option("--minutes M", "Time limit for training both models.", HOW, shown=True)] = 3.5,
    steps: Annotated[
        int | None, option("--steps N", "Exact number of training steps per model, however long they take.", HOW)
    ] = None,
    seed: Annotated[int, option("--seed N", "Random seed.", HOW, shown=True)] = 0,
    ready: Annotated[
        bool,
        option(
            "--ready",
            "Train nothing: unpack the model that comes with eigenmap, and an index to search and look at, into "
            "runs/ready unless --out is given.",
            HOW,
            shown=True,
        ),
    ] = False,
    data: Annotated[
        Sample | None,
        option(
            "--data NAME",
            "Train nothing: write the data of a how-to (photos, pretrained, embeddings, pairs, graph, time) into the "
            "current folder unless --out is given.",
            HOW,
        ),
    ] = None,
    small: Annotated[bool, option("--small", "With --data: fewer items, for a quick try.", HOW, shown=True)] = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Try it: train on 10,000 embedded pictures of garments, compare code lengths, write a report.

    Needs no network connection and no data, about four minutes on two cores, and under 2 GB of memory.
    """
    if small and data is None:
        raise EigenmapError("--small needs --data.")
    if ready and data is not None:
        raise EigenmapError("use either --ready or --data.")
    if data is not None:
        _write_sample(data.value, Path() if out == OUT else out, small, force)
        return
    if ready:
        _unpack(OUT_READY if out == OUT else out, force, quiet)
        return
    from eigenmap.demo import run
    from eigenmap.demo.methods import where_pixels_are_level

    say = log_function(quiet)
    result = run(out, minutes=minutes, steps=steps, seed=seed, force=force, progress=not quiet, say=say)
    for scene in result.scenes.values():
        print_result(_table(scene))
        print_result()
    print_result(where_pixels_are_level(result.scenes["clean"].methods))
    rival = result.rival
    print_result(f"Random features: an SCL model of {rival['steps']:,} steps; `{rival['command']}` repeats it.")
    seconds = sum(result.seconds.values())
    memory = result.environment["peak_memory_mb"]
    say(f"{seconds:.0f} seconds in total" + ("." if memory is None else f", {memory:,} MB of memory at most."))
    print_result(f"Report: {out / 'report.html'}    All figures: {out / 'demo.json'}    Model: {out / 'clean'}")
    model = shlex.quote(str(out / "clean"))
    say(f"To look around: eigenmap index {model} catalogue --out demo.index; eigenmap serve demo.index")


def _write_sample(name: str, out: Path, small: bool, force: bool) -> None:
    """Write the data of a how-to, and say which files they are."""
    from eigenmap.demo.samples import write

    made = (f"{path}/" if path.is_dir() else str(path) for path in write(name, out, small, force))
    print_result(f"Data of the how-to: {', '.join(made)}")


def _unpack(out: Path, force: bool, quiet: bool) -> None:
    """Write the trained model, an index of the catalogue, and pictures to search for."""
    from eigenmap.cli.search.index import index
    from eigenmap.demo.ready import unpack

    if CATALOGUE.exists():
        raise EigenmapError(f"{CATALOGUE} in this folder hides the embedded catalogue; use --ready in another folder.")
    unpack(out, force)
    index(out / "model", CATALOGUE, out / "catalogue.index", force=force, quiet=quiet)
    name = shlex.quote(str(out))
    print_result(f"{out}: a trained model, an index of 10,000 pictures, and pictures to search for.")
    print_result(f"Search:  eigenmap search {name}/catalogue.index {name}/queries/bag-1.png --dim 8 --top 5")
    print_result(f"Look:    eigenmap serve {name}/catalogue.index")


def _table(scene: Scene) -> Table:
    """Return a table of the main metric: one row per method, one column per length."""
    from rich import box
    from rich.table import Table

    from eigenmap.demo.page import MAIN, score_rows

    head, rows = score_rows(scene.methods, MAIN)
    title = f"{scene.name} catalogue: mAP over what was found in the top 1,000"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(head):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for number, row in enumerate(rows):
        # .506 for 0.506, so that the table fits into 80 columns.
        table.add_row(*(cell.removeprefix("0") for cell in row), style="" if number else "bold")
    return table
