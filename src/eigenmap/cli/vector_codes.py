"""Reading and encoding of vectors, shared by several verbs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import note, progress_bar
from eigenmap.cli.options import HOW, option
from eigenmap.cli.outputs import check_files, write_code_table, write_codes
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigenmap.data.vectors.vectors import Vectors
    from eigenmap.model import Codes, Eigenmap


class Side(str, Enum):
    """One of the two spaces of a model."""

    left = "left"
    right = "right"


SideOption = Annotated[
    Side | None,
    option(
        "--side",
        "Space of the vectors in a model of two: left for VECTORS of `eigenmap fit vectors`, right for --pairs.",
        HOW,
    ),
]


def side_of(model: Eigenmap, side: Side | None) -> Eigenmap:
    """Return the model of one side; a model of two spaces needs a side."""
    if model.right is not None and side is None:
        raise EigenmapError(
            f"The model has two spaces: add --side left for {_content(model)}, or --side right for "
            f"{_content(model.right)}."
        )
    return model.side(None if side is None else side.value)


def _content(model: Eigenmap) -> str:
    """Return what a model takes, in words."""
    from eigenmap.data.vectors.input import VectorInput

    return f"vectors of length {model.input.length:,}" if isinstance(model.input, VectorInput) else model.kind


def are_vectors(source: Path) -> bool:
    """Tell whether a source is a file of vectors; arrays of images have more dimensions."""
    from eigenmap.data.vectors.vectors import is_vector_file, load_vectors

    if not is_vector_file(source):
        return False
    try:
        load_vectors(source)
    except EigenmapError:
        return False
    return True


def open_vectors(model: Eigenmap, source: Path) -> Vectors:
    """Open a file of vectors that fits the model; its rows stay on disk."""
    from eigenmap.data.vectors.input import VectorInput

    assert isinstance(model.input, VectorInput)
    return model.input.open(source)


def encode_vectors(
    model: Eigenmap | None, vectors: Vectors, dim: int, device: str, quiet: bool = False
) -> Iterator[Codes]:
    """Encode vectors block by block, in order; without a model, cut them at `dim` and scale them to norm 1."""
    import numpy as np

    from eigenmap.search.scan import comparable

    done = 0
    with progress_bar("encoding" if model is not None else "reading", quiet) as tick:
        for rows in vectors.blocks():
            if model is not None:
                yield model.encode(rows, dim, device=device)
            else:
                # Scale first: numbers beyond the range of float32 would become infinite.
                largest = np.abs(rows[:, :dim]).max(axis=1, keepdims=True)
                yield comparable((rows[:, :dim] / np.where(largest > 0, largest, 1)).astype(np.float32), "cosine")
            done += len(rows)
            if tick is not None:
                tick(done, len(vectors))


def embed_vectors(
    run: Path, source: Path, out: Path, dim: int | None, device: str, side: Side | None, force: bool, quiet: bool
) -> None:
    """Write the codes of vectors, and their ids if they have any, to one file, block by block."""
    from eigenmap.data.vectors.fields import refuse_unnamed
    from eigenmap.embedding.files import SUFFIXES, names_file
    from eigenmap.model import Eigenmap

    if out.suffix not in SUFFIXES:
        raise EigenmapError(f"{out} must end in {', '.join(SUFFIXES)} for codes of vectors, for example codes.npy.")
    check_files(force, out, names_file(out), reads=[run, source])
    model = side_of(Eigenmap.load(run), side)
    dim, vectors = model.check_dim(dim), open_vectors(model, source)
    refuse_unnamed(vectors, str(source))
    codes = encode_vectors(model, vectors, dim, device, quiet)
    if out.suffix == ".parquet":
        write_code_table(out, vectors.names(), codes, model.weights_sha256 or "")
    else:
        write_codes(out, (len(vectors), dim), codes, vectors.ids)
    if not quiet:
        beside = f"; ids: {names_file(out)}" if vectors.ids is not None and out.suffix == ".npy" else ""
        note(f"{count(len(vectors), 'code')} of {count(dim, 'feature')}, in the order of the vectors: {out}{beside}")


def query_codes(
    model: Eigenmap | None, sources: Sequence[Path], dim: int, device: str, quiet: bool = False
) -> tuple[list[str], Codes]:
    """Return names and codes of all vectors in the files; with several files, names begin with the file's.

    Without a model the vectors are their own codes.
    """
    import numpy as np

    names: list[str] = []
    codes: list[Codes] = []
    for source in sources:
        vectors = open_vectors(model, source) if model is not None else _plain_queries(source, dim, quiet)
        names += [name if len(sources) == 1 else f"{source.name}/{name}" for name in vectors.names()]
        codes += list(encode_vectors(model, vectors, dim, device, quiet))
    return names, np.concatenate(codes)


def _plain_queries(source: Path, dim: int, quiet: bool) -> Vectors:
    """Open query vectors for an index of plain vectors; they are cut to its length, with a note, if they are longer."""
    from eigenmap.data.vectors.vectors import load_vectors

    vectors = load_vectors(source)
    if vectors.n_features < dim:
        raise EigenmapError(
            f"The index contains vectors of {dim:,} numbers, but those in {source} have fewer; give longer ones."
        )
    if vectors.n_features > dim and not quiet:
        note(f"Vectors in {source} are cut from {vectors.n_features:,} to {dim:,} numbers, the length in the index.")
    return vectors
