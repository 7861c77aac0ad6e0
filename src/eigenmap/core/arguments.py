"""Validation of arguments to public functions."""

from __future__ import annotations

import math
import operator
import os
from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import shortened

if TYPE_CHECKING:
    import torch

LARGEST_SEED = 2**63 - 1
"""Largest accepted seed; torch allows twice this, but some seeds are derived by adding to it."""


def whole_number(value: object, name: str, low: int = 1, high: int | None = None) -> int:
    """Return `value` as an int in [low, high]; raise an error that says what is allowed.

    >>> whole_number(16, "dim", 1, 256)
    16
    """
    allowed = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < low or (high is not None and number > high):
        raise EigenmapError(f"{name} must be {allowed}, not {shortened(value)}")
    return number


def seed_number(value: object) -> int:
    """Return a seed as a Python int; NumPy integers would overflow."""
    return whole_number(value, "seed", 0, LARGEST_SEED)


def is_number(value: object) -> bool:
    """Tell whether this is a finite number of Python or NumPy."""
    try:
        return not isinstance(value, bool | str | bytes) and math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def a_path(value: object, name: str) -> Path:
    """Return a valid file-system path; refuse addresses.

    >>> a_path("runs/mine", "out")
    PosixPath('runs/mine')
    """
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise EigenmapError(f"{name} must be a path, as text or as a pathlib.Path, not {value!r}")
    text = os.fspath(value)
    if not text or "\0" in text:  # "" would mean the current folder
        raise EigenmapError(f"{name} must be a path, not {text!r}")
    require_path(text)
    return Path(text)


def a_device(value: object) -> torch.device:
    """Return a device on which torch can compute here.

    >>> a_device("cpu")
    device(type='cpu')
    """
    import torch

    try:
        device: torch.device = torch.device(value)  # type: ignore[call-overload]
        # Allocated and read back: torch accepts names of absent devices, and "meta", which holds no values.
        torch.zeros(1, device=device).cpu()
    except (TypeError, ValueError, RuntimeError, AssertionError, NotImplementedError):
        here = 'use "cpu" or "cuda"' if torch.cuda.is_available() else 'only "cpu" is available'
        raise EigenmapError(f"device {value!r} is not available here; {here}") from None
    return device
