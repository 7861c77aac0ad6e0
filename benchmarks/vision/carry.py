"""Checkpoints small enough to be carried to another machine, in several files: `name.carry.00` and so on.

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

from benchmarks.common.errors import BenchmarkError
from eigenmap.training import checkpoint

PART = 15 * 2**20
"""Largest size of a file in bytes: a borrowed machine returns files of at most 16 MiB."""


def pack(path: Path, file: Path) -> int:
    """Write a checkpoint, compressed, to numbered parts of a file; return its size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        small, packed = Path(folder) / "checkpoint.pt", Path(folder) / "packed"
        found = _mapped(checkpoint.load(path), lambda tensor: tensor.half() if tensor.ndim > 1 else tensor)
        checkpoint.save(replace(found, optimizer={**found.optimizer, "state": {}}), small)
        with small.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
            shutil.copyfileobj(source, target)
        remove(file)
        with packed.open("rb") as whole:
            for number, part in enumerate(iter(lambda: whole.read(PART), b"")):
                file.with_name(f"{file.name}.{number:02}").write_bytes(part)
        return packed.stat().st_size


def parts(file: Path) -> list[Path]:
    """Return the parts of a packed checkpoint in order; none if there is none."""
    return sorted(file.parent.glob(f"{file.name}.[0-9][0-9]"))


def remove(file: Path) -> None:
    """Delete a packed checkpoint."""
    for part in parts(file):
        part.unlink()


def unpack(file: Path, path: Path) -> None:
    """Write the checkpoint in the parts of a file to a run folder, from which the run continues."""
    with tempfile.TemporaryDirectory() as folder:
        small, packed = Path(folder) / "checkpoint.pt", Path(folder) / "packed"
        packed.write_bytes(b"".join(part.read_bytes() for part in parts(file)))
        try:
            with gzip.open(packed, "rb") as source, small.open("wb") as target:
                shutil.copyfileobj(source, target)
        except (EOFError, gzip.BadGzipFile) as error:
            found = ", ".join(part.name for part in parts(file))
            raise BenchmarkError(f"A part of {file} is missing; there are {found}.") from error
        path.parent.mkdir(parents=True, exist_ok=True)
        found = _mapped(checkpoint.load(small), lambda x: x.float() if x.dtype == torch.float16 else x)
        checkpoint.save(found, path)


def _mapped(found: checkpoint.Checkpoint, change: Callable[[Tensor], Tensor]) -> checkpoint.Checkpoint:
    """Return a checkpoint with every tensor of its states changed."""

    def changed(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: change(tensor) if tensor.is_floating_point() else tensor for name, tensor in state.items()}

    parts = {name: changed(getattr(found, name)) for name in ("network", "objective", "average")}
    return replace(found, **parts)  # type: ignore[arg-type]
