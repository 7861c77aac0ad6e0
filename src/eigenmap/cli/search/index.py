"""`eigenmap index` and `eigenmap search`: a searchable directory of codes, and the nearest images of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note, print_result
from eigenmap.cli.encoding import encode_images, read_images
from eigenmap.cli.options import (
    DATABASE,
    HOW,
    OUTPUT,
    SOURCE_HELP,
    BatchOption,
    Device,
    DeviceOption,
    DimOption,
    ForceOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    StrictOption,
    TableOption,
    argument,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_files, check_index, write_json_output
from eigenmap.cli.search import database, deleting, indexing
from eigenmap.cli.search.items import open_items
from eigenmap.cli.search.options import (
    FunnelOption,
    RankOption,
    SearchDimOption,
    SearchOptions,
    ShortlistDimOption,
    ShortlistOption,
    WhereOption,
    parse_funnel,
)
from eigenmap.cli.search.results import results_as_json, show_results
from eigenmap.cli.vector_codes import SideOption, query_codes, side_of
from eigenmap.core.addresses import is_database, require_path
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
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

[cyan]  eigenmap index runs/mine PHOTOS/ --to postgresql://user@host/pictures --table photos[/cyan]
""",
)
def index(
    run: ModelArgument,
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
            "Features that the approximate index of the table compares; 0 for no such index [dim](default: 32)[/dim].",
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
    """Make images or vectors searchable: `eigenmap search` needs nothing but the index.

    All features are stored unless --dim is given, since a search can cut them at any length. Known labels can be used
    as conditions: `eigenmap search ... --where label=cat`. SOURCE may also contain codes: a folder or file written by
    `eigenmap embed`, or an .npy file with one row per item. For a model of vectors it is a file of vectors; items are
    named by its ids, or else by row number.
    """
    from eigenmap.embedding.blocks import Encoding
    from eigenmap.model import Eigenmap
    from eigenmap.search import CodeIndex

    if delete:
        told = deleting.delete_items(run, delete, [source, out, to, table, prefix, dim, precision, backend, side])
        if not quiet:
            note(told)
        return
    if source is None:
        raise EigenmapError("SOURCE is missing: eigenmap index RUN SOURCE --out INDEX.")
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
    stored = _precision(precision, bytes_per_item)
    place = check_device(device)
    model = side_of(Eigenmap.load(run), side)
    if out is None:
        if backend is not None:
            raise EigenmapError("--backend needs --out; the approximate index of a table is set by --prefix.")
        how = Encoding(model.check_dim(dim), place, batch_size, strict)
        what = database.Wanted(stored, bytes_per_item, prefix, force)
        database.fill(run, source, *database.check_database_address(to, table), how, what, side, quiet)
        return
    made_by = model.weights_sha256
    if add:
        made = CodeIndex.open(out, fingerprint=made_by)
        if dim not in (None, made.n_components):
            raise EigenmapError(f"{out} contains codes of {made.n_components} features, so --dim cannot be {dim}.")
        if precision is not None or bytes_per_item is not None or backend is not None:
            raise EigenmapError(
                f"{out} exists and keeps its format: leave --precision, --bytes-per-item and --backend out, or create "
                "another index without --add."
            )
        dim = made.n_components
    else:
        check_index(out, force)
        dim = model.check_dim(dim)
        made = CodeIndex(
            dim,
            backend=(backend or Store.flat).value,
            precision=stored,
            bytes_per_item=bytes_per_item,
            fingerprint=made_by,
        )
    how = Encoding(dim, place, batch_size, strict)
    items = open_items(model, source, how, pictures=thumbnails, quiet=quiet)
    said = (
        indexing.add_items(made, source, items, replace)
        if add
        else indexing.make_index(made.about, source, items, out, run, force)
    )
    items.log_skipped()
    if not quiet:
        note(f"{out}: {said}")


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
    index: Annotated[str, argument("INDEX", "The index written by `eigenmap index`: a folder, or postgresql://...")],
    images: Annotated[
        list[Path], argument("IMAGE", "One or more images to search for; for an index of vectors, files of vectors.")
    ],
    dim: SearchDimOption = None,
    top: Annotated[int | None, option("--top -n N", "Results per image [dim](default: 10)[/dim].")] = None,
    shortlist_dim: ShortlistDimOption = None,
    shortlist: ShortlistOption = None,
    funnel: FunnelOption = None,
    rank_by: RankOption = None,
    where: WhereOption = None,
    table: TableOption = None,
    model: Annotated[
        Path | None, option("--model RUN", "The model [dim](default: the copy in the index)[/dim].", HOW)
    ] = None,
    side: SideOption = None,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the images, or vectors, most similar to the given ones.

    The score is the cosine of the two codes cut at --dim features: 1 for the same image. For an index made with
    --bytes-per-item it is an estimate that takes the reliability of each code into account, unless --rank-by cosine.
    """
    from eigenmap.fitting.vectors import codes_of
    from eigenmap.model import Eigenmap
    from eigenmap.search.fields import unknown_fields
    from eigenmap.search.filters import parse

    check_files(force, json)
    place = check_device(device)
    asked = SearchOptions(top, dim, shortlist_dim, shortlist)
    asked.funnel, asked.where, asked.ranking = parse_funnel(funnel), parse(where or []), rank_by
    with _opened(index, table, model) as (found_in, made_by):
        asked.check(found_in)
        encoder = side_of(Eigenmap.load(made_by), side)
        fingerprint = codes_of(encoder)
        assert fingerprint is not None  # a loaded model has one
        found_in.require_model(fingerprint)
        if encoder.kind == "vectors":
            names, codes = query_codes(encoder, images, found_in.n_components, place, quiet)
        else:
            queries = read_images(encoder, images[0] if len(images) == 1 else images, strict=strict, quiet=quiet)
            names, codes = queries.ids, encode_images(encoder, queries, found_in.n_components, place, quiet=quiet)
        results = asked.search(found_in, codes, quiet)
        unknown = [] if any(results.ids) else unknown_fields(found_in, asked.where or {})
        similarity = asked.similarity(found_in, results.dim)
    if json is not None:
        write_json_output(json, results_as_json(database.without_password(index), similarity, names, results))
    if not any(results.ids):  # an empty index is an error before this
        print_result(_no_item(unknown))
        return
    show_results(names, results)
    if results.recall != 1 and results.recall is not None and not quiet:
        note(f"This search finds {100 * results.recall:.1f} % of what comparing every item would find.")


def _no_item(unknown: Sequence[str]) -> str:
    """Return the sentence for a search without results."""
    if unknown:
        return f"No item has the field {' or '.join(unknown)}, which --where asks for."
    return "No item meets the conditions of --where."


@contextmanager
def _opened(index: str, table: str | None, model: Path | None) -> Iterator[tuple[CodeIndex, Path]]:
    """Open the index, with the directory of the model of its codes."""
    from eigenmap.search.parts import model_in

    if is_database(index):
        with database.open_table(*database.check_database_address(index, table), model) as both:
            yield both
    else:
        with database.codes_at(index, table) as codes:
            yield codes, (model_in(Path(index)) or Path(index) / "model") if model is None else model


def _precision(asked: Precision | None, bytes_per_item: int | None) -> str:
    """Return the requested format; the default is bits if bytes are limited."""
    default = Precision.float32 if bytes_per_item is None else Precision.bits
    return (asked or default).value
