"""What callers pass to public functions, as plain types, or the sentence that says what is wrong with it."""

from __future__ import annotations

import math
import operator
import os
from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    import torch

LARGEST_SEED = 2**63 - 1
"""torch takes twice that, but some seeds are this one plus a little."""


def whole_number(value: object, name: str, low: int = 1, high: int | None = None) -> int:
    """`value` as an int in [low, high], or an error that says what is allowed.

    >>> whole_number(16, "dim", 1, 256)
    16
    """
    allowed = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < low or (high is not None and number > high):
        raise EigenmapError(f"{name} must be {allowed}, not {value!r}")
    return number


def seed_number(value: object) -> int:
    """A seed as one of Python's own numbers: numpy's would overflow."""
    return whole_number(value, "seed", 0, LARGEST_SEED)


def is_number(value: object) -> bool:
    """Whether this is a finite number, Python's or numpy's."""
    try:
        return not isinstance(value, bool | str | bytes) and math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def a_path(value: object, name: str) -> Path:
    """A path that a file system can have, and no address.

    >>> a_path("runs/mine", "out")
    PosixPath('runs/mine')
    """
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise EigenmapError(f"{name} must be a path, as text or as a pathlib.Path, not {value!r}")
    text = os.fspath(value)
    if not text or "\0" in text:  # "" would mean the folder one happens to be in
        raise EigenmapError(f"{name} must be a path, not {text!r}")
    require_path(text)
    return Path(text)


def a_device(value: object) -> torch.device:
    """Where torch can compute on this machine.

    >>> a_device("cpu")
    device(type='cpu')
    """
    import torch

    try:
        device: torch.device = torch.device(value)  # type: ignore[call-overload]
        # Made there and fetched back: torch knows names of devices that are not here, and one that holds no numbers.
        torch.zeros(1, device=device).cpu()
    except (TypeError, ValueError, RuntimeError, AssertionError, NotImplementedError):
        here = 'use "cpu" or "cuda"' if torch.cuda.is_available() else 'there is only "cpu"'
        raise EigenmapError(f"device {value!r} is not one that torch can use here; {here}") from None
    return device
