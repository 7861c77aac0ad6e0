"""`eigenmap index` and `eigenmap search`: a searchable directory of codes, and the nearest images of a query."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigenmap.cli import database
from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note, printable, show
from eigenmap.cli.options import (
    DATABASE,
    OUTPUT,
    BatchOption,
    Device,
    DeviceOption,
    DimOption,
    ForceOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    SourceArgument,
    StrictOption,
    TableOption,
    check_device,
)
from eigenmap.cli.outputs import check_file, check_index, write_json
from eigenmap.cli.work import encode_images, read_images
from eigenmap.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.model import Eigenmap
    from eigenmap.search import CodeIndex, Results


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap index runs/mine PHOTOS/ --out photos.index[/cyan]

[cyan]  eigenmap index runs/mine PHOTOS/ --to postgresql://user@host/pictures --table photos[/cyan]
""",
)
def index(
    run: ModelArgument,
    source: SourceArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="INDEX",
            help="The index to write: a folder, with a copy of the model in it.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="ADDRESS",
            help="Or the database to fill, PostgreSQL with pgvector: postgresql://user@host/name.",
            show_default=False,
            rich_help_panel=DATABASE,
        ),
    ] = None,
    table: TableOption = None,
    prefix: Annotated[
        int,
        typer.Option(
            "--prefix",
            metavar="N",
            min=0,
            help="Features that the approximate index of the table compares; 0 for no such index.",
            rich_help_panel=DATABASE,
        ),
    ] = 32,
    half: Annotated[
        bool, typer.Option("--half", help="Store features as 16-bit numbers.", rich_help_panel=DATABASE)
    ] = False,
    dim: DimOption = None,
    batch_size: BatchOption = 256,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make images searchable: `eigenmap search` needs nothing but the index.

    All features are stored unless --dim says otherwise, since a search can cut them at any length.
    """
    from eigenmap.model import Eigenmap
    from eigenmap.search import CodeIndex

    if to is not None and out is None:
        from eigenmap.embedding.blocks import Encoding

        to, table = database.check_address(to, table)
        how = Encoding(Eigenmap.load(run).check_dim(dim), check_device(device), batch_size, strict)
        return database.fill(run, source, to, table, how, prefix, half, force, quiet)
    if out is None or to is not None:
        raise EigenmapError("Say where the index goes: --out FOLDER, or --to postgresql://... with --table NAME.")
    check_index(out, force)
    place = check_device(device)
    model = Eigenmap.load(run)
    dim = model.check_dim(dim)
    images = read_images(model, source, strict=strict, quiet=quiet)
    made = CodeIndex(dim, fingerprint=Eigenmap.fingerprint(run))
    made.add(encode_images(model, images, dim, place, batch_size, quiet), images.ids)
    with tempfile.TemporaryDirectory() as folder:
        # Of a run only the model: checkpoints are many times as large.
        made.save(out, overwrite=force, model_dir=_copy_model(run, Path(folder) / "model"))
    if not quiet:
        note(f"{out}: {len(made):,} images, {dim} features each.")
    return None


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap search photos.index some.jpg[/cyan]

[cyan]  eigenmap search photos.index *.jpg --dim 16 --top 3 --json found.json[/cyan]

[cyan]  eigenmap search postgresql://user@host/pictures some.jpg --table photos[/cyan]
""",
)
def search(
    index: Annotated[
        str,
        typer.Argument(
            metavar="INDEX", help="What `eigenmap index` wrote: a folder, or postgresql://...", show_default=False
        ),
    ],
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE", help="One or more images to look for.", show_default=False)
    ],
    dim: DimOption = None,
    top: Annotated[int, typer.Option("--top", "-n", metavar="N", help="Results an image.")] = 10,
    table: TableOption = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            metavar="RUN",
            help="The model [dim](default: the copy in the database)[/dim].",
            show_default=False,
            rich_help_panel=DATABASE,
        ),
    ] = None,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the images most like the given ones.

    The score is the cosine of the two codes, cut at --dim features: 1 for the same image.
    """
    from eigenmap.evaluation.checks import whole_number

    if json is not None:
        check_file(json, force)
    place = check_device(device)
    with _opened(index, table, model) as (found_in, by):
        dim = found_in.n_components if dim is None else whole_number(dim, "dim", 1, found_in.n_components)
        whole_number(top, "top")
        queries = read_images(by, images[0] if len(images) == 1 else images, strict=strict, quiet=quiet)
        codes = encode_images(by, queries, found_in.n_components, place, quiet=quiet)
        results = found_in.search(codes, top, dim)
    if json is not None:
        write_json(json, _as_json(database.shown(index), dim, queries.ids, results))
    _show(queries.ids, results)


@contextmanager
def _opened(index: str, table: str | None, run: Path | None) -> Iterator[tuple[CodeIndex, Eigenmap]]:
    """The index, and the model that made its codes."""
    from eigenmap.model import Eigenmap
    from eigenmap.search import CodeIndex

    if database.is_address(index):
        with database.opened(*database.check_address(index, table), run) as both:
            yield both
    else:
        yield CodeIndex.load(index), Eigenmap.load(Path(index) / "model" if run is None else run)


def _copy_model(run: Path, to: Path) -> Path:
    from eigenmap.model import DESCRIPTION, WEIGHTS

    to.mkdir()
    for name in (DESCRIPTION, WEIGHTS):
        shutil.copyfile(run / name, to / name)
    return to


def _as_json(index: str, dim: int, queries: list[str], results: Results) -> dict[str, Any]:
    return {
        "index": index,
        "dim": dim,
        "similarity": "cosine of the first dim features",
        "results": [
            {
                "query": query,
                "found": [{"id": name, "score": float(score)} for name, score in zip(ids, scores, strict=True)],
            }
            for query, ids, scores in zip(queries, results.ids, results.scores, strict=True)
        ],
    }


def _show(queries: list[str], results: Results) -> None:
    """Print a table for each query."""
    from rich.table import Table
    from rich.text import Text

    for query, ids, scores in zip(queries, results.ids, results.scores, strict=True):
        table = Table(title=Text(printable(query), style="bold"), title_justify="left")
        table.add_column("rank", justify="right")
        table.add_column("score", justify="right")
        table.add_column("file", overflow="fold")
        for rank, (name, score) in enumerate(zip(ids, scores, strict=True), start=1):
            table.add_row(str(rank), f"{score:.4f}", Text(printable(str(name))))
        show(table)
