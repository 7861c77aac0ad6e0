"""Conversion between the parts of a model and their entries in `model.json` and `model.safetensors`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from torch import Tensor, nn

from eigenmap.augment.views import Standardisation
from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.input import VectorInput
from eigenmap.description import DESCRIPTION, kind_of
from eigenmap.model.inputs import Encoder, EncoderSpec, ImageInput, Input, NodeEncoderSpec, NodeInput
from eigenmap.networks import Network
from eigenmap.networks.vectors import VectorEncoderSpec
from eigenmap.relations.neighbour_codes import NeighbourCodes
from eigenmap.relations.propagation import Propagation
from eigenmap.spectrum import Alignment


def input_and_network(about: Mapping[str, Any], encoder: nn.Module | None) -> tuple[Input, Encoder, Network]:
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


def alignment_from(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Alignment:
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


def side_description(input: Input, encoder: Encoder, network: Network, alignment: Alignment) -> dict[str, Any]:
    """Return the entries of the model of one space."""
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
        "encoder": _encoder_description(encoder),
        "network": sizes,
        "alignment": _numbers(alignment),
    }


def side_tensors(network: Network, alignments: Mapping[str, Alignment | None]) -> dict[str, Tensor]:
    """Return the tensors of the model of one space, by their names in the weights file."""
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    for prefix, alignment in alignments.items():
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
    return {name: value for name, value in _values(alignment).items() if not isinstance(value, Tensor)}


def _values(alignment: Alignment) -> dict[str, Any]:
    return {each.name: getattr(alignment, each.name) for each in fields(alignment)}


def neighbours_description(neighbours: NeighbourCodes) -> dict[str, Any]:
    """Return the entry of the codes with neighbours in the description."""
    about: dict[str, Any] = asdict(neighbours.propagation)
    return about if neighbours.alignment is None else {**about, "alignment": _numbers(neighbours.alignment)}


def neighbours_from(about: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]) -> NeighbourCodes | None:
    """Build the codes with neighbours from their entry; None if there is none."""
    if about is None:
        return None
    alignment = alignment_from(about["alignment"], tensors) if "alignment" in about else None
    return NeighbourCodes(Propagation(about["way"], about["restart"]), alignment)
