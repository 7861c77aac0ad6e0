"""Description of a saved model, `model.json`: sealed on writing, checked value by value on reading.

    about = read_description(Path("runs/mine"))
    about["network"]["n_components"]                # certainly a whole number of at least 1

The seal, `description_sha256`, is a digest of the entire content. Descriptions of earlier versions have none, but their
values are checked too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from eigenmap.core.arguments import is_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import parse_json, read_regular
from eigenmap.core.words import shortened
from eigenmap.networks.projector import MOST_LAYERS

MODEL_FORMAT = "eigenmap-model"
KERNEL_FORMAT = "eigenmap-kernel-model"
VERSION = 1
LOADERS = {MODEL_FORMAT: "Eigenmap.load", KERNEL_FORMAT: "NeuralEigenmap.load"}
"""Function that reads a model, by format."""
DESCRIPTION = "model.json"
WEIGHTS = "model.safetensors"
CHECKPOINT = "checkpoint.pt"
"""Files of a run: the first two are the model, the last is the state of an unfinished training."""

SEAL = "description_sha256"
CODE_SOURCES = ("encoder", "projector", "both")
WAYS = {"none": 1, "S": 1, "S2": 1, "concat": 3, "pagerank": 1}
"""Ways to use neighbours (`relations.propagation`), each with its output length as a multiple of the code length."""
STEMS = ("auto", "imagenet", "medium", "small")

LARGEST_SIZE = 1 << 31
_LARGEST_IMAGE = 1 << 16
_LARGEST_EXPONENT = 1e6
"""Limits on sizes: far above those of any model, and small enough to compute with."""

Check = Callable[[Any], bool]


def description_text(about: Mapping[str, Any]) -> str:
    """Return the content of `model.json`, with its seal."""
    plain = json.loads(json.dumps(about))  # as JSON returns it: keys are strings, tuples are lists
    return json.dumps({**plain, SEAL: _digest(plain)}, indent=2) + "\n"


def read_description(directory: Path) -> dict[str, Any]:
    """Return the description of a model, after checking the type and range of every value."""
    about, path = read_sealed(directory, MODEL_FORMAT, VERSION), directory / DESCRIPTION
    check_values(about, _WHOLE_FILE, "", path)
    _check_side(about, "", path)
    if "right" in about:
        check_values(about["right"], _SIDE, "right.", path)
        _check_side(about["right"], "right.", path)
    if "neighbours" in about:
        _check_neighbours(about["neighbours"], path)
    check_values(about["training"], _TRAINING, "training.", path, open_ended=True)
    check_values(about["training"].get("graph", {}), _GRAPH, "training.graph.", path, open_ended=True)
    return about


def kind_of(input: Mapping[str, Any]) -> Literal["images", "nodes", "vectors"]:
    """Return the kind of input of a model, from the `input` of its description."""
    return "vectors" if "length" in input else "nodes" if "n_features" in input else "images"


def _check_side(about: Mapping[str, Any], where: str, path: Path) -> None:
    """Check input, encoder, network and alignment."""
    kind = kind_of(about["input"])
    input, encoder, network = _KINDS[kind]
    check_values(about["input"], input, f"{where}input.", path)
    if kind == "images":
        check_values(about["input"]["standardisation"], _STANDARDISATION, f"{where}input.standardisation.", path)
    check_values(about["encoder"], encoder, f"{where}encoder.", path)
    check_values(about["network"], network, f"{where}network.", path)
    check_values(about["alignment"], _ALIGNMENT, f"{where}alignment.", path)


def _check_neighbours(about: Mapping[str, Any], path: Path) -> None:
    check_values(about, _NEIGHBOURS, "neighbours.", path)
    if ("alignment" in about) != (about["way"] != "none"):
        raise EigenmapError(
            f"{path} is damaged: neighbours.alignment does not match neighbours.way; fit the model again."
        )
    if "alignment" in about:
        check_values(about["alignment"], _ALIGNMENT, "neighbours.alignment.", path)


def read_sealed(directory: Path, format: str, version: int) -> dict[str, Any]:
    """Read a description of this format and version and check its seal, but not yet its values."""
    about, path = _parsed(directory), directory / DESCRIPTION
    kind = about.get("format")
    if kind != format:
        if isinstance(kind, str) and kind in LOADERS:
            raise EigenmapError(f"{directory} contains a model for {LOADERS[kind]}, not for {LOADERS[format]}.")
        raise EigenmapError(f"{path} does not describe an eigenmap model.")
    found = about.get("version")
    if found != version or isinstance(found, bool | float):
        raise EigenmapError(
            f"{path} has format version {shortened(found)}, but this eigenmap reads version {version}: use the release "
            "that wrote it, or fit the model again."
        )
    if SEAL in about and about.pop(SEAL) != _digest(about):
        raise EigenmapError(f"{path} is damaged: its digest does not match; restore it, or fit the model again.")
    check_values(about, HEADER, "", path, open_ended=True)
    return about


def read_any(directory: Path) -> dict[str, Any]:
    """Read a description of any format and check its seal, but not yet its values."""
    return read_sealed(directory, format_of(directory), VERSION)


def format_of(directory: Path) -> str:
    """Return the format of a description; if it is unknown, that of `Eigenmap`, whose reader reports the error."""
    try:
        kind = _parsed(directory).get("format")
    except EigenmapError:
        return MODEL_FORMAT
    return kind if isinstance(kind, str) and kind in LOADERS else MODEL_FORMAT


def _parsed(directory: Path) -> dict[str, Any]:
    path = directory / DESCRIPTION
    try:
        # Earlier versions wrote an unknown quality as NaN.
        about = parse_json(read_regular(path), allow_nan=True)
    except (FileNotFoundError, NotADirectoryError):
        raise EigenmapError(f"{directory} is not a model directory: it {_instead(directory)}.") from None
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise EigenmapError(f"{path} is damaged or cannot be read: {reason}.") from error
    return about if isinstance(about, dict) else {}


def check_tensors(
    about: Mapping[str, Any], tensors: Mapping[str, Tensor], directory: Path, own_encoder: bool = False
) -> None:
    """Refuse a description whose sizes differ from those of the tensors, before anything of these sizes is allocated.

    The sizes of the user's own encoder are not checked.
    """
    _check_side_tensors(about, tensors, "", directory, own_encoder)
    if "right" in about:
        _check_side_tensors({**about["right"], "source": about["source"]}, tensors, "right.", directory, own_encoder)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise EigenmapError(f"{directory / WEIGHTS} contains NaN or infinity in {name}; fit the model again.")


def _check_side_tensors(
    about: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str, directory: Path, own_encoder: bool
) -> None:
    rotation = tensors.get(f"{where}alignment.rotation")
    r = rotation.shape[1] if rotation is not None and rotation.ndim == 2 else 0
    for plain, shape in _shapes(about, r, own_encoder).items():
        name = where + plain
        tensor = tensors.get(name)
        found = "missing" if tensor is None else f"of shape {tuple(tensor.shape)}"
        if tensor is None or tuple(tensor.shape) != shape or not tensor.is_floating_point() or 0 in shape:
            raise EigenmapError(
                f"{directory} is damaged: {name} has shape {shape} in {DESCRIPTION}, but in {WEIGHTS} it is {found}; "
                "restore the files, or fit the model again."
            )
    for name, alignment in {"alignment": about["alignment"], **_of_neighbours(about)}.items():
        if any(int(length) > r for length in alignment["recall"]):
            raise EigenmapError(f"{directory / DESCRIPTION} is damaged: {where}{name}.recall has lengths above {r}.")


def _of_neighbours(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the alignment of codes with neighbours, by its name; empty if there is none."""
    alignment = about.get("neighbours", {}).get("alignment")
    return {} if alignment is None else {"neighbours.alignment": alignment}


def _shapes(about: Mapping[str, Any], r: int, own_encoder: bool) -> dict[str, tuple[int, ...]]:
    """Return the required shapes of tensors by name; `r` is the number of ordered features."""
    network, encoder, input = about["network"], about["encoder"], about["input"]
    features = input["length"] if kind_of(input) == "vectors" else network["out_features"]
    k = {"encoder": features, "projector": network["n_components"]}.get(
        about["source"], features + network["n_components"]
    )
    shapes = {
        "alignment.rotation": (k, r),
        "alignment.mean": (k,),
        "alignment.eigenvalues": (r,),
        "alignment.power": (r,),
    }
    if kind_of(input) == "vectors":
        return shapes | _vector_shapes(network, input["length"], encoder["width"])
    layers = network.get("projector_layers", 2)
    shapes |= {
        "network.projector.layers.0.weight": (network["hidden"], network["out_features"]),
        f"network.projector.layers.{3 * layers - 3}.weight": (network["n_components"], network["hidden"]),
    }
    if _of_neighbours(about):
        long = r * WAYS[about["neighbours"]["way"]]
        shapes |= {"neighbours.rotation": (long, r), "neighbours.mean": (long,)}
        shapes |= {"neighbours.eigenvalues": (r,), "neighbours.power": (r,)}
    if "n_features" in input and not own_encoder:
        width = encoder["width"]
        shapes["network.encoder.stem.weight"] = (input["n_features"] * (input.get("hops", 0) + 1), width)
        for block in range(encoder.get("blocks", 5)):
            shapes[f"network.encoder.blocks.{block}.layers.0.weight"] = (width, width)
    return shapes


def _vector_shapes(network: Mapping[str, Any], length: int, width: int) -> dict[str, tuple[int, ...]]:
    """Return the required shapes of a residual head; empty if there is none."""
    if width == 0:
        return {}
    return {
        "network.projector.shift": (length,),
        "network.projector.unit": (network["n_components"],),
        "network.projector.linear.weight": (network["n_components"], length),
        "network.projector.hidden.0.weight": (width, length),
        "network.projector.correction.weight": (network["n_components"], width),
    }


# Values


def whole_between(low: int, high: int) -> Check:
    """Return a check for a whole number in [low, high]."""
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def number_between(low: float = -math.inf, high: float = math.inf) -> Check:
    """Return a check for a finite number in [low, high]."""
    return lambda value: isinstance(value, int | float) and is_number(value) and low <= value <= high


def is_text(value: Any) -> bool:
    """Tell whether a value is a string."""
    return isinstance(value, str)


def is_object(value: Any) -> bool:
    """Tell whether a value is a JSON object."""
    return isinstance(value, dict)


def _some_numbers(low: float) -> Check:
    number = number_between(low, 1e30)
    return lambda value: isinstance(value, list) and len(value) in (1, 3) and all(map(number, value))


def _shares(key: Check) -> Check:
    """Return a check for an object of shares, 0 to 1 up to rounding; its keys are numbers as strings."""
    share = number_between(0.0, 1 + 1e-6)
    return lambda value: isinstance(value, dict) and all(key(name) and share(v) for name, v in value.items())


def _is_length(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12 and SIZE(int(text))


def _is_exponent(text: str) -> bool:
    try:
        return 0 <= float(text) <= _LARGEST_EXPONENT
    except ValueError:
        return False


def _is_quality(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or number_between()(value)


def optional(check: Check) -> Check:
    """Return a check for null or a value that passes another check."""
    return lambda value: value is None or check(value)


SIZE, COUNT = whole_between(1, LARGEST_SIZE), whole_between(0, 1 << 62)
NOT_NEGATIVE = number_between(0.0, 1e30)

# Name -> description of the valid values, and a check; a name that ends in "?" may be missing.
Checks = Mapping[str, tuple[str, Check]]
HEADER: Checks = {
    "format": ("a text", is_text),
    "version": ("a whole number", COUNT),
    "weights_sha256": ("the digest of the weights that belong to it", lambda v: is_text(v) and len(v) == 64),
}
_WHOLE_FILE: Checks = {
    **HEADER,
    "input": ("an object", is_object),
    "encoder": ("an object", is_object),
    "network": ("an object", is_object),
    "source": ('"encoder", "projector" or "both"', lambda value: value in CODE_SOURCES),
    "alignment": ("an object", is_object),
    "neighbours?": ("an object", is_object),
    "training": ("an object", is_object),
    "right?": ("an object", is_object),
}
_SIDE: Checks = dict.fromkeys(("input", "encoder", "network", "alignment"), ("an object", is_object))
_NEIGHBOURS: Checks = {
    "way": (f"one of {', '.join(WAYS)}", lambda value: is_text(value) and value in WAYS),
    "restart": ("a probability below 1", number_between(0.0, 1 - 1e-9)),
    "alignment?": ("an object", is_object),
}
_IMAGES: Checks = {
    "size": (f"a whole number from 1 to {_LARGEST_IMAGE}", whole_between(1, _LARGEST_IMAGE)),
    "channels": ("1 or 3", lambda value: whole_between(1, 3)(value) and value != 2),
    "standardisation": ("an object", is_object),
    "view?": (f"a whole number from 1 to {_LARGEST_IMAGE}", whole_between(1, _LARGEST_IMAGE)),
}
_STANDARDISATION: Checks = {
    "mean": ("a list of 1 or 3 finite numbers", _some_numbers(-1e30)),
    "std": ("a list of 1 or 3 positive numbers", _some_numbers(1e-30)),
}
_NODES: Checks = {
    "n_features": ("a whole number of at least 1", SIZE),
    "hops?": ("a whole number from 0 to 10", whole_between(0, 10)),
}
_ENCODER: Checks = {
    "name": ("the name of an encoder, or null", optional(is_text)),
    "stem?": (f"one of {', '.join(STEMS)}", lambda value: value in STEMS),
}
_NODE_ENCODER: Checks = {
    "width": ("a whole number of at least 1", SIZE),
    "blocks?": ("a whole number from 0 to 10000", whole_between(0, 10_000)),
}
_VECTORS: Checks = {
    "length": ("a whole number of at least 1", SIZE),
    "unit": ("true or false", lambda value: isinstance(value, bool)),
}
_VECTOR_ENCODER: Checks = {
    "width": ("a whole number of at least 0", whole_between(0, LARGEST_SIZE)),
    "plain?": ("true or false", lambda value: isinstance(value, bool)),
}
_VECTOR_NETWORK: Checks = dict.fromkeys(("n_components", "out_features"), ("a whole number of at least 1", SIZE))
_NETWORK: Checks = {
    **dict.fromkeys(("n_components", "hidden", "out_features"), ("a whole number of at least 1", SIZE)),
    "projector_layers?": (f"a whole number from 2 to {MOST_LAYERS}", whole_between(2, MOST_LAYERS)),
}
_KINDS: Mapping[str, tuple[Checks, Checks, Checks]] = {
    "images": (_IMAGES, _ENCODER, _NETWORK),
    "nodes": (_NODES, _NODE_ENCODER, _NETWORK),
    "vectors": (_VECTORS, _VECTOR_ENCODER, _VECTOR_NETWORK),
}
"""Checks of input, encoder and network, by kind of input."""
_ALIGNMENT: Checks = {
    "t?": ("a number of at least 0", number_between(0.0, _LARGEST_EXPONENT)),
    "ridge?": ("a number of at least 0", NOT_NEGATIVE),
    "own_order?": ("true or false", lambda value: isinstance(value, bool)),
    "quality?": ("a number", _is_quality),
    "noise?": ("a number of at least 0", NOT_NEGATIVE),
    "head?": ("a count", COUNT),
    "recall": ("shares by length", _shares(_is_length)),
    "agreement?": ("shares by exponent", _shares(_is_exponent)),
}
_TRAINING: Checks = {
    **{f"{n}?": ("a count", COUNT) for n in ("steps", "images", "held_out_images", "held_out_edges")},
    "seconds?": ("a number of at least 0", NOT_NEGATIVE),
    **{f"{name}?": ("an object", is_object) for name in ("recipe", "graph", "environment", "estimator")},
}
_GRAPH: Checks = {f"{name}?": ("a count", COUNT) for name in ("nodes", "edges", "components")}


def check_values(values: Mapping[str, Any], checks: Checks, where: str, path: Path, open_ended: bool = False) -> None:
    """Refuse values that are missing, invalid or (unless `open_ended`) unknown."""
    for name, (wanted, holds) in checks.items():
        key = name.removesuffix("?")
        if key not in values:
            if key == name:
                raise EigenmapError(f"{path} is damaged: {where}{key} is missing ({wanted}); fit the model again.")
        elif not holds(values[key]):
            raise EigenmapError(
                f"{path} is damaged: {where}{key} must be {wanted}, not {shortened(values[key])}; fit the model again."
            )
    unknown = set(values) - {name.removesuffix("?") for name in checks}
    if unknown and not open_ended:
        raise EigenmapError(f"{path} is damaged or from a later version: unknown entry {where}{min(unknown)[:40]}.")


def _digest(about: Mapping[str, Any]) -> str | None:
    """Return the digest of the content, independent of white space and key order; None if nested too deeply."""
    try:
        text = json.dumps(about, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return None
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _instead(directory: Path) -> str:
    """Describe a path that contains no model."""
    if (directory / CHECKPOINT).is_file():
        return f"has no {DESCRIPTION} yet, since its training has not finished; continue with resume=True"
    if directory.is_dir():
        return f"has no {DESCRIPTION}"
    return "is a file" if directory.exists() else "does not exist"
