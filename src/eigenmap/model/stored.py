"""Conversion between the parts of a model and their entries in `model.json` and `model.safetensors`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from eigenmap.augment.views import Standardisation
from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.input import VectorInput
from eigenmap.description import DESCRIPTION, MODEL_FORMAT, VERSION, kind_of
from eigenmap.model.inputs import Encoder, EncoderSpec, ImageInput, Input, NodeEncoderSpec, NodeInput
from eigenmap.networks import Network
from eigenmap.networks.vectors import VectorEncoderSpec
from eigenmap.relations.neighbour_codes import NeighbourCodes
from eigenmap.relations.propagation import Propagation
from eigenmap.saved import prefixed
from eigenmap.spectrum import Alignment

if TYPE_CHECKING:
    from eigenmap.model.eigenmap import Eigenmap


class Parts(NamedTuple):
    """Parts of the model of one space."""

    network: Network
    alignment: Alignment
    input: Input
    encoder: Encoder
    neighbours: NeighbourCodes | None


def stored_parts(
    about: Mapping[str, Any], tensors: Mapping[str, Tensor], directory: Path, encoder: nn.Module | None
) -> Parts:
    """Build the parts of the model of one space; `encoder` replaces the described one."""
    try:
        input, spec, network = _input_and_network(about, encoder)
    except EigenmapError as error:
        raise EigenmapError(f"{directory}: {error}") from error
    alignment = _alignment_from(about["alignment"], prefixed("alignment.", tensors))
    try:
        network.load_state_dict(prefixed("network.", tensors))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        which = f"that {DESCRIPTION} names" if encoder is None else "passed"
        raise EigenmapError(f"The encoder {which} does not match the weights in {directory}: {reason}") from error
    neighbours = _neighbours_from(about.get("neighbours"), prefixed("neighbours.", tensors))
    return Parts(network, alignment, input, spec, neighbours)


def _input_and_network(about: Mapping[str, Any], encoder: nn.Module | None) -> tuple[Input, Encoder, Network]:
    """Build input, encoder specification and network from a description; `encoder` replaces the described one."""
    given, sizes = about["input"], about["network"]
    if kind_of(given) == "vectors":
        vector, head = VectorInput(**given), VectorEncoderSpec(**about["encoder"])
        return vector, head, head.build(vector.length, vector.unit, sizes["n_components"])
    if "n_features" in given:
        node, shape = NodeInput(**given), NodeEncoderSpec(**about["encoder"])
        return node, shape, Network(shape.build(node) if encoder is None else encoder, **sizes)
    standardisation = Standardisation(**given["standardisation"])
    image = ImageInput(given["size"], given["channels"], standardisation, given.get("view"))
    if image.view_size > image.size:
        raise EigenmapError(f"{DESCRIPTION} has a view of {image.view_size} pixels but images of {image.size}.")
    if image.standardisation.channels not in (None, image.channels):
        raise EigenmapError(f"The standardisation in {DESCRIPTION} has another number of channels than its images.")
    spec = EncoderSpec(**about["encoder"])
    return image, spec, Network(spec.build(image) if encoder is None else encoder, **sizes)


def _alignment_from(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Alignment:
    """Build an alignment from its numbers in the description and its tensors."""
    numbers: dict[str, Any] = {
        **about,
        **{name: tensors[name] for name in ("mean", "rotation", "eigenvalues", "power")},
    }
    numbers["recall"] = {int(dim): share for dim, share in about["recall"].items()}
    numbers["agreement"] = {float(t): share for t, share in about.get("agreement", {}).items()}
    if about.get("quality") is None:
        numbers["quality"] = float("nan")
    return Alignment(**numbers)


def model_description(model: Eigenmap, digest: str) -> dict[str, Any]:
    """Return the contents of `model.json`, for weights with this digest."""
    right = {} if model.right is None else {"right": _side_description(model.right)}
    nodes = {"neighbours": _neighbours_description(model.neighbours)} if isinstance(model.input, NodeInput) else {}
    return {
        "format": MODEL_FORMAT,
        "version": VERSION,
        "weights_sha256": digest,
        **_side_description(model),
        "source": model.source,
        **nodes,
        "training": model.training,
        **right,
    }


def model_tensors(model: Eigenmap) -> dict[str, Tensor]:
    """Return the contents of `model.safetensors`."""
    right = {} if model.right is None else _side_tensors(model.right)
    return _side_tensors(model) | {f"right.{name}": tensor for name, tensor in right.items()}


def _side_description(model: Eigenmap) -> dict[str, Any]:
    """Return the entries of the model of one space."""
    input, network = model.input, model.network
    sizes = (
        {"n_components": network.n_components, "out_features": input.length}
        if isinstance(input, VectorInput)
        else {
            "n_components": network.n_components,
            "hidden": network.projector.hidden_features,
            "out_features": network.projector.in_features,
            # Earlier versions know only projectors of two layers.
            **({} if network.projector.n_layers == 2 else {"projector_layers": network.projector.n_layers}),
        }
    )
    return {
        "input": _input_description(input),
        "encoder": _encoder_description(model.encoder),
        "network": sizes,
        "alignment": _numbers(model.alignment),
    }


def _side_tensors(model: Eigenmap) -> dict[str, Tensor]:
    """Return the tensors of the model of one space, by their names in the weights file."""
    tensors = {f"network.{name}": tensor for name, tensor in model.network.state_dict().items()}
    for prefix, alignment in (("alignment", model.alignment), ("neighbours", model.neighbours.alignment)):
        values = {} if alignment is None else _values(alignment)
        tensors |= {f"{prefix}.{name}": value for name, value in values.items() if isinstance(value, Tensor)}
    return tensors


def _input_description(input: Input) -> dict[str, Any]:
    """Return the settings of the input, without unused ones that earlier versions do not know."""
    about = {name: value for name, value in asdict(input).items() if value is not None}
    if isinstance(input, NodeInput) and input.hops == 0:
        del about["hops"]
    return about


def _encoder_description(encoder: Encoder) -> dict[str, Any]:
    """Return the settings of the encoder, without unused ones that earlier versions do not know."""
    about = asdict(encoder)
    if isinstance(encoder, VectorEncoderSpec) and not encoder.plain:
        del about["plain"]
    return about


def _numbers(alignment: Alignment) -> dict[str, Any]:
    """Return the entries of an alignment in the description; its tensors are in the weights file."""
    numbers = {name: value for name, value in _values(alignment).items() if not isinstance(value, Tensor)}
    return {**numbers, "quality": None} if math.isnan(alignment.quality) else numbers  # JSON has no NaN


def _values(alignment: Alignment) -> dict[str, Any]:
    return {each.name: getattr(alignment, each.name) for each in fields(alignment)}


def _neighbours_description(neighbours: NeighbourCodes) -> dict[str, Any]:
    """Return the entry of the codes with neighbours in the description."""
    about: dict[str, Any] = asdict(neighbours.propagation)
    return about if neighbours.alignment is None else {**about, "alignment": _numbers(neighbours.alignment)}


def _neighbours_from(about: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]) -> NeighbourCodes | None:
    """Build the codes with neighbours from their entry; None if there is none."""
    if about is None:
        return None
    alignment = _alignment_from(about["alignment"], tensors) if "alignment" in about else None
    return NeighbourCodes(Propagation(about["way"], about["restart"]), alignment)
