"""Export of a model to ONNX: pixels or vectors in, ordered codes out, for any runtime and batch size.

    export_onnx("runs/mine", "model.onnx", dim=64)

    session = onnxruntime.InferenceSession("model.onnx")
    codes = session.run(None, {"pixels": pixels})[0]      # uint8 (n, channels, size, size) -> float32 (n, 64)

The file contains everything that `Eigenmap.encode` does to pixels of the right size, or to vectors (float32 (n,
length), named "vectors"): scaling, network, rotation, weights, norm.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write
from eigenmap.data.vectors.input import VectorInput
from eigenmap.model import Eigenmap, Side
from eigenmap.networks import code_rows

TOLERANCE = 1e-4
"""Largest accepted difference from a feature of `Eigenmap.encode`; float32 usually gives about 1e-6."""


class Pipeline(nn.Module):
    """Maps pixels or vectors to codes of norm 1, as `Eigenmap.encode` computes them."""

    centre: Tensor
    """Named unlike any operation: the converter names the constants that it computes after theirs."""
    rotation: Tensor

    def __init__(self, model: Eigenmap, dim: int) -> None:
        super().__init__()
        alignment = model.alignment
        self.network = model.network
        self.prepare = model.input if isinstance(model.input, VectorInput) else model.image
        self.source = model.source
        self.plain = model.plain
        self.register_buffer("centre", alignment.mean.float())
        self.register_buffer("rotation", (alignment.rotation * alignment.weights())[:, :dim].float())

    def forward(self, pixels: Tensor) -> Tensor:
        """Return codes (n, dim) of pixels (n, channels, size, size) or vectors (n, length)."""
        features, psi = self.network(self.prepare(pixels))
        rows = code_rows(features, psi, self.source, self.plain)
        code = (rows - self.centre) @ self.rotation
        # The squares of very large or small numbers would overflow or vanish.
        largest = code.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(code.dtype).tiny)
        return normalize(code / largest, dim=1)


def export_onnx(
    run: str | Path, out: str | Path, dim: int | None = None, side: Side | None = None, *, overwrite: bool = True
) -> float | None:
    """Write a model, or one side of it, as an ONNX file with its fingerprint and eigenvalues as metadata.

    Without `overwrite`, a file that exists when the model is written is kept, and an error is raised.

    Returns:
        The largest difference of a feature between ONNX Runtime and `Eigenmap.encode` on random input; None if
        onnxruntime is not installed.

    """
    for package in ("onnx", "onnxscript"):
        if importlib.util.find_spec(package) is None:
            raise EigenmapError(f'writing ONNX files needs {package}: pip install "eigenmap[onnx]"')
    out = a_path(out, "out")
    model = Eigenmap.load(run).side(side)
    if model.kind == "nodes":
        raise EigenmapError("Models of images and of vectors can be exported as ONNX, but this one takes nodes.")
    dim = model.check_dim(dim)
    content = _converted(Pipeline(model, dim).eval(), _example(model, 2), _metadata(model, dim), _name(model))
    difference = _difference(content, model, dim)
    if difference is not None and not difference < TOLERANCE:
        raise EigenmapError(
            f"ONNX Runtime disagrees with the model (features differ by {difference:.2g}); nothing was written"
        )
    with atomic_write(out, replace=overwrite) as file:
        file.write(content)
    return difference


def _name(model: Eigenmap) -> str:
    """Return the name of the file's input."""
    return "vectors" if model.kind == "vectors" else "pixels"


def _converted(pipeline: Pipeline, example: Tensor, metadata: dict[str, str], name: str) -> bytes:
    with _quiet():
        program: Any = torch.onnx.export(
            pipeline,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("n")},),
            input_names=[name],
            output_names=["codes"],
            verbose=False,
        )
    proto = program.model_proto
    for key, value in metadata.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    return bytes(proto.SerializeToString())


def _metadata(model: Eigenmap, dim: int) -> dict[str, str]:
    return {
        "eigenmap_fingerprint": model.weights_sha256 or "",
        "eigenmap_eigenvalues": json.dumps(model.eigenvalues_[:dim].tolist()),
    }


def _example(model: Eigenmap, n: int) -> Tensor:
    """Return n random inputs."""
    rng = np.random.default_rng(n)
    if isinstance(model.input, VectorInput):
        return torch.from_numpy(rng.normal(size=(n, model.input.length)).astype(np.float32))
    shape = (n, model.image.channels, model.image.size, model.image.size)
    return torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8))


def _difference(content: bytes, model: Eigenmap, dim: int) -> float | None:
    """Return the largest difference from the model's own codes, on batches of several sizes."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    largest = 0.0
    for n in (1, 5):
        given = _example(model, n)
        (codes,) = session.run(None, {_name(model): given.numpy()})
        largest = max(largest, float(np.abs(codes - model.encode(given, dim)).max()))
    return largest


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the converter's warnings about its own internals and missing packages."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
