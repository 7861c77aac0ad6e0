"""Checkpoints small enough to be carried to another machine.

    pack(run / "checkpoint.pt", Path("name.carry"))
    unpack(Path("name.carry"), run / "checkpoint.pt")

Weight matrices, those of a teacher and of an average included, are rounded to half precision, and the optimizer's
momentum is left out: it is built up again within some tens of steps. Everything else, running statistics included, is
kept as it is. A run carried on is therefore not bit for bit the run that was never interrupted.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from eigenmap.training import checkpoint


def pack(path: Path, file: Path) -> None:
    """Write a checkpoint, compressed, to a file."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "checkpoint.pt"
        found = _mapped(checkpoint.load(path), lambda tensor: tensor.half() if tensor.ndim > 1 else tensor)
        checkpoint.save(replace(found, optimizer={**found.optimizer, "state": {}}), small)
        with small.open("rb") as source, gzip.open(file, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target)


def unpack(file: Path, path: Path) -> None:
    """Write the checkpoint in a file to a run folder, from which the run continues."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "checkpoint.pt"
        with gzip.open(file, "rb") as source, small.open("wb") as target:
            shutil.copyfileobj(source, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        found = _mapped(checkpoint.load(small), lambda x: x.float() if x.dtype == torch.float16 else x)
        checkpoint.save(found, path)


def _mapped(found: checkpoint.Checkpoint, change: Callable[[Tensor], Tensor]) -> checkpoint.Checkpoint:
    """Return a checkpoint with every tensor of its states changed."""

    def changed(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: change(tensor) if tensor.is_floating_point() else tensor for name, tensor in state.items()}

    parts = {name: changed(getattr(found, name)) for name in ("network", "objective", "average")}
    return replace(found, **parts)  # type: ignore[arg-type]
