"""Serialisation of a fitted solver as numbers and tensors.

    numbers, tensors = solver_state(solver)
    again = restore(solver.settings, numbers, tensors, path)       # evaluates and continues training like `solver`

State needed only during a fit (Gram matrix, rejected candidates) is left out. An objective or network that is the
caller's own module is part of the settings; the weights of a network are stored here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.description import (
    COUNT,
    NOT_NEGATIVE,
    WEIGHTS,
    Checks,
    check_values,
    is_object,
    number_between,
    optional,
    whole_between,
)
from eigenmap.kernels.functions import Functions, Standardise, make_network
from eigenmap.kernels.reservoir import Reservoir
from eigenmap.kernels.solver import FitReport, Settings, Solver, n_outputs
from eigenmap.kernels.train import Trainer, make_objective
from eigenmap.saved import prefixed

DTYPES = {"float32": torch.float32, "float64": torch.float64}
DEEPEST = 1000
"""Maximum number of hidden layers of a network that is read."""

_FLAG = ("true or false", lambda value: isinstance(value, bool))
_NUMBERS: Checks = {
    "seed": ("a whole number of at least 0", whole_between(0, 2**63 - 1)),
    "dtype": ("float32 or float64", lambda value: isinstance(value, str) and value in DTYPES),
    "span_psi": _FLAG,
    "whole": _FLAG,
    "ridge": ("a number from 0 to 1", number_between(0.0, 1.0)),
    "unit": ("a number of at least 0", NOT_NEGATIVE),
    "objective_options": ("an object", is_object),
    "learning_rate": ("a number of at least 0", NOT_NEGATIVE),
    "steps": ("a count", COUNT),
    "seen": ("a count", COUNT),
    "dropped": ("a number of at most 0, or null", optional(number_between(-1e308, 0.0))),
}
_FOUND: Checks = {
    "rank": ("a count", COUNT),
    "narrow": _FLAG,
    "groups": (
        "lists of numbers of components",
        lambda value: isinstance(value, list) and all(isinstance(g, list) and all(map(COUNT, g)) for g in value),
    ),
}


def solver_state(solver: Solver) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return everything needed to evaluate, judge and continue training."""
    trainer, reservoir, functions = solver.trainer, solver.reservoir, solver.functions
    numbers = {
        "seed": solver.seed,
        "dtype": str(solver.dtype).removeprefix("torch."),
        "span_psi": solver.span_psi,
        "whole": solver.whole,
        "ridge": solver.ridge,
        "unit": solver.unit,
        "objective_options": solver.objective_options,
        "learning_rate": trainer.optimizer.param_groups[0]["lr"],
        "steps": trainer.steps,
        "seen": reservoir.seen,
        "dropped": None if reservoir.dropped == -math.inf else reservoir.dropped,
    }
    tensors = {
        "standardise.mean": functions.standardise.mean,
        "standardise.scale": functions.standardise.scale,
        "scale": solver.scale,
        "generator": solver.generator.get_state(),
        **{f"network.{name}": value for name, value in functions.network.state_dict().items()},
        **{f"trainer.{name}": value for name, value in trainer.network.state_dict().items()},
    }
    for name, parameter in trainer.network.named_parameters():
        state = trainer.optimizer.state.get(parameter, {})
        tensors |= {f"optimizer.{name}.{key}": state[key] for key in _moments(parameter) if key in state}
    if len(reservoir):
        tensors |= {f"reservoir.{name}": getattr(reservoir, name) for name in ("points", "weights", "keys")}
    return numbers, {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def found_state(found: FitReport, head: Tensor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the functions of the last layer and their assessment."""
    numbers = {"rank": found.rank, "narrow": found.narrow, "groups": found.groups}
    tensors = {name: getattr(found, name) for name in ("eigenvalues", "held_out_eigenvalues", "residual")}
    return numbers, {
        f"found.{name}": tensor.detach().cpu().clone() for name, tensor in {**tensors, "head": head}.items()
    }


def check_state(
    numbers: Mapping[str, Any], found: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], d: int, path: Path
) -> None:
    """Refuse numbers and tensors that cannot belong to a solver on d features; network weights are not checked."""
    check_values(numbers, _NUMBERS, "solver.", path)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("standardise.mean", "standardise.scale", "scale"), (d,))
    n = len(tensors["reservoir.keys"]) if tensors.get("reservoir.keys", torch.tensor(0)).ndim == 1 else 0
    if any(name.startswith("reservoir.") for name in tensors):
        shapes |= {"reservoir.points": (n, d), "reservoir.weights": (n,), "reservoir.keys": (n,)}
    if found is not None:
        check_values(found, _FOUND, "found.", path)
        r = sum(len(group) for group in found["groups"])
        if [j for group in found["groups"] for j in group] != list(range(r)) or not r <= found["rank"]:
            raise EigenmapError(f"{path} is damaged: found.groups and found.rank do not match; fit the model again.")
        head = tensors.get("found.head", torch.tensor(0))
        shapes |= dict.fromkeys(("found.eigenvalues", "found.held_out_eigenvalues", "found.residual"), (r,))
        shapes["found.head"] = (head.shape[0] if head.ndim == 2 else 0, r)
    weights = path.with_name(WEIGHTS)
    known = set(shapes) | {"generator", "kernel_probe", "known.x", "known.p"}
    for name, tensor in tensors.items():
        if name not in known and name.partition(".")[0] not in ("network", "trainer", "optimizer"):
            raise EigenmapError(f"{weights} is damaged or from a later version: unknown tensor {name[:40]}.")
        bad = tensor.isnan() if name == "reservoir.keys" else ~tensor.isfinite()
        if tensor.is_floating_point() and bool(bad.any()):
            raise EigenmapError(f"{weights} contains NaN or infinity in {name}; fit the model again.")
    for name, shape in shapes.items():
        require_shape(tensors, name, shape, weights)
    for name in ("standardise.scale", "scale", "reservoir.weights"):
        if name in shapes and not bool((tensors[name] > 0).all()):
            raise EigenmapError(f"{weights} is damaged: {name} must be positive; fit the model again.")


def require_shape(
    tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], weights: Path, dtype: torch.dtype | None = None
) -> None:
    """Refuse a tensor that is missing, has another shape, or is not of real numbers (of `dtype`)."""
    tensor = tensors.get(name)
    right = tensor is not None and tuple(tensor.shape) == shape
    real = tensor is not None and (tensor.dtype in DTYPES.values() if dtype is None else tensor.dtype == dtype)
    if not right or not real:
        what = "missing" if tensor is None else f"of shape {tuple(tensor.shape)} and {tensor.dtype}"
        raise EigenmapError(f"{weights} is damaged: {name} must have shape {shape}, but it is {what}; fit again.")


def restore(
    settings: Settings, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path, device: torch.device
) -> Solver:
    """Restore a solver from a state accepted by `check_state`."""
    weights, dtype = path.with_name(WEIGHTS), DTYPES[numbers["dtype"]]
    network = _network(settings, numbers, tensors, "network.", torch.float64, weights, device)
    trained = _network(settings, numbers, tensors, "trainer.", dtype, weights, device)
    solver = Solver.__new__(Solver)
    solver.settings, solver.seed, solver.dtype = settings, numbers["seed"], dtype
    solver.span_psi, solver.whole = numbers["span_psi"], numbers["whole"]
    solver.ridge, solver.unit = float(numbers["ridge"]), float(numbers["unit"])
    solver.scale = tensors["scale"].to(device)
    solver.generator = _generator(tensors, weights)
    standardise = Standardise.by(tensors["standardise.mean"].to(device), tensors["standardise.scale"].to(device))
    solver.functions = Functions(network, standardise, solver.span_psi)
    solver.objective_options = dict(numbers["objective_options"])
    solver.objective = make_objective(settings.objective, solver.objective_options, dtype, solver.whole)
    solver.trainer = Trainer(trained, solver.objective, settings.learning_rate, solver.unit)
    _restore_optimizer(solver.trainer, numbers, prefixed("optimizer.", tensors), weights)
    solver.reservoir = _reservoir(settings, numbers, prefixed("reservoir.", tensors), path, device)
    # Needed only during a fit.
    solver.held_out, solver.verdict, solver.first, solver.others, solver.good_enough = None, None, None, [], False
    return solver


def restore_found(
    solver: Solver, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path, device: torch.device
) -> FitReport:
    """Restore the result of a fit, including the last layer."""
    try:
        width = solver.functions.span(solver.functions.standardise.mean[None]).shape[1]
    except RuntimeError as error:
        raise EigenmapError(f"The network does not match the model in {path.parent}: {error}.") from error
    require_shape(tensors, "found.head", (width, tensors["found.head"].shape[1]), path.with_name(WEIGHTS))
    found = {name: tensor.to(device) for name, tensor in prefixed("found.", tensors).items()}
    solver.functions.head = found.pop("head")
    return FitReport(**found, groups=numbers["groups"], rank=numbers["rank"], narrow=numbers["narrow"])


def _network(
    settings: Settings,
    numbers: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    prefix: str,
    dtype: torch.dtype,
    weights: Path,
    device: torch.device,
) -> nn.Module:
    """Build the network with its weights; a named network is allocated only after its weights are checked."""
    values, k = prefixed(prefix, tensors), settings.n_components
    own = isinstance(settings.network, nn.Module)
    if own:
        network = copy.deepcopy(settings.network)
    else:
        if settings.network_params.get("depth", 1) > DEEPEST:
            raise EigenmapError(f"{weights.parent} is damaged: the network has more than {DEEPEST} layers.")
        try:
            with torch.device("meta"):
                d, outputs = len(tensors["standardise.mean"]), n_outputs(k, numbers["span_psi"])
                network = make_network(settings.network, settings.network_params, d, k, outputs, 1.0)
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise EigenmapError(f"{weights.parent} is damaged: no network has these sizes; fit again.") from error
    network = network.to(dtype)
    for name, value in network.state_dict().items():
        tensor = values.get(name)
        if tensor is None or tensor.shape != value.shape or tensor.dtype != value.dtype:
            fault = f"The given network does not match {weights}" if own else f"{weights} is damaged"
            what = "missing" if tensor is None else f"of shape {tuple(tensor.shape)} and {tensor.dtype}"
            wanted = f"of shape {tuple(value.shape)} and {value.dtype}"
            raise EigenmapError(f"{fault}: {prefix}{name} is {what} there, but must be {wanted}.")
    unknown = sorted(set(values) - set(network.state_dict()))
    if unknown:
        raise EigenmapError(f"The network does not match {weights}: it has no {unknown[0][:40]}.")
    network.load_state_dict(values, assign=not own)
    moved: nn.Module = network.to(device)
    return moved


def _generator(tensors: Mapping[str, Tensor], weights: Path) -> torch.Generator:
    try:
        return torch.Generator().set_state(tensors["generator"])
    except (KeyError, RuntimeError, TypeError) as error:
        raise EigenmapError(f"{weights} is damaged: generator is not a valid random state; fit again.") from error


def _restore_optimizer(
    trainer: Trainer, numbers: Mapping[str, Any], values: Mapping[str, Tensor], weights: Path
) -> None:
    trainer.steps = numbers["steps"]
    for group in trainer.optimizer.param_groups:
        group["lr"] = float(numbers["learning_rate"])
    left = set(values)
    for name, parameter in trainer.network.named_parameters():
        if not any(f"{name}.{key}" in values for key in _moments(parameter)):
            continue
        for key, (shape, dtype) in _moments(parameter).items():
            require_shape(values, f"{name}.{key}", shape, weights, dtype)
            if key != "exp_avg" and not bool((values[f"{name}.{key}"] >= 0).all()):
                raise EigenmapError(f"{weights} is damaged: optimizer.{name}.{key} is negative; fit again.")
        state = {key: values[f"{name}.{key}"].clone() for key in _moments(parameter)}
        # Adam keeps its step count on the CPU.
        trainer.optimizer.state[parameter] = {
            key: value if key == "step" else value.to(parameter.device) for key, value in state.items()
        }
        left -= {f"{name}.{key}" for key in _moments(parameter)}
    if left:
        raise EigenmapError(f"{weights} is damaged: the network has no {min(left)[:40]}; fit again.")


def _moments(parameter: Tensor) -> dict[str, tuple[tuple[int, ...], torch.dtype | None]]:
    """Return names, shapes and precisions (None: any) of the tensors that Adam stores per parameter."""
    shape, dtype = tuple(parameter.shape), parameter.dtype
    return {"step": ((), None), "exp_avg": (shape, dtype), "exp_avg_sq": (shape, dtype)}


def _reservoir(
    settings: Settings, numbers: Mapping[str, Any], values: Mapping[str, Tensor], path: Path, device: torch.device
) -> Reservoir:
    reservoir = Reservoir(2 * settings.reference_size)
    reservoir.seen = numbers["seen"]
    reservoir.dropped = -math.inf if numbers["dropped"] is None else float(numbers["dropped"])
    if values:
        reservoir.points = values["points"].to(device)
        reservoir.weights, reservoir.keys = values["weights"].double(), values["keys"].double()
    if not len(reservoir) <= min(reservoir.capacity, reservoir.seen):
        raise EigenmapError(f"{path} is damaged: solver.seen is less than the number of kept points; fit again.")
    return reservoir
