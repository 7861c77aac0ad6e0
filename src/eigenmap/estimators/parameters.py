"""Parameters of an estimator in a file: as JSON has them, or to be passed again where they are the caller's own.

Numbers and arrays of NumPy or torch are stored as plain numbers and lists. A function, a module or a
`numpy.random.RandomState` is the caller's own: the file has its name only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.random import RandomState
from torch import nn

from eigenmap.core.errors import EigenmapError

Parameters = dict[str, Any]
OUTPUTS = ("default", "pandas", "polars")
"""What `set_output` may have been told."""

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "kernel": ("a function", callable),
    "objective": ("a torch module", lambda value: isinstance(value, nn.Module)),
    "network": ("a torch module", lambda value: isinstance(value, nn.Module)),
    "random_state": (
        "a seed, a RandomState or None",
        lambda value: value is None or (isinstance(value, Integral | RandomState) and not isinstance(value, bool)),
    ),
}
_OPTIONS: tuple[str, Callable[[Any], bool]] = (
    "a dictionary or None",
    lambda value: value is None or isinstance(value, Mapping),
)


def stored(parameters: Mapping[str, Any]) -> tuple[Parameters, dict[str, str]]:
    """Parameters for JSON, null for those of the caller's own; and the names of these, with what they are."""
    own = {name: _called(value) for name, value in parameters.items() if not _is_plain(value)}
    return {name: None if name in own else _plain(value) for name, value in parameters.items()}, own


def stored_twice(now: Mapping[str, Any], fitted: Mapping[str, Any]) -> tuple[Parameters, Parameters, dict[str, str]]:
    """Parameters as they are and as they were at the fit; those of the caller's own must be the same objects."""
    values, own = stored(now)
    fitted_values, fitted_own = stored(fitted)
    for name in sorted(own.keys() | fitted_own.keys()):
        if now[name] is not fitted[name]:
            raise EigenmapError(
                f"{name} was changed after the fit, and a {name} of your own is not stored: set it back, or fit again."
            )
    return values, fitted_values, own


def completed(
    values: Mapping[str, Any], own: Mapping[str, str], given: Mapping[str, Any], where: str, loader: str
) -> Parameters:
    """Stored parameters together with those that are passed again; an error for each too many or too few."""
    for name, called in own.items():
        if name not in given:
            raise EigenmapError(
                f"The model in {where} was fitted with {name}={called[:60]}, which is not stored: "
                f"pass it again, {loader}(directory, {name}=...)."
            )
    for name, value in given.items():
        if name not in own:
            raise EigenmapError(f"{loader} takes no {name} here: what the model in {where} needs of it is stored.")
        wanted, holds = _KINDS.get(name, _OPTIONS)
        if not holds(value):
            raise EigenmapError(f"{name} must be {wanted}, as it was when {where} was fitted, not {value!r}.")
    return {**values, **given}


def _plain(value: Any) -> Any:
    """A value as JSON has it; TypeError if it is none."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, np.ndarray | torch.Tensor):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _plain(each) for name, each in value.items()}
    raise TypeError


def _is_plain(value: Any) -> bool:
    try:
        _plain(value)
    except TypeError:
        return False
    return True


def _called(value: Any) -> str:
    return str(getattr(value, "__name__", type(value).__name__))
