"""`eigenmap search`: the nearest images, or vectors, of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note, print_result
from eigenmap.cli.encoding import encode_images, read_images
from eigenmap.cli.options import (
    HOW,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    QuietOption,
    StrictOption,
    TableOption,
    argument,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_files, write_json_output
from eigenmap.cli.search import database
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
from eigenmap.cli.search.results import results_as_json, show_results, titles_of
from eigenmap.cli.vector_codes import SideOption, query_codes, side_of
from eigenmap.core.addresses import is_database
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.search import CodeIndex


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap search photos.index some.jpg[/cyan]

[cyan]  eigenmap search vectors.npy queries.npy[/cyan]

[cyan]  eigenmap search photos.index *.jpg --dim 16 --top 3 --json found.json[/cyan]

[cyan]  eigenmap search postgresql://user@host/pictures some.jpg --table photos[/cyan]
""",
)
def search(
    index: Annotated[
        str,
        argument("INDEX", "The index written by `eigenmap index`: a folder, or postgresql://... Or a file of vectors."),
    ],
    images: Annotated[
        list[Path], argument("IMAGE", "One or more images to search for; for an index of vectors, files of vectors.")
    ],
    dim: SearchDimOption = None,
    top: Annotated[int | None, option("--top -n N", "Results per query [dim](default: 10)[/dim].")] = None,
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

    check_files(force, json, reads=[index, *images, model])
    place = check_device(device)
    asked = SearchOptions(top, dim, shortlist_dim, shortlist)
    asked.funnel, asked.where, asked.ranking = parse_funnel(funnel), parse(where or []), rank_by
    with _opened(index, table, model) as (found_in, made_by):
        asked.check(found_in)
        encoder = None if made_by is None else side_of(Eigenmap.load(made_by), side)
        if encoder is not None:
            found_in.require_model(str(codes_of(encoder)))
        elif side is not None:
            raise EigenmapError(f"--side needs a model, but {index} has none; leave it out.")
        if encoder is None or encoder.kind == "vectors":
            heading = "item"
            names, codes = query_codes(encoder, images, found_in.n_components, place, quiet)
        else:
            heading = "file"
            queries = read_images(encoder, images[0] if len(images) == 1 else images, strict=strict, quiet=quiet)
            names, codes = queries.ids, encode_images(encoder, queries, found_in.n_components, place, quiet=quiet)
        results = asked.search(found_in, codes, quiet)
        unknown = [] if any(results.ids) else unknown_fields(found_in, asked.where or {})
        similarity = asked.similarity(found_in, results.dim)
        titles = titles_of(found_in, results)
    if json is not None:
        write_json_output(json, results_as_json(database.without_password(index), similarity, names, results))
    if not any(results.ids):  # an empty index is an error before this
        print_result(_no_item(unknown))
        return
    show_results(names, results, titles, heading)
    if results.recall != 1 and results.recall is not None and not quiet:
        note(f"This search finds {100 * results.recall:.1f} % of what comparing every item would find.")


def _no_item(unknown: Sequence[str]) -> str:
    """Return the sentence for a search without results."""
    if unknown:
        return f"No item has the field {' or '.join(unknown)}, which --where asks for."
    return "No item meets the conditions of --where."


@contextmanager
def _opened(index: str, table: str | None, model: Path | None) -> Iterator[tuple[CodeIndex, Path | None]]:
    """Open the index, with the directory of the model of its codes; None for plain vectors."""
    from eigenmap.search.parts import model_in

    if is_database(index):
        with database.open_table(*database.check_database_address(index, table), model) as both:
            yield both
    else:
        with database.codes_at(index, table) as codes:
            if model is None and codes.fingerprint is not None:
                model = model_in(Path(index)) or Path(index) / "model"
            yield codes, model
