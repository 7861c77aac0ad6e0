"""Checkpoints: one file per run, written atomically, read without executing code, refused if settings differ."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
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
MOST_THREADS = 4096
LENGTH = frozenset({"steps", "warmup_steps", "compile"})
"""Settings that depend on the length of a run."""


@dataclass(frozen=True)
class Checkpoint:
    """State of a run after `step` steps, at `position` in its schedule (None: `step`), computed with `threads` threads.

    No random-generator state is needed: batches and random numbers are functions of the step (see `loop.py`).
    """

    step: int
    seconds: float
    settings: dict[str, Setting]
    network: dict[str, Tensor]
    objective: dict[str, Tensor]
    optimizer: dict[str, Any]
    position: float | None = None
    threads: int | None = None
    average: dict[str, Tensor] = field(default_factory=dict)
    """Average of the weights; empty if there is none."""

    def require(self, settings: Mapping[str, Setting], path: Path) -> None:
        """Raise an error that names the settings that differ from those of this checkpoint.

        A larger number of steps is allowed: the run continues with the schedule of its new length.
        """
        names = {*self.settings, *settings}
        if _longer(self.settings.get("steps"), settings.get("steps")):
            names -= LENGTH
        missing = "not set"
        different = [
            f"{name} was {self.settings.get(name, missing)!r} and is now {settings.get(name, missing)!r}"
            for name in sorted(names)
            if self.settings.get(name, missing) != settings.get(name, missing)
        ]
        if different:
            raise EigenmapError(
                f"{path} cannot be resumed: {'; '.join(different)}. Use the old settings, or force=True to start over."
            )


def _longer(before: Setting, now: Setting) -> bool:
    return isinstance(before, int) and isinstance(now, int) and now > before


def save(checkpoint: Checkpoint, path: Path) -> None:
    """Write the file durably: after a kill or power cut, either the old or the new file is there."""
    state = {each.name: getattr(checkpoint, each.name) for each in fields(checkpoint)}
    state["settings"] = {name: _plain(value) for name, value in checkpoint.settings.items()}
    try:
        with atomic_path(path) as partial, partial.open("wb") as file:
            torch.save({"format": CHECKPOINT_FORMAT, **state}, file)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        reason = (isinstance(error, OSError) and error.strerror) or "is the disk full?"
        raise EigenmapError(
            f"the checkpoint {path} could not be written ({reason}); the previous one is intact."
        ) from error


def load(path: Path) -> Checkpoint:
    """Read a checkpoint onto the CPU; every byte is verified first, and nothing in it is executed.

    load(Path("runs/mine/checkpoint.pt")).settings["steps"]
    """
    if not path.is_file():
        raise EigenmapError(f"no checkpoint at {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # torch.load would read flipped bits as weights
        if damaged is not None:
            raise zipfile.BadZipFile(f"{damaged} fails its checksum")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise EigenmapError(f"the checkpoint {path} cannot be read: {error.strerror or error}.") from error
    except MemoryError:
        raise
    except Exception as error:  # a damaged file can fail anywhere inside the reader
        # torch's own message is omitted: it suggests opening the file in a way that can execute code.
        raise EigenmapError(
            f"the checkpoint {path} is damaged ({_reason(error)}); start over with force=True."
        ) from error
    return _checked(state, path)


def _reason(error: Exception) -> str:
    if isinstance(error, zipfile.BadZipFile):
        return "it is truncated or corrupt"
    if isinstance(error, UnpicklingError):
        return "it contains something other than tensors and numbers"
    return "it cannot be read completely"


def _checked(state: Any, path: Path) -> Checkpoint:
    """Return the checkpoint if all of its parts have the types that `save` writes."""
    if not isinstance(state, dict) or "format" not in state:
        raise EigenmapError(f"the checkpoint {path} is damaged (unexpected content); start over with force=True.")
    if type(state["format"]) is not int or state["format"] != CHECKPOINT_FORMAT:
        raise EigenmapError(f"the checkpoint {path} has another format version; start over with force=True.")
    state = {"position": None, "threads": None, "average": {}} | state  # not stored by older versions
    wrong = [name for name, holds in _KINDS.items() if name not in state or not holds(state[name])]
    wrong += [str(name)[:40] for name in state if name != "format" and name not in _KINDS]
    if wrong:
        raise EigenmapError(
            f"the checkpoint {path} is damaged ({', '.join(wrong)} cannot be used); start over with force=True."
        )
    return Checkpoint(**{name: state[name] for name in _KINDS})


def _is_state(value: Any) -> bool:
    """Tell whether this is a state dictionary; loading it shows whether it fits."""
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
    "position": lambda value: value is None or (is_number(value) and value >= 0),
    "average": _is_state,
    "threads": lambda value: value is None or (type(value) is int and 1 <= value <= MOST_THREADS),
}
"""Expected type of each part of a checkpoint."""


def _plain(value: Any) -> Setting:
    """Convert a NumPy number to Python's, the only kind that loads without executing code."""
    plain: Setting = value.item() if hasattr(value, "item") else value
    return plain
