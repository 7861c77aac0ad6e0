"""Storage of estimator parameters as JSON; the caller's own objects must be passed again at load.

NumPy or torch numbers and arrays are stored as plain numbers and lists. A function, a module or a
`numpy.random.RandomState` is the caller's own object: only its name is stored.
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
from eigenmap.description import Checks, is_object, is_text, optional

Parameters = dict[str, Any]
OUTPUTS = ("default", "pandas", "polars")
"""Values that `set_output` accepts."""
STORED: Checks = {
    "own": ("texts by name", lambda value: is_object(value) and all(map(is_text, value.values()))),
    "output": (f"one of {', '.join(OUTPUTS)}, or null", optional(lambda value: is_text(value) and value in OUTPUTS)),
}
"""Checks of the entries common to all saved estimators: the caller's own parameters, and the value of `set_output`."""

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
    """Return parameters for JSON (null for the caller's own objects), and names and descriptions of these objects."""
    own = {name: _called(value) for name, value in parameters.items() if not _is_plain(value)}
    return {name: None if name in own else _plain(value) for name, value in parameters.items()}, own


def stored_twice(now: Mapping[str, Any], fitted: Mapping[str, Any]) -> tuple[Parameters, Parameters, dict[str, str]]:
    """Return the current parameters, those of the fit, and the caller's own, which must be the same objects in both."""
    values, own = stored(now)
    fitted_values, fitted_own = stored(fitted)
    for name in sorted(own.keys() | fitted_own.keys()):
        if now[name] is not fitted[name]:
            raise EigenmapError(
                f"{name} was changed after the fit, and your own {name} is not stored: restore it or fit again."
            )
    return values, fitted_values, own


def completed(
    values: Mapping[str, Any], own: Mapping[str, str], given: Mapping[str, Any], where: str, loader: str
) -> Parameters:
    """Combine stored parameters with those passed again; raise if one is missing or unexpected."""
    for name, called in own.items():
        if name not in given:
            raise EigenmapError(
                f"The model in {where} was fitted with {name}={called[:60]}, which is not stored: "
                f"pass it again, {loader}(directory, {name}=...)."
            )
    for name, value in given.items():
        if name not in own:
            raise EigenmapError(f"{loader} does not take {name} here: the model in {where} has it stored.")
        wanted, holds = _KINDS.get(name, _OPTIONS)
        if not holds(value):
            raise EigenmapError(f"{name} must be {wanted}, as when {where} was fitted, not {value!r}.")
    return {**values, **given}


def _plain(value: Any) -> Any:
    """Convert a value for JSON; raise TypeError if that is impossible."""
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
