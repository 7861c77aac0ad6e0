"""`eigenmap export`: models and codes in the formats of other programs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note
from eigenmap.cli.options import OUTPUT, WHAT, DimOption, ForceOption, QuietOption, TableOption, argument, option
from eigenmap.cli.outputs import check_file
from eigenmap.cli.search import database
from eigenmap.cli.vector_codes import Side, SideOption, side_of
from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.folders import is_empty_folder
from eigenmap.core.words import count

FOLDER = "sentence-transformers"
"""Value of --to for a folder instead of a file."""
WEIGHTS = ".pth"


class Keys(str, Enum):
    """Program whose names the weights of an encoder get."""

    torchvision = "torchvision"
    detectron2 = "detectron2"


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap export runs/mine --to model.onnx --dim 64[/cyan]

[cyan]  eigenmap export photos.index --to codes.parquet[/cyan]

[cyan]  eigenmap export photos.index --to codes.faiss --dim 64[/cyan]

[cyan]  eigenmap export runs/text --to codes.sql --dim 64[/cyan]

[cyan]  eigenmap export runs/text --to sentence-transformers --base all-MiniLM-L6-v2/ --out text-codes/[/cyan]

[cyan]  eigenmap export runs/mine --to encoder.pth --keys detectron2[/cyan]
""",
)
def export(
    what: Annotated[
        str,
        argument("RUN|INDEX", "A model, or an index (folder or postgresql://...) for .parquet and .faiss."),
    ],
    to: Annotated[
        Path,
        option(
            "--to FILE",
            "model.onnx, codes.parquet or codes.faiss; for a linear model of vectors also map.npy, map.npz, "
            "map.safetensors or codes.sql; for a ResNet, encoder.pth; or the word sentence-transformers.",
            OUTPUT,
        ),
    ],
    dim: DimOption = None,
    base: Annotated[
        Path | None,
        option("--base FOLDER", "The sentence-transformers folder of the model that made the vectors.", WHAT),
    ] = None,
    out: Annotated[
        Path | None, option("--out -o FOLDER", "The new folder, for --to sentence-transformers.", OUTPUT)
    ] = None,
    keys: Annotated[
        Keys | None,
        option("--keys", "Names of the weights in encoder.pth [dim](default: torchvision)[/dim].", WHAT),
    ] = None,
    side: SideOption = None,
    table: TableOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a model, or the codes of an index, for other programs.

    ONNX: pixels or vectors in, codes out, any number at a time. Parquet: columns id and code. FAISS: a flat index of
    inner products; ids that are texts go to a JSON file beside it, codes.faiss.ids.json.

    A linear model of vectors x makes codes (x - mean) @ (matrix * weights) of norm 1. map.npz and map.safetensors
    contain these three, map.npy one matrix for (x, 1), and codes.sql a function for PostgreSQL with pgvector, named
    after the file: codes(vector). A sentence-transformers folder turns texts into codes, without eigenmap if the model
    is linear.

    encoder.pth contains the weights of a ResNet without its projector, to fine-tune it elsewhere.
    """
    if keys is not None and to.suffix != WEIGHTS:
        raise EigenmapError(f"--keys is for the weights of an encoder, --to FILE{WEIGHTS}.")
    if str(to) == FOLDER:
        said = _export_folder(what, base, out, dim, side, force)
        to = out or to
    elif base is not None or out is not None:
        raise EigenmapError(f"--base and --out go with --to {FOLDER}; for a file give --to FILE alone.")
    elif to.suffix == WEIGHTS:
        if dim is not None or side is not None or table is not None:
            raise EigenmapError(f"--dim, --side and --table are for codes; leave them out for {to}.")
        said = _export_weights(what, to, keys or Keys.torchvision, force)
    else:
        said = _export_file(what, to, dim, side, table, force)
    if not quiet:
        note(f"{to}: {said}")


def _export_file(what: str, to: Path, dim: int | None, side: Side | None, table: str | None, force: bool) -> str:
    from eigenmap.export.maps import SUFFIXES

    require_path(to)
    models = (".onnx", *SUFFIXES)
    if to.suffix not in (*models, ".parquet", ".faiss"):
        raise EigenmapError(
            f"{to} must end in .onnx (a model), {', '.join(SUFFIXES)} (a linear model of vectors), .parquet or .faiss "
            f"(the codes of an index), {WEIGHTS} (the weights of an encoder), or be the word {FOLDER}."
        )
    check_file(to, force, [what])
    if to.suffix in models:
        if table is not None:
            raise EigenmapError("--table is for the codes of an index; leave it out for a model.")
        return _export_model(what, to, dim, side, force)
    if side is not None:
        raise EigenmapError("--side selects a space of a model; leave it out for the codes of an index.")
    return _export_codes(what, to, dim, table, force)


def _export_weights(run: str, to: Path, keys: Keys, force: bool) -> str:
    from eigenmap.detection.weights import save_weights
    from eigenmap.model import Eigenmap
    from eigenmap.networks import ResNet

    require_path(to)
    check_file(to, force, [run])
    encoder = Eigenmap.load(run).network.encoder
    if not isinstance(encoder, ResNet):
        raise EigenmapError(f"{run} has no ResNet, and only its weights have names in {keys.value}.")
    save_weights(encoder, to, keys.value)
    stem = encoder.conv1.kernel_size[0]
    more = "" if stem == 7 else f"; its first convolution is {stem}x{stem}, where theirs is 7x7"
    return f"weights of the encoder, named as in {keys.value}{more}."


def _export_folder(
    run: str, base: Path | None, out: Path | None, dim: int | None, side: Side | None, force: bool
) -> str:
    from eigenmap.model import Eigenmap

    if base is None or out is None:
        missing = "--base FOLDER (the model that made the vectors)" if base is None else "--out FOLDER"
        raise EigenmapError(f"--to {FOLDER} needs {missing}.")
    model = side_of(Eigenmap.load(run), side)
    if out.exists() and not force and not is_empty_folder(out):
        raise EigenmapError(f"{out} exists; choose another name, or use --force to replace it.")
    model.to_sentence_transformers(base, out, dim, overwrite=force)
    more = "" if model.is_linear else ", trust_remote_code=True"
    return f'load it with SentenceTransformer("{out}"{more}); truncate_dim cuts its codes.'


def _export_model(run: str, to: Path, dim: int | None, side: Side | None, force: bool) -> str:
    from eigenmap.export import export_map, export_onnx
    from eigenmap.formats.linear_map import sql_name

    if to.suffix != ".onnx":
        numbers = export_map(run, to, dim, None if side is None else side.value, overwrite=force)
        said = f"codes of {numbers.n_components} features from vectors of {numbers.n_features} numbers"
        if to.suffix == ".sql":
            return f"function {sql_name(to.stem)}(vector), {said}."
        return f"{said} of norm 1." if numbers.unit else f"{said}."
    difference = export_onnx(run, to, dim, None if side is None else side.value, overwrite=force)
    if difference is None:
        return "not compared with the model, because onnxruntime is not installed."
    return f"its codes differ from the model's by at most {difference:.1g}."


def _export_codes(index: str, to: Path, dim: int | None, table: str | None, force: bool) -> str:
    from eigenmap.export import export_faiss, export_parquet
    from eigenmap.export.codes import faiss_names_file

    with database.codes_at(index, table) as codes:
        if to.suffix == ".parquet":
            return f"{count(export_parquet(codes, to, dim, overwrite=force), 'code')}, columns id and code."
        check_file(faiss_names_file(to), force, [index])
        names_written = export_faiss(codes, to, dim, overwrite=force)
        return count(len(codes), "code") + (f", their ids in {names_written}." if names_written else ".")
