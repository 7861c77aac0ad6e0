"""Linear codes as plain numbers: arrays for any program, or an SQL function for pgvector.

A linear vector model computes

    code = normalise((x - mean) @ (matrix * weights))        x scaled to norm 1 first if `unit`

A code cut at any length and normalised again is the code of that length.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eigenmap.core.errors import EigenmapError
from eigenmap.spectrum import Alignment

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinearMap:
    """The numbers of a linear vector model.

    Attributes:
        mean: (d,), subtracted from a vector.
        matrix: (d, k), one column per feature, most important first.
        weights: (k,), weights of the features.
        unit: whether vectors are scaled to norm 1 first.

    """

    mean: Floats
    matrix: Floats
    weights: Floats
    unit: bool

    @classmethod
    def of(cls, alignment: Alignment, unit: bool, dim: int) -> LinearMap:
        """Return the first `dim` features of an alignment of vectors, which with `unit` takes rows of norm sqrt(d)."""
        mean, rotation = (each.double().cpu().numpy() for each in (alignment.mean, alignment.rotation))
        norm = float(np.sqrt(len(mean))) if unit else 1.0
        return cls(mean / norm, rotation[:, :dim] * norm, alignment.weights().double().cpu().numpy()[:dim], unit)

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return len(self.mean)

    @property
    def n_components(self) -> int:
        """Length of a code."""
        return len(self.weights)

    @property
    def folded(self) -> Floats:
        """The matrix times the weights."""
        return self.matrix * self.weights

    @property
    def bias(self) -> Floats:
        """Effect of centring on each feature: code = x @ folded + bias, before normalisation."""
        bias: Floats = -self.mean @ self.folded
        return bias

    def npy(self) -> bytes:
        """Return one matrix (d + 1, k) whose last row is the bias: code = normalise([x, 1] @ matrix)."""
        return _npy(np.vstack([self.folded, self.bias]).astype(np.float32))

    def npz(self) -> bytes:
        """Return an .npz file with the arrays mean, matrix, weights and unit."""
        file = io.BytesIO()
        arrays: dict[str, Any] = {**self._arrays(), "unit": np.array(self.unit)}
        np.savez(file, **arrays)
        return file.getvalue()

    def safetensors(self, metadata: dict[str, str]) -> bytes:
        """Return a file with the tensors mean, matrix and weights, and `unit` as true or false in its metadata."""
        from safetensors.numpy import save

        return bytes(save(self._arrays(), metadata={**metadata, "unit": str(self.unit).lower()}))

    def sql(self, function: str) -> bytes:
        """Return a function for PostgreSQL 14 and pgvector 0.7 or later: SELECT function(embedding).

        Its body is parsed when it is created, so that an index on it can be built under any search_path.
        """
        name = sql_name(function)
        size = f" / greatest(vector_norm(x), {np.finfo(np.float32).tiny:g})" if self.unit else ""
        # `<#>` is the negative inner product.
        features = ",\n    ".join(
            f"{_number(bias)} - (x <#> '[{','.join(map(_number, column))}]'::vector){size}"
            for column, bias in zip(self.folded.T, self.bias, strict=True)
        )
        return (
            f"-- Codes of {self.n_components} features from vectors of {self.n_features} numbers.\n"
            f"CREATE OR REPLACE FUNCTION {name}(x vector) RETURNS vector\n"
            "LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE\n"
            f"RETURN l2_normalize(ARRAY[\n    {features}\n]::real[]::vector);\n"
        ).encode()

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        named = {"mean": self.mean, "matrix": self.matrix, "weights": self.weights}
        return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in named.items()}


def sql_name(text: str) -> str:
    """Return a function name that needs no quotes.

    >>> sql_name("codes-64")
    'codes_64'
    """
    name = re.sub(r"\W", "_", text.lower(), flags=re.ASCII)
    if not re.match(r"[a-z_]", name) or len(name) > 63:
        raise EigenmapError(
            f"The SQL function is named after the file, and {text!r} is not a valid name: begin with a letter, and use "
            "at most 63 characters."
        )
    return name


def _number(value: float) -> str:
    """Format a float32 with as few digits as identify it."""
    return str(np.float32(value))


def _npy(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
