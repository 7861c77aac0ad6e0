"""Saved `NeuralEigenmap`: a directory with `model.json` (description) and `model.safetensors` (tensors)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from eigenmap.core.arguments import a_device, a_path, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.description import (
    DESCRIPTION,
    HEADER,
    KERNEL_FORMAT,
    NOT_NEGATIVE,
    SIZE,
    VERSION,
    WEIGHTS,
    Checks,
    check_values,
    is_object,
    is_text,
    optional,
    read_sealed,
)
from eigenmap.estimators.parameters import STORED, completed, stored_twice
from eigenmap.kernels.relation import NEIGHBOURS, PRECOMPUTED, neighbour_params, tried_kernel
from eigenmap.kernels.state import check_state, found_state, require_shape, restore, restore_found, solver_state
from eigenmap.relations.kernel import Kernel
from eigenmap.saved import read_model, write_model

if TYPE_CHECKING:
    from typing import TypeVar

    from eigenmap.estimators.neural_eigenmap import NeuralEigenmap

    Estimator = TypeVar("Estimator", bound=NeuralEigenmap)

LOADER = "NeuralEigenmap.load"
PROBED = 8
"""Number of points at which a function passed again must reproduce its stored values."""

_WHOLE_FILE: Checks = {
    **HEADER,
    "parameters": ("an object", is_object),
    "fitted_with": ("an object", is_object),
    **STORED,
    "n_features": ("a whole number of at least 1", SIZE),
    "feature_names": (
        "texts, or null",
        optional(lambda value: isinstance(value, list) and all(map(is_text, value))),
    ),
    "solver": ("an object", is_object),
    "found": ("an object, or null", optional(is_object)),
    "size": ("a number, or null", optional(NOT_NEGATIVE)),
}

_PARAMETERS: Checks = {
    **dict.fromkeys(("kernel", "objective", "network"), ("a name, or null", optional(is_text))),
    **dict.fromkeys(
        ("kernel_params", "objective_params", "network_params"), ("an object, or null", optional(is_object))
    ),
}


def save_estimator(estimator: NeuralEigenmap, directory: str | Path) -> Path:
    """Save an estimator; see `NeuralEigenmap.save`."""
    check_is_fitted(estimator)
    directory = a_path(directory, "directory")
    estimator._settings()  # refuses to write a model that could not be read
    parameters, fitted, own = stored_twice(estimator.get_params(deep=False), estimator._fitted_with)
    solver = estimator._solver
    numbers, tensors = solver_state(solver)
    found = None
    if not estimator._stale:
        found, more = found_state(estimator._found, solver.functions.head)
        tensors |= more
    if fitted["kernel"] == PRECOMPUTED:
        tensors |= {"known.x": estimator._known.cpu(), "known.p": estimator._known_p.cpu()}
    if "kernel" in own or "kernel_params" in own:
        tensors["kernel_probe"] = _probe(estimator._kernel_function, solver.reservoir.points)
    names = getattr(estimator, "feature_names_in_", None)
    about = {
        "parameters": parameters,
        "fitted_with": fitted,
        "own": own,
        "n_features": int(estimator.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "output": getattr(estimator, "_sklearn_output_config", {}).get("transform"),
        "solver": numbers,
        "found": found,
        "size": estimator._size if fitted["kernel"] == PRECOMPUTED else None,
    }
    write_model(
        directory,
        tensors,
        lambda digest: {"format": KERNEL_FORMAT, "version": VERSION, "weights_sha256": digest, **about},
    )
    return directory


def load_estimator(
    kind: type[Estimator], directory: str | Path, device: str | None, given: Mapping[str, Any]
) -> Estimator:
    """Load an estimator; see `NeuralEigenmap.load`."""
    directory = a_path(directory, "directory")
    about, tensors = read_estimator(directory)
    path = directory / DESCRIPTION
    both = [
        completed(about[name], about["own"], given, str(directory), LOADER) for name in ("parameters", "fitted_with")
    ]
    try:
        now, fitted = (_made(kind, parameters, device) for parameters in both)
        place = a_device(now.device)
        settings = fitted._settings()
        now._settings()
        now._solver = restore(settings, about["solver"], tensors, path, place)
        now._kernel_function = _kernel(fitted, now._solver.reservoir.points, tensors)
    except EigenmapError as error:
        named = str(directory) in str(error)
        raise error if named else EigenmapError(f"The model in {directory} cannot be used: {error}") from error
    now._fitted_with, now._stale = fitted.get_params(deep=False), about["found"] is None
    if about["found"] is not None:
        now._found = restore_found(now._solver, about["found"], tensors, path, place)
    if fitted._is(PRECOMPUTED):
        now._known, now._known_p = tensors["known.x"].to(place), tensors["known.p"].to(place)
        now._size = float(about["size"])
    now.n_features_in_ = about["n_features"]
    if about["feature_names"] is not None:
        now.feature_names_in_ = np.asarray(about["feature_names"], dtype=object)
    if about["output"] is not None:
        now.set_output(transform=about["output"])
    return now


def read_estimator(directory: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read description and tensors, validated as far as possible without the caller's own objects."""
    about, tensors = read_model(directory, _read_description)
    path = directory / DESCRIPTION
    parameters, fitted = about["parameters"], about["fitted_with"]
    if parameters.keys() != fitted.keys() or not about["own"].keys() <= fitted.keys():
        raise EigenmapError(f"{path} is damaged: parameters, fitted_with and own do not match; fit the model again.")
    names, d = about["feature_names"], about["n_features"]
    if names is not None and len(names) != d:
        raise EigenmapError(f"{path} is damaged: feature_names must be {d} texts; fit the model again.")
    check_state(about["solver"], about["found"], tensors, d, path)
    weights, kernel = directory / WEIGHTS, fitted.get("kernel")
    if kernel == PRECOMPUTED:
        known = tensors.get("known.p", torch.tensor(0))
        n = len(known) if known.ndim == 1 else 0
        require_shape(tensors, "known.x", (n, d), weights)
        require_shape(tensors, "known.p", (n,), weights)
        if not about["size"]:
            raise EigenmapError(f"{path} is damaged: size must be a positive number; fit the model again.")
    elif kernel != NEIGHBOURS and "reservoir.points" not in tensors:
        raise EigenmapError(f"{weights} is damaged: reservoir.points is missing; fit the model again.")
    if about["found"] is None and kernel in (PRECOMPUTED, NEIGHBOURS):
        raise EigenmapError(f"{path} is damaged: found must be an object for this kernel; fit the model again.")
    return about, tensors


def _read_description(directory: Path) -> dict[str, Any]:
    about, path = read_sealed(directory, KERNEL_FORMAT, VERSION), directory / DESCRIPTION
    check_values(about, _WHOLE_FILE, "", path)
    for name in ("parameters", "fitted_with"):
        check_values(about[name], _PARAMETERS, f"{name}.", path, open_ended=True)
    return about


def verify_estimator(directory: Path) -> list[str]:
    """Read a saved estimator completely; return one line per file, or raise at the first damaged one."""
    from eigenmap.estimators.neural_eigenmap import NeuralEigenmap

    about, tensors = read_estimator(directory)
    lines = [f"{DESCRIPTION}: intact", f"{WEIGHTS}: {len(tensors):,} tensors"]
    if about["own"]:
        own = ", ".join(f"{name}={called[:60]}" for name, called in sorted(about["own"].items()))
        return [*lines, f"not stored, pass to {LOADER} again: {own}"]
    load_estimator(NeuralEigenmap, directory, "cpu", {})
    return lines


def _made(kind: type[Estimator], parameters: dict[str, Any], device: str | None) -> Estimator:
    unknown = sorted(set(parameters) - set(kind._get_param_names()))
    if unknown:
        raise EigenmapError(f"unknown parameter {unknown[0][:40]}; the model may come from a later version.")
    return kind(**{**parameters, **({} if device is None else {"device": device})})


def _kernel(fitted: NeuralEigenmap, points: Tensor, tensors: Mapping[str, Tensor]) -> Kernel | None:
    """Return the kernel as a function of points, or None if it is not a function; refuse a different one."""
    if fitted._is(PRECOMPUTED):
        return None
    if fitted._is(NEIGHBOURS):
        params = neighbour_params(fitted.kernel_params)
        if "n_neighbors" in params:
            whole_number(params["n_neighbors"], "n_neighbors")
        return None
    if isinstance(fitted.kernel, str) or callable(fitted.kernel):
        function = tried_kernel(points, fitted.kernel, fitted.kernel_params)
    else:
        raise EigenmapError(f"kernel must be a name or a function, not {fitted.kernel!r}.")
    known = tensors.get("kernel_probe")
    if known is not None:
        values = _probe(function, points)
        same = known.shape == values.shape and float((values - known).abs().max()) <= 1e-6 * float(known.abs().max())
        if not same:
            raise EigenmapError("the kernel is not the one used for the fit: its values at stored points differ.")
    return function


def _probe(kernel: Any, points: Tensor) -> Tensor:
    x = points[:PROBED].double()
    values: Tensor = kernel(x, x).detach().double().cpu()
    return values
