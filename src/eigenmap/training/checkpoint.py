"""One file that holds a run: written whole or not at all, read without executing anything, refused if it differs."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from eigenmap.core.arguments import is_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_path
from eigenmap.training.config import Setting

CHECKPOINT_FORMAT = 1


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
        with atomic_path(path) as partial, partial.open("wb") as file:
            torch.save({"format": CHECKPOINT_FORMAT, **state}, file)
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
    except OSError as error:
        raise EigenmapError(f"the checkpoint {path} cannot be read: {error.strerror or error}.") from error
    except MemoryError:
        raise
    except Exception as error:  # a damaged file can fail anywhere inside the reader
        # What torch itself says is left out: it advises to open the file in a way that can execute it.
        raise EigenmapError(f"the checkpoint {path} is damaged ({_reason(error)}); start anew with --force.") from error
    return _checked(state, path)


def _reason(error: Exception) -> str:
    if isinstance(error, zipfile.BadZipFile):
        return "it is cut short, or its bytes have changed"
    if isinstance(error, UnpicklingError):
        return "it holds something other than tensors and numbers"
    return "it cannot be read to its end"


def _checked(state: Any, path: Path) -> Checkpoint:
    """The checkpoint, if all that is in it is of the kind that `save` writes."""
    if not isinstance(state, dict) or "format" not in state:
        raise EigenmapError(f"the checkpoint {path} is damaged (it holds something else); start anew with --force.")
    if type(state["format"]) is not int or state["format"] != CHECKPOINT_FORMAT:
        raise EigenmapError(f"the checkpoint {path} has another format version; start anew with --force.")
    wrong = [name for name, holds in _KINDS.items() if name not in state or not holds(state[name])]
    wrong += [str(name)[:40] for name in state if name != "format" and name not in _KINDS]
    if wrong:
        raise EigenmapError(
            f"the checkpoint {path} is damaged ({', '.join(wrong)} cannot be used); start anew with --force."
        )
    return Checkpoint(**{name: state[name] for name in _KINDS})


def _is_state(value: Any) -> bool:
    """Whether this is a state by name; whether it fits is seen when it is loaded."""
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _are_settings(value: Any) -> bool:
    plain = (str, int, float, bool, type(None))
    return isinstance(value, dict) and all(isinstance(k, str) and isinstance(v, plain) for k, v in value.items())


_KINDS: dict[str, Callable[[Any], bool]] = {
    "step": lambda value: type(value) is int and value >= 0,
    "seconds": lambda value: isinstance(value, int | float) and is_number(value) and value >= 0,
    "settings": _are_settings,
    "network": _is_state,
    "objective": _is_state,
    "optimizer": lambda value: isinstance(value, dict),
}
"""What the parts of a checkpoint are."""


def _plain(value: Any) -> Setting:
    """A number of numpy as Python's own, the only kind that loads without executing anything."""
    plain: Setting = value.item() if hasattr(value, "item") else value
    return plain
