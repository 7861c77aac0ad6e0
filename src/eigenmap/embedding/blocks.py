"""Encoding of images in blocks, shared by all engines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from eigenmap.data.images.decode import Pixels, UnreadableImageError, quiet_pillow
from eigenmap.data.images.rows import RawImage, Skipped, decoded, strict_error
from eigenmap.data.images.workers import processors
from eigenmap.model import Codes, Eigenmap


@dataclass
class Block:
    """A block of images: names, codes, and the images that could not be read with the reason."""

    ids: list[str]
    codes: Codes
    skipped: Skipped = field(default_factory=list)
    pixels: Tensor | None = None
    """The encoded pixels, uint8 (images, channels, size, size); None if the codes were read from disk."""
    readable: list[bool] = field(default_factory=list)
    """For each image, skipped ones included, whether it has a code."""


@dataclass(frozen=True)
class Encoding:
    """Settings for turning images into codes."""

    dim: int
    device: str = "cpu"
    batch_size: int = 256
    strict: bool = False
    workers: int | None = None


def encode_blocks(model: Eigenmap, rows: Iterable[tuple[str, RawImage]], how: Encoding) -> Iterator[Block]:
    """Encode (name, picture) pairs, `batch_size` at a time.

    While one batch is encoded, threads decode the next: at most two batches of small pictures are in memory.
    """
    workers = how.workers or processors()
    with quiet_pillow():
        images = decoded(rows, model.image.size, model.image.channels, workers, ahead=how.batch_size)
        while some := list(islice(images, how.batch_size)):
            yield _encoded(model, some, how)


def _encoded(model: Eigenmap, images: list[tuple[str, Pixels | UnreadableImageError]], how: Encoding) -> Block:
    block = Block([], np.empty((0, how.dim), np.float32))
    batch: list[Pixels] = []
    for name, result in images:
        block.readable.append(not isinstance(result, UnreadableImageError))
        if not isinstance(result, UnreadableImageError):
            block.ids.append(name)
            batch.append(result)
        elif how.strict:
            raise strict_error(name, str(result))
        else:
            block.skipped.append((name, str(result)))
    if batch:
        block.pixels = torch.from_numpy(np.stack(batch))
        block.codes = model.encode(block.pixels, how.dim, device=how.device, batch_size=how.batch_size)
    return block
