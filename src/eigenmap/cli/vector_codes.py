"""Reading and encoding of vectors, shared by several verbs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigenmap.cli.console import note, progress_bar
from eigenmap.cli.options import HOW
from eigenmap.cli.outputs import check_files, write_codes
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigenmap.data.vectors.vectors import Vectors
    from eigenmap.model import Codes, Eigenmap


class Side(str, Enum):
    """Which of two spaces."""

    left = "left"
    right = "right"


SideOption = Annotated[
    Side | None,
    typer.Option(
        "--side",
        help="Which space the vectors are of, for a model of two: left is that of VECTORS in `eigenmap fit vectors`, "
        "right that of --pairs.",
        show_default=False,
        rich_help_panel=HOW,
    ),
]


def side_of(model: Eigenmap, side: Side | None) -> Eigenmap:
    """The model of the space that is meant; a model of two spaces has to be told."""
    if model.right is not None and side is None:
        raise EigenmapError("The model has two spaces: say which one the vectors are of, --side left or --side right.")
    return model.side(None if side is None else side.value)


def open_vectors(model: Eigenmap, source: Path) -> Vectors:
    """A file of vectors that the model can take, left on disk."""
    from eigenmap.data.vectors.input import VectorInput

    assert isinstance(model.input, VectorInput)
    return model.input.open(source)


def encode_vectors(model: Eigenmap, vectors: Vectors, dim: int, device: str, quiet: bool = False) -> Iterator[Codes]:
    """Codes of vectors in their order, a block at a time."""
    done = 0
    with progress_bar("encoding", quiet) as tick:
        for rows in vectors.blocks():
            yield model.encode(rows, dim, device=device)
            done += len(rows)
            if tick is not None:
                tick(done, len(vectors))


def embed_vectors(
    run: Path, source: Path, out: Path, dim: int | None, device: str, side: Side | None, force: bool, quiet: bool
) -> None:
    """Write the codes of vectors to one file, in their order, as they are made."""
    from eigenmap.embedding.files import names_file
    from eigenmap.model import Eigenmap

    if out.suffix not in (".npy", ".npz"):
        raise EigenmapError(f"{out} must end in .npy or .npz for codes of vectors, for example codes.npy.")
    check_files(force, out, names_file(out))
    model = side_of(Eigenmap.load(run), side)
    dim, vectors = model.check_dim(dim), open_vectors(model, source)
    write_codes(out, (len(vectors), dim), encode_vectors(model, vectors, dim, device, quiet))
    if not quiet:
        note(f"{len(vectors):,} codes of {dim} features, in the order of the vectors: {out}")


def query_codes(
    model: Eigenmap, sources: Sequence[Path], dim: int, device: str, quiet: bool = False
) -> tuple[list[str], Codes]:
    """Names and codes of all vectors of some files; names begin with the file where there are several."""
    import numpy as np

    names: list[str] = []
    codes: list[Codes] = []
    for source in sources:
        vectors = open_vectors(model, source)
        names += [name if len(sources) == 1 else f"{source.name}/{name}" for name in vectors.names()]
        codes += list(encode_vectors(model, vectors, dim, device, quiet))
    return names, np.concatenate(codes)
