"""Vector models for other programs: as plain numbers, and as modules of sentence-transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.input import VectorInput
from eigenmap.formats.linear_map import LinearMap
from eigenmap.formats.sentence_transformers import Module, linear_modules, own_modules

if TYPE_CHECKING:
    from eigenmap.model.eigenmap import Eigenmap


def linear_map(model: Eigenmap, dim: int | None) -> LinearMap:
    """Return the map of a linear vector model as plain numbers."""
    if not isinstance(model.input, VectorInput) or not model.is_linear:
        what = "has a neural head" if isinstance(model.input, VectorInput) else f"takes {model.kind}"
        instead = "" if model.kind == "nodes" else "; export it as ONNX"
        raise EigenmapError(f"Only a linear vector model is a matrix, but this one {what}{instead}.")
    return LinearMap.of(model.alignment, model.input.unit, model.check_dim(dim))


def modules_of(model: Eigenmap, dim: int | None) -> tuple[list[Module], tuple[int, int]]:
    """Return the modules that turn vectors into codes, and the lengths of vectors and codes."""
    if not isinstance(model.input, VectorInput):
        raise EigenmapError(f"sentence-transformers needs a vector model, but this one takes {model.kind}.")
    dim = model.check_dim(dim)
    lengths = model.input.length, dim
    if model.is_linear:
        return linear_modules(linear_map(model, dim)), lengths
    cut = model.alignment.cut(dim)
    alone = type(model)(model.network, cut, model.source, model.input, model.encoder, model.training)
    return own_modules(alone.save), lengths
