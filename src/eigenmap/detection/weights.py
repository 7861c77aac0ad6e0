"""Encoder weights under the names of torchvision and of detectron2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write
from eigenmap.networks import ResNet

Names = Literal["torchvision", "detectron2"]


def torchvision_weights(encoder: ResNet) -> dict[str, Tensor]:
    """Return the weights under torchvision's names, which are also ours; there is no classifier `fc`."""
    return {name: tensor.detach().cpu().clone() for name, tensor in encoder.state_dict().items()}


def detectron2_weights(encoder: ResNet) -> dict[str, Tensor]:
    """Return the weights under detectron2's names: stem, res2 to res5, shortcut, and norms inside convolutions.

    The stride is in the 3x3 convolution, so detectron2 needs RESNETS.STRIDE_IN_1X1 = False.
    """
    return {
        detectron2_name(name): tensor
        for name, tensor in torchvision_weights(encoder).items()
        if not name.endswith("num_batches_tracked")
    }


def detectron2_name(name: str) -> str:
    """Translate the name of a parameter to detectron2's.

    >>> detectron2_name("layer1.0.downsample.1.running_var"), detectron2_name("bn1.weight")
    ('res2.0.shortcut.norm.running_var', 'stem.conv1.norm.weight')
    """
    if not name.startswith("layer"):
        name = f"stem.{name}"
    name = re.sub(r"layer(\d)", lambda found: f"res{int(found[1]) + 1}", name)
    name = name.replace("downsample.0", "shortcut").replace("downsample.1", "shortcut.norm")
    return re.sub(r"\bbn(\d)", r"conv\1.norm", name)


def save_weights(encoder: ResNet, file: Path, names: Names) -> None:
    """Write a torch file: the named weights for torchvision, wrapped in detectron2's dictionary for detectron2."""
    if names not in ("torchvision", "detectron2"):
        raise EigenmapError(f"names must be torchvision or detectron2, not {names!r}.")
    if names == "torchvision":
        content: Mapping[str, object] = torchvision_weights(encoder)
    else:
        content = {"model": detectron2_weights(encoder), "__author__": "eigenmap", "matching_heuristics": True}
    with atomic_write(file) as opened:
        torch.save(dict(content), opened)
