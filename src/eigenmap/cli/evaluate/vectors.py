"""`eigenmap evaluate vectors`: search with codes or plain vectors of every length, compared with judgements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import note, number_table, print_result
from eigenmap.cli.evaluate.retrieval import NumberLists, circumstances, evaluate
from eigenmap.cli.options import (
    HOW,
    WHAT,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    QuietOption,
    argument,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_files, write_json_output
from eigenmap.cli.vector_codes import encode_vectors, open_vectors
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count

if TYPE_CHECKING:
    from eigenmap.data.vectors.vectors import Vectors
    from eigenmap.evaluation.retrieval import ScoreRow
    from eigenmap.model import Codes, Eigenmap


@evaluate.command(
    cls=NumberLists,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap evaluate vectors runs/text --queries q.npy --documents d.npy --relevance qrels.tsv[/cyan]

[cyan]  eigenmap evaluate vectors --queries q.npy --documents d.npy --relevance qrels.tsv --dims 32 64 384[/cyan]
""",
)
def vectors(
    run: Annotated[
        Path | None,
        argument(
            "[RUN]", "The model written by `eigenmap fit vectors`; without it, prefixes of the vectors are scored."
        ),
    ] = None,
    queries: Annotated[Path | None, option("--queries FILE", "Vectors of the queries.", WHAT, shown=True)] = None,
    documents: Annotated[Path | None, option("--documents FILE", "Vectors of the documents.", WHAT, shown=True)] = None,
    relevance: Annotated[
        Path | None,
        option(
            "--relevance FILE",
            "Judgements: TREC qrels (query 0 document grade), or query, document and grade separated by tabs.",
            WHAT,
            shown=True,
        ),
    ] = None,
    query_ids: Annotated[
        Path | None,
        option(
            "--query-ids FILE",
            "Names of the queries, one per line [dim](default: ids in the file, or row numbers)[/dim].",
            WHAT,
        ),
    ] = None,
    document_ids: Annotated[
        Path | None, option("--document-ids FILE", "Like --query-ids, for the documents.", WHAT)
    ] = None,
    dims: Annotated[
        list[int] | None, option("--dims N...", "Code lengths to measure [dim](default: 8 16 32 ... all)[/dim].", HOW)
    ] = None,
    top: Annotated[
        list[int] | None, option("--top N...", "Ranks at which recall is measured [dim](default: 10 100)[/dim].", HOW)
    ] = None,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rank the documents for every query, with codes of each length, and compare with judgements.

    [bold]ndcg@10[/bold]   gain of the first ten results, relative to the best ranking
    [bold]recall@k[/bold]  share of the relevant documents among the first k
    [bold]mrr[/bold]       mean of 1 / rank of the first relevant document
    """
    from eigenmap.data.vectors.qrels import load_qrels
    from eigenmap.data.vectors.vectors import load_vectors
    from eigenmap.evaluation.retrieval import lengths
    from eigenmap.evaluation.vectors import judged_search

    given = {"--queries": queries, "--documents": documents, "--relevance": relevance}
    missing = [name for name, value in given.items() if value is None]
    if missing or queries is None or documents is None or relevance is None:
        raise EigenmapError(f"{missing[0]} is missing: give --queries, --documents and --relevance.")
    check_files(force, json, reads=[run, queries, documents, relevance, query_ids, document_ids])
    place = check_device(device)
    model = None if run is None else _vector_model(run)
    sides = None if model is None else _sides(model)
    asked = load_vectors(queries) if sides is None else open_vectors(sides[0], queries)
    offered = load_vectors(documents) if sides is None else open_vectors(sides[1], documents)
    judged = load_qrels(relevance, _names(asked, query_ids), _names(offered, document_ids))
    if judged.unknown and not quiet:
        note(f"{judged.unknown:,} judgements of unknown queries or documents were left out.")
    if model is None or sides is None:
        if asked.n_features != offered.n_features:
            raise EigenmapError(
                f"{asked.name} has {asked.n_features:,} numbers per row and {offered.name} has "
                f"{offered.n_features:,}; give a model of both spaces as RUN."
            )
        at = dims or lengths(asked.n_features, 8 if asked.n_features > 8 else 1)
        rows = judged_search(asked.block(0, len(asked)), offered.block(0, len(offered)), judged, at, top or (10, 100))
    else:
        at = [model.check_dim(dim) for dim in dims] if dims else lengths(model.n_components, 8)
        query_codes = _codes(sides[0], asked, max(at), place, quiet)
        document_codes = _codes(sides[1], offered, max(at), place, quiet)
        rows = judged_search(query_codes, document_codes, judged, at, top or (10, 100), device=place)
    if json is not None:
        about = circumstances(run, model, place, "vectors") if run is not None and model is not None else {}
        protocol = {
            "queries": str(queries),
            "documents": str(documents),
            "relevance": str(relevance),
            "judged_queries": len(set(judged.queries.tolist())),
            "ranking": "cosine of the first dim features; ties by position",
        }
        write_json_output(json, {**about, "measured": "judged search", "protocol": protocol, "rows": rows})
    _show(rows, len(set(judged.queries.tolist())), len(offered))


def _vector_model(run: Path) -> Eigenmap:
    from eigenmap.model import Eigenmap

    model = Eigenmap.load(run)
    if model.kind != "vectors":
        raise EigenmapError(f"{run} is a model of {model.kind}; give one written by `eigenmap fit vectors`.")
    return model


def _sides(model: Eigenmap) -> tuple[Eigenmap, Eigenmap]:
    """Return the models of queries and of documents."""
    return model, model if model.right is None else model.right


def _names(vectors: Vectors, ids: Path | None) -> list[str]:
    from eigenmap.data.vectors.qrels import load_ids

    return vectors.names() if ids is None else load_ids(ids, len(vectors))


def _codes(model: Eigenmap, vectors: Vectors, dim: int, device: str, quiet: bool) -> Codes:
    import numpy as np

    return np.concatenate(list(encode_vectors(model, vectors, dim, device, quiet)))


def _show(rows: list[ScoreRow], queries: int, documents: int) -> None:
    metrics = [name for name in rows[0] if name != "dim"]
    cells = ([f"{row['dim']:.0f}", *(f"{row[name]:.3f}" for name in metrics)] for row in rows)
    print_result(
        number_table(
            f"{count(queries, 'query', 'queries')}, {count(documents, 'document')}", ["features", *metrics], cells
        )
    )
