"""Reading and encoding of vectors, shared by several verbs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import note, progress_bar
from eigenmap.cli.options import HOW, option
from eigenmap.cli.outputs import check_files, write_codes
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
    """Return the model of one side; raise if a model of two spaces is given no side."""
    if model.right is not None and side is None:
        raise EigenmapError("The model has two spaces: give the one of the vectors with --side left or --side right.")
    return model.side(None if side is None else side.value)


def open_vectors(model: Eigenmap, source: Path) -> Vectors:
    """Open a file of vectors that fits the model; its rows stay on disk."""
    from eigenmap.data.vectors.input import VectorInput

    assert isinstance(model.input, VectorInput)
    return model.input.open(source)


def encode_vectors(model: Eigenmap, vectors: Vectors, dim: int, device: str, quiet: bool = False) -> Iterator[Codes]:
    """Encode vectors block by block, in their order."""
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
    """Write the codes of vectors to one file, block by block."""
    from eigenmap.embedding.files import names_file
    from eigenmap.model import Eigenmap

    if out.suffix not in (".npy", ".npz"):
        raise EigenmapError(f"{out} must end in .npy or .npz for codes of vectors, for example codes.npy.")
    check_files(force, out, names_file(out))
    model = side_of(Eigenmap.load(run), side)
    dim, vectors = model.check_dim(dim), open_vectors(model, source)
    write_codes(out, (len(vectors), dim), encode_vectors(model, vectors, dim, device, quiet))
    if not quiet:
        note(f"{count(len(vectors), 'code')} of {count(dim, 'feature')}, in the order of the vectors: {out}")


def query_codes(
    model: Eigenmap, sources: Sequence[Path], dim: int, device: str, quiet: bool = False
) -> tuple[list[str], Codes]:
    """Return names and codes of all vectors in the files; with several files, names begin with the file's."""
    import numpy as np

    names: list[str] = []
    codes: list[Codes] = []
    for source in sources:
        vectors = open_vectors(model, source)
        names += [name if len(sources) == 1 else f"{source.name}/{name}" for name in vectors.names()]
        codes += list(encode_vectors(model, vectors, dim, device, quiet))
    return names, np.concatenate(codes)
