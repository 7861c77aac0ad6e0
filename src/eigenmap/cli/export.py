"""`eigenmap export`: models and codes in the formats of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note
from eigenmap.cli.options import OUTPUT, DimOption, ForceOption, QuietOption, TableOption, argument, option
from eigenmap.cli.outputs import check_file
from eigenmap.cli.search import database
from eigenmap.cli.vector_codes import Side, SideOption
from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap export runs/mine --to model.onnx --dim 64[/cyan]

[cyan]  eigenmap export photos.index --to codes.parquet[/cyan]

[cyan]  eigenmap export photos.index --to codes.faiss --dim 64[/cyan]
""",
)
def export(
    what: Annotated[
        str, argument("RUN|INDEX", "A model for .onnx; an index (folder or postgresql://...) for .parquet and .faiss.")
    ],
    to: Annotated[Path, option("--to FILE", "model.onnx, codes.parquet or codes.faiss.", OUTPUT)],
    dim: DimOption = None,
    side: SideOption = None,
    table: TableOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a model, or the codes of an index, for other programs.

    ONNX: pixels or vectors in, codes out, any number at a time. Parquet: columns id and code. FAISS: a flat index of
    inner products; ids that are texts go to a JSON file beside it, codes.faiss.ids.json.
    """
    require_path(to)
    if to.suffix not in (".onnx", ".parquet", ".faiss"):
        raise EigenmapError(f"{to} must end in .onnx (a model), .parquet or .faiss (the codes of an index).")
    check_file(to, force)
    if side is not None and to.suffix != ".onnx":
        raise EigenmapError("--side says which space of a model to export; leave it out for the codes of an index.")
    said = _export_model(what, to, dim, side) if to.suffix == ".onnx" else _export_codes(what, to, dim, table, force)
    if not quiet:
        note(f"{to}: {said}")


def _export_model(run: str, to: Path, dim: int | None, side: Side | None) -> str:
    from eigenmap.export import export_onnx

    difference = export_onnx(run, to, dim, None if side is None else side.value)
    if difference is None:
        return "not compared with the model, because onnxruntime is not installed."
    return f"its codes differ from the model's by at most {difference:.1g}."


def _export_codes(index: str, to: Path, dim: int | None, table: str | None, force: bool) -> str:
    from eigenmap.export import export_faiss, export_parquet
    from eigenmap.export.codes import faiss_names_file

    with database.codes_at(index, table) as codes:
        if to.suffix == ".parquet":
            return f"{count(export_parquet(codes, to, dim), 'code')}, columns id and code."
        check_file(faiss_names_file(to), force)
        names_written = export_faiss(codes, to, dim)
        return count(len(codes), "code") + (f", their ids in {names_written}." if names_written else ".")
