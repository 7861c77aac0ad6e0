"""One file that holds a run: written whole or not at all, read without executing anything, refused if it differs."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eigenmap.errors import EigenmapError
from eigenmap.files import whole
from eigenmap.training.config import Setting

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after `step` steps.

    No state of random generators is needed: batches and random numbers are functions of the step (see `loop.py`).
    """

    step: int
    seconds: float
    settings: dict[str, Setting]
    network: dict[str, Tensor]
    objective: dict[str, Tensor]
    optimizer: dict[str, Any]

    def require(self, settings: Mapping[str, Setting], path: Path) -> None:
        """Raise an error that names the settings which differ from those this checkpoint was made with."""
        names = sorted({*self.settings, *settings})
        missing = "not set"
        different = [
            f"{name} was {self.settings.get(name, missing)!r} and is now {settings.get(name, missing)!r}"
            for name in names
            if self.settings.get(name, missing) != settings.get(name, missing)
        ]
        if different:
            raise EigenmapError(
                f"{path} cannot be resumed: {'; '.join(different)}. Use the old settings, or start anew with --force."
            )


def save(checkpoint: Checkpoint, path: Path) -> None:
    """Write the file durably: a kill or a power cut at any moment leaves the old or the new one."""
    state = {field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)}
    state["settings"] = {name: _plain(value) for name, value in checkpoint.settings.items()}
    try:
        with whole(path) as partial, partial.open("wb") as file:
            torch.save({"format": FORMAT, **state}, file)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        reason = (isinstance(error, OSError) and error.strerror) or "is the disk full?"
        raise EigenmapError(
            f"the checkpoint {path} could not be written ({reason}); an earlier one there is intact."
        ) from error


def load(path: Path) -> Checkpoint:
    """Read a checkpoint onto the CPU; every byte is checked first, and nothing in it is executed.

    load(Path("runs/mine/checkpoint.pt")).settings["steps"]
    """
    if not path.is_file():
        raise EigenmapError(f"there is no checkpoint {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # torch.load itself would read flipped bits as weights
        if damaged is not None:
            raise zipfile.BadZipFile(f"{damaged} fails its checksum")
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state.pop("format") != FORMAT:
            raise EigenmapError(f"the checkpoint {path} has another format version; start anew with --force.")
        return Checkpoint(**state)
    except EigenmapError:
        raise
    except OSError as error:
        raise EigenmapError(f"the checkpoint {path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # a damaged file can fail anywhere inside the reader
        raise EigenmapError(f"the checkpoint {path} is damaged ({error}); start anew with --force.") from error


def _plain(value: Any) -> Setting:
    """A number of numpy as Python's own, the only kind that loads without executing anything."""
    plain: Setting = value.item() if hasattr(value, "item") else value
    return plain
