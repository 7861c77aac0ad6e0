"""Image sets: images in memory with ids and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count
from eigenmap.data.images.labels import Labels

_ROWS_IN_DIGEST, _BYTES_IN_DIGEST = 256, 2**28


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """N square images of one size, stored as 8-bit pixels.

    Attributes:
        pixels: uint8 tensor of shape (N, channels, size, size).
        ids: one name per image: the path relative to the folder, or "0", "1", ... for arrays.
        labels: classes of every image, or None if unknown.
        skipped: (file, reason) of every file that could not be read.
        aspects: width / height of every picture if uncropped pictures were squeezed into squares; else None.

    Example:
        >>> images = ImageSet(torch.zeros(3, 1, 8, 8, dtype=torch.uint8), ids=["a", "b", "c"])
        >>> len(images), images.size, images.subset([0, 2]).ids
        (3, 8, ['a', 'c'])

    """

    pixels: Tensor
    ids: list[str]
    labels: Labels | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    aspects: Tensor | None = None

    def __post_init__(self) -> None:
        if self.pixels.dtype != torch.uint8 or self.pixels.ndim != 4:
            raise EigenmapError("an ImageSet needs uint8 pixels of shape (N, channels, height, width)")
        if len(self.ids) != len(self.pixels):
            raise EigenmapError(f"{len(self.ids)} ids for {len(self.pixels)} images: give one per image")
        if self.labels is not None and len(self.labels) != len(self.pixels):
            raise EigenmapError(f"{len(self.labels)} labels for {len(self.pixels)} images: give one per image")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        height, width = self.pixels.shape[-2:]
        facts = [count(len(self), "image"), f"{height} x {width} x {self.channels}"]
        facts += [] if self.labels is None else [count(self.labels.n_classes, "class", "classes")]
        facts += [f"{len(self.skipped):,} skipped"] if self.skipped else []
        return f"ImageSet({', '.join(facts)})"

    @property
    def size(self) -> int:
        """Height and width of every image."""
        return int(self.pixels.shape[-1])

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colour."""
        return int(self.pixels.shape[1])

    def digest(self) -> str:
        """Return a digest that identifies these images, from all names and all pixels, or some of a large set."""
        apart = 1 if self.pixels.nbytes <= _BYTES_IN_DIGEST else max(1, len(self) // _ROWS_IN_DIGEST)
        rows = torch.arange(0, len(self), apart)
        content = hashlib.sha256("\0".join(self.ids).encode("utf-8", "surrogateescape"))
        content.update(repr(tuple(self.pixels.shape)).encode())
        content.update(self.pixels[rows.to(self.pixels.device)].cpu().numpy().tobytes())
        return content.hexdigest()[:16]

    def subset(self, indices: Tensor | npt.NDArray[np.int64] | Sequence[int]) -> ImageSet:
        """Return the images at these positions, in this order."""
        rows = torch.as_tensor(indices, dtype=torch.long)
        ids = [self.ids[row] for row in rows.tolist()]
        labels = None if self.labels is None else self.labels.subset(rows)
        aspects = None if self.aspects is None else self.aspects[rows]
        return ImageSet(self.pixels[rows.to(self.pixels.device)], ids, labels, self.skipped, aspects)
