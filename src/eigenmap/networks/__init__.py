"""Networks: encoders, the paper's projector, and both combined.

    encoder = build_encoder("resnet18", channels=3, image_size=32)
    network = Network(encoder, n_components=128)
    features, psi = network(images)

Any `nn.Module` that returns (batch, features) can be used as the encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import nn

from eigenmap.core.errors import EigenmapError
from eigenmap.networks.hugging_face import TRANSFORMERS, comes_trained, load_hugging_face, require_transformers
from eigenmap.networks.mlp import MLP
from eigenmap.networks.network import Network, encoder_width, freeze, is_frozen
from eigenmap.networks.nodes import NodeFeatures, NodeNetwork
from eigenmap.networks.outputs import CodeSource, code_rows
from eigenmap.networks.projector import Projector
from eigenmap.networks.residual_mlp import ResidualMLP
from eigenmap.networks.resnet import ResNet, Stem, resnet18, resnet34, resnet50
from eigenmap.networks.small_cnn import SmallCNN
from eigenmap.networks.sparse import SparseRows
from eigenmap.networks.weights import load_encoder_weights, load_state

__all__ = [
    "ENCODERS",
    "MLP",
    "CodeSource",
    "Network",
    "NodeFeatures",
    "NodeNetwork",
    "Projector",
    "ResNet",
    "ResidualMLP",
    "SmallCNN",
    "SparseRows",
    "build_encoder",
    "code_rows",
    "comes_trained",
    "encoder_width",
    "freeze",
    "is_frozen",
    "load_encoder_weights",
    "load_state",
    "require_encoder",
]

_RESNETS: dict[str, Callable[[int, Stem], ResNet]] = {
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
}

ENCODERS: tuple[str, ...] = ("small-cnn", *_RESNETS)
"""Encoder names built into `build_encoder`."""

# Up to this image size, the stride-4 stem of ImageNet networks loses more than it saves.
_LARGEST_SMALL_IMAGE = 64


def build_encoder(
    name: str, channels: int = 3, image_size: int = 32, stem: Literal["auto", "imagenet", "medium", "small"] = "auto"
) -> nn.Module:
    """Build an encoder, randomly initialised unless its name brings weights, with an integer attribute `out_features`.

    Args:
        name: one of `ENCODERS`, or the name of a timm model if timm is installed ("timm:NAME" to prefer timm's version
            of a built-in name). "hf:NAME" (transformers) and "hf-hub:NAME" (timm) are models of the Hugging Face hub
            with their trained weights.
        channels: number of image channels.
        image_size: side of the images in pixels.
        stem: first layers of a ResNet: "small" (3x3, stride 1, no pooling), "medium" (the same, stride 2),
            "imagenet" (7x7 and max-pool, stride 4) or "auto": small up to 64 pixels, then imagenet.

    Example:
        >>> build_encoder("small-cnn", channels=1, image_size=28).out_features
        256

    """
    if stem not in ("auto", "imagenet", "medium", "small"):
        raise EigenmapError(f'The stem must be "auto", "imagenet", "medium" or "small", not {stem!r}.')
    if name == "small-cnn":
        return SmallCNN(channels)
    if name in _RESNETS:
        if stem == "auto":
            stem = "small" if image_size <= _LARGEST_SMALL_IMAGE else "imagenet"
        return _RESNETS[name](channels, stem)
    if name.startswith(TRANSFORMERS):
        encoder: nn.Module = load_hugging_face(name, channels)
        encoder.out_features = encoder_width(encoder, (channels, image_size, image_size))  # type: ignore[assignment]
        return encoder
    return _timm_encoder(name, channels, image_size)


def require_encoder(name: str) -> None:
    """Refuse a name that `build_encoder` does not know, without building anything."""
    if name in ENCODERS:
        return
    if name.startswith(TRANSFORMERS):
        require_transformers(name)
        return
    known = ", ".join(ENCODERS)
    try:
        import timm
    except ImportError as error:
        raise EigenmapError(
            f"Unknown encoder {name!r}: choose one of {known}, or install timm to use its models."
        ) from error
    except Exception as error:  # a torchvision that does not match torch raises a RuntimeError
        raise EigenmapError(
            f"Unknown encoder {name!r}: it is not one of {known}, and timm cannot be imported: {error}."
        ) from error
    if not comes_trained(name) and not timm.is_model(name.removeprefix("timm:")):
        raise EigenmapError(f"Unknown encoder {name!r}: it is neither one of {known} nor a timm model.")


def _timm_encoder(name: str, channels: int, image_size: int) -> nn.Module:
    require_encoder(name)
    import timm

    options = {"pretrained": comes_trained(name), "num_classes": 0, "in_chans": channels}
    create = partial(timm.create_model, name.removeprefix("timm:"), **options)
    try:
        encoder: nn.Module = create(img_size=image_size)  # transformers have a fixed input size
    except TypeError:  # convolutional networks do not take the argument
        encoder = create()
    # timm's `num_features` is not always the output width, so the width is measured.
    encoder.out_features = encoder_width(encoder, (channels, image_size, image_size))  # type: ignore[assignment]
    return encoder
