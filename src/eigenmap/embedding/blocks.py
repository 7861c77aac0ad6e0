"""Encoding of images in blocks, shared by all engines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from eigenmap.data.images.decode import Pixels, UnreadableImageError, quiet_pillow
from eigenmap.data.images.sources import strict_error
from eigenmap.data.images.stream import RawImage, square
from eigenmap.data.images.workers import decode_in_order, processors
from eigenmap.model import Codes, Eigenmap


@dataclass
class Block:
    """A block of images: names, codes, and the images that could not be read with the reason."""

    ids: list[str]
    codes: Codes
    skipped: list[tuple[str, str]] = field(default_factory=list)


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
    names: deque[str] = deque()

    def pictures() -> Iterator[RawImage]:
        for name, picture in rows:
            names.append(name)
            yield picture

    decode = partial(square, size=model.image.size, channels=model.image.channels)
    ids: list[str] = []
    batch: list[Pixels] = []
    skipped: list[tuple[str, str]] = []
    with quiet_pillow():
        for result in decode_in_order(pictures(), decode, how.workers or processors(), ahead=how.batch_size):
            name = names.popleft()
            if not isinstance(result, UnreadableImageError):
                ids.append(name)
                batch.append(result)
            elif how.strict:
                raise strict_error(name, str(result))
            else:
                skipped.append((name, str(result)))
            if len(ids) + len(skipped) == how.batch_size:
                yield _encoded(model, ids, batch, skipped, how)
                ids, batch, skipped = [], [], []
        if ids or skipped:
            yield _encoded(model, ids, batch, skipped, how)


def _encoded(
    model: Eigenmap, ids: list[str], batch: list[Pixels], skipped: list[tuple[str, str]], how: Encoding
) -> Block:
    if not ids:
        return Block([], np.empty((0, how.dim), np.float32), skipped)
    pixels = torch.from_numpy(np.stack(batch))
    return Block(ids, model.encode(pixels, how.dim, device=how.device, batch_size=how.batch_size), skipped)
