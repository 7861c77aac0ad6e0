"""`eigenmap index`: a searchable directory of codes."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note
from eigenmap.cli.options import (
    DATABASE,
    HOW,
    OUTPUT,
    SOURCE_HELP,
    WHAT,
    BatchOption,
    Device,
    DeviceOption,
    DimOption,
    ForceOption,
    QuietOption,
    StrictOption,
    TableOption,
    argument,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_index
from eigenmap.cli.search import database, deleting, indexing
from eigenmap.cli.search.items import RowOptions, open_items
from eigenmap.cli.vector_codes import Side, SideOption, side_of
from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.model import Eigenmap
    from eigenmap.search import CodeIndex


class Precision(str, Enum):
    """Format of a stored feature."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"
    bits = "bits"
    signs = "signs"


class Store(str, Enum):
    """Kind of index on disk."""

    flat = "flat"
    faiss = "faiss"


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Example:

[cyan]  eigenmap index runs/mine PHOTOS/ --out photos.index[/cyan]

[cyan]  eigenmap index runs/mine PHOTOS/ --out small.index --bytes-per-item 16[/cyan]

[cyan]  eigenmap index runs/mine MORE/ --out photos.index --add[/cyan]

[cyan]  eigenmap index photos.index --delete holiday/beach.jpg[/cyan]

[cyan]  eigenmap index runs/both documents.npy --side right --out documents.index[/cyan]

[cyan]  eigenmap index vectors.npy --ids names.txt --texts titles.txt --out plain.index[/cyan]

[cyan]  eigenmap index runs/mine PHOTOS/ --to postgresql://user@host/pictures --table photos[/cyan]
""",
)
def index(
    run: Annotated[
        Path,
        argument(
            "RUN",
            "The model written by `eigenmap fit`. Or a file of vectors to index unchanged; with --delete, the index.",
        ),
    ],
    source: Annotated[Path | None, argument("SOURCE", SOURCE_HELP)] = None,
    out: Annotated[
        Path | None, option("--out -o INDEX", "The index to write: a folder, with a copy of the model in it.", OUTPUT)
    ] = None,
    to: Annotated[
        str | None,
        option(
            "--to ADDRESS", "PostgreSQL database with pgvector to fill instead: postgresql://user@host/name.", DATABASE
        ),
    ] = None,
    table: TableOption = None,
    prefix: Annotated[
        int | None,
        option(
            "--prefix N",
            "Features compared by the approximate index of the table; 0 for no such index [dim](default: 32)[/dim].",
            DATABASE,
            min=0,
        ),
    ] = None,
    dim: DimOption = None,
    precision: Annotated[
        Precision | None,
        option(
            "--precision",
            "Format of a stored feature; signs needs --bytes-per-item [dim](default: float32)[/dim].",
            HOW,
        ),
    ] = None,
    bytes_per_item: Annotated[
        int | None,
        option(
            "--bytes-per-item N",
            "Divide this many bytes among the features, more bits for the important ones, for example 16.",
            HOW,
        ),
    ] = None,
    backend: Annotated[
        Store | None,
        option(
            "--backend",
            "faiss adds an approximate index, for a million items and more [dim](default: flat)[/dim].",
            HOW,
        ),
    ] = None,
    ids: Annotated[
        str | None,
        option(
            "--ids FILE|COLUMN",
            "Names of vectors: a text file with one per line, or a column of SOURCE [dim](default: the column id, or "
            "row numbers)[/dim].",
            WHAT,
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        option("--texts FILE", "Texts of vectors, one per line, for `eigenmap serve`.", WHAT),
    ] = None,
    fields: Annotated[
        str | None,
        option(
            "--fields COLUMN,...",
            "Columns of a file of vectors to store with the items [dim](default: title, text and label)[/dim].",
            WHAT,
        ),
    ] = None,
    codes: Annotated[
        bool, option("--codes", "SOURCE contains codes made by a model of vectors, not vectors.", WHAT, shown=True)
    ] = False,
    thumbnails: Annotated[
        bool,
        option(
            "--thumbnails/--no-thumbnails",
            "Store small pictures for `eigenmap serve`, 1 to 3 kB each.",
            HOW,
            shown=True,
        ),
    ] = True,
    add: Annotated[
        bool,
        option(
            "--add",
            "Add to an existing index. Images of the same name from different folders are kept side by side; those "
            "from the same folder are left as they are.",
            shown=True,
        ),
    ] = False,
    replace: Annotated[bool, option("--replace", "With --add: replace images of the same name.", shown=True)] = False,
    delete: deleting.DeleteOption = None,
    side: SideOption = None,
    batch_size: BatchOption = 256,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make images or vectors searchable; `eigenmap search` needs only the index.

    All features are stored unless --dim is given, since a search can cut them at any length. Known labels can be used
    as conditions: `eigenmap search ... --where label=cat`. SOURCE may also contain codes: a folder or file written by
    `eigenmap embed`, or an .npy file with one row per item. For a model of vectors it is a file of vectors (.npy, .npz,
    Parquet, Arrow); items are named by its ids, or else by row number. Such a file alone, in place of RUN, is indexed
    without a model; queries are then vectors of the same kind.
    """
    from eigenmap.embedding.blocks import Encoding
    from eigenmap.model import Eigenmap
    from eigenmap.search import CodeIndex

    if delete:
        told = deleting.delete_items(run, delete, [source, out, to, table, prefix, dim, precision, backend, side])
        if not quiet:
            note(told)
        return
    _check_target(out, to, table, prefix, backend, add=add, replace=replace, force=force)
    stored = _precision(precision, bytes_per_item)
    place = check_device(device)
    rows = RowOptions(ids, texts, None if fields is None else _listed(fields), codes)
    made_from, source = _source(run, source, side, codes)
    model = None if made_from is None else side_of(Eigenmap.load(made_from), side)
    if out is None:
        how = Encoding(_length(model, source, dim), place, batch_size, strict)
        what = database.Wanted(stored, bytes_per_item, prefix, force)
        database.fill(made_from, source, *database.check_database_address(to, table), how, what, side, quiet, rows)
        return
    made_by = None if model is None else model.weights_sha256
    if add:
        keeps_format = precision is None and bytes_per_item is None and backend is None
        made = _existing(out, made_by, dim, keeps_format)
    else:
        check_index(out, force)
        made = CodeIndex(
            _length(model, source, dim),
            backend=(backend or Store.flat).value,
            precision=stored,
            bytes_per_item=bytes_per_item,
            fingerprint=made_by,
        )
    how = Encoding(_length(model, source, made.n_components), place, batch_size, strict)
    items = open_items(model, source, how, pictures=thumbnails, quiet=quiet, rows=rows)
    said = (
        indexing.add_items(made, source, items, replace)
        if add
        else indexing.make_index(made.about, source, items, out, made_from, force)
    )
    items.log_skipped()
    if not quiet:
        note(f"{out}: {said}")


def _check_target(
    out: Path | None,
    to: str | None,
    table: str | None,
    prefix: int | None,
    backend: Store | None,
    *,
    add: bool,
    replace: bool,
    force: bool,
) -> None:
    """Refuse options that contradict each other about where the codes go."""
    if out is not None:
        require_path(out)
    if (out is None) == (to is None):
        raise EigenmapError("Give the output: --out FOLDER, or --to postgresql://... with --table NAME.")
    if to is not None and (add or replace):
        raise EigenmapError(
            "--add and --replace need --out: loading into a table always adds to it and replaces images of the same "
            "name; leave them out, or use --force to create the table again."
        )
    if replace and not add:
        raise EigenmapError("--replace needs --add; --force replaces the whole index.")
    if add and force:
        raise EigenmapError("--add keeps the existing index and --force replaces it; give only one of them.")
    if out is not None and (table is not None or prefix is not None):
        raise EigenmapError("--table and --prefix need a database, --to; leave them out, or --out.")
    if to is not None and backend is not None:
        raise EigenmapError("--backend needs --out; the approximate index of a table is set by --prefix.")


def _existing(out: Path, made_by: str | None, dim: int | None, keeps_format: bool) -> CodeIndex:
    """Open an index to add to; refuse codes of another model or length, and another format."""
    from eigenmap.search import CodeIndex

    made = CodeIndex.open(out, fingerprint=made_by)
    if made_by is None and made.fingerprint is not None:
        raise EigenmapError(f"{out} contains codes of a model; give that model as RUN, and then SOURCE.")
    if dim not in (None, made.n_components):
        raise EigenmapError(f"{out} contains codes of {made.n_components} features, so --dim cannot be {dim}.")
    if not keeps_format:
        raise EigenmapError(
            f"{out} exists and keeps its format: leave --precision, --bytes-per-item and --backend out, or create "
            "another index without --add."
        )
    return made


def _source(run: Path, source: Path | None, side: Side | None, codes: bool) -> tuple[Path | None, Path]:
    """Return the model, if there is one, and the source to index."""
    from eigenmap.model import DESCRIPTION

    if source is not None:
        if database.is_plain(run):
            raise EigenmapError(f"{run} is a file of vectors, not a model; give RUN and SOURCE, or that file alone.")
        return run, source
    if (run / "_embedding.json").is_file():
        raise EigenmapError(f"{run} contains codes of a model, which is missing: eigenmap index RUN {run}.")
    if (run / "codes.npy").is_file():
        raise EigenmapError(f"{run} is a folder; index the file of codes in it: eigenmap index {run / 'codes.npy'}.")
    if not database.is_plain(run) and run.exists() and not (run / DESCRIPTION).is_file():
        raise EigenmapError(
            f"{run} is not a model; give a model first, and then what to index: eigenmap index RUN {run}."
        )
    if not database.is_plain(run):
        raise EigenmapError(
            f"SOURCE is missing: give what to index with the model {run}. Only a file of vectors (.npy, .npz, "
            "Parquet, Arrow) is indexed without a model."
        )
    if side is not None or codes:
        raise EigenmapError(f"--side and --codes need a model; leave them out for {run}.")
    return None, run


def _length(model: Eigenmap | None, source: Path, dim: int | None) -> int:
    """Return the length of the codes, or of vectors without a model."""
    from eigenmap.core.arguments import whole_number
    from eigenmap.data.vectors.vectors import load_vectors

    if model is not None:
        return model.check_dim(dim)
    most = load_vectors(source).n_features
    return most if dim is None else whole_number(dim, "dim", 1, most)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _precision(asked: Precision | None, bytes_per_item: int | None) -> str:
    """Return the requested format; the default is bits if bytes are limited."""
    default = Precision.float32 if bytes_per_item is None else Precision.bits
    return (asked or default).value
