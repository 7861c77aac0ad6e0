"""Export of a linear vector model as plain numbers: arrays, or a function for pgvector."""

from __future__ import annotations

from pathlib import Path

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write
from eigenmap.formats.linear_map import LinearMap
from eigenmap.model import Eigenmap, Side

SUFFIXES = (".npy", ".npz", ".safetensors", ".sql")


def export_map(
    run: str | Path, out: str | Path, dim: int | None = None, side: Side | None = None, *, overwrite: bool = True
) -> LinearMap:
    """Write a linear vector model, or one side of it, as plain numbers in the format given by the suffix of `out`.

    .npy          one matrix (d + 1, k): code = normalise([x, 1] @ matrix)
    .npz          arrays mean, matrix, weights, unit: code = normalise((x - mean) @ (matrix * weights))
    .safetensors  tensors of the same names, `unit` in the metadata
    .sql          a function for PostgreSQL with pgvector, named after the file

    If `unit` of the result is true, vectors must be scaled to norm 1 first; the SQL function does that itself. Without
    `overwrite`, a file that exists when the numbers are written is kept, and an error is raised.
    """
    out = a_path(out, "out")
    if out.suffix not in SUFFIXES:
        raise EigenmapError(f"{out} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
    model = Eigenmap.load(run).side(side)
    numbers = model.linear_map(dim)
    content = _content(numbers, out, model.weights_sha256 or "")
    with atomic_write(out, replace=overwrite) as file:
        file.write(content)
    return numbers


def _content(numbers: LinearMap, out: Path, fingerprint: str) -> bytes:
    if out.suffix == ".npy":
        return numbers.npy()
    if out.suffix == ".npz":
        return numbers.npz()
    if out.suffix == ".sql":
        return numbers.sql(out.stem)
    return numbers.safetensors({"eigenmap_fingerprint": fingerprint})
