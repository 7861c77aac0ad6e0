"""Raw outputs of a network for the images of a set."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigenmap.augment.views import plain_view
from eigenmap.data import ImageSet
from eigenmap.model import CodeSource, Eigenmap, ImageInput


def outputs_of(model: Eigenmap, images: ImageSet, source: CodeSource, batch_size: int = 256) -> Tensor:
    """Return an output of a model's network for plain images, on the CPU; see `network_outputs`."""
    return network_outputs(model.network, model.image, images, source, batch_size)


@torch.no_grad()
def network_outputs(
    network: nn.Module, image: ImageInput, images: ImageSet, source: CodeSource, batch_size: int = 256
) -> Tensor:
    """Return an output of the network for plain images, batch by batch, on the CPU.

    Images must have the network's format; of uncropped pictures the centre is used.
    """
    device, parts = next(network.parameters()).device, []
    share = image.view_size / image.size
    for start in range(0, len(images), batch_size):
        rows = slice(start, start + batch_size)
        shapes = None if images.aspects is None else images.aspects[rows]
        views = plain_view(images.pixels[rows].to(device), image.view_size, image.standardisation, share, shapes)
        features, psi = network(views)
        parts.append((features if source == "encoder" else psi).float().cpu())
    return torch.cat(parts)
