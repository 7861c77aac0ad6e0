"""Reading and encoding of inputs with progress bars, shared by several verbs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.cli.console import log_function, progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from eigenmap.data import ImageSet
    from eigenmap.model import Codes, Eigenmap
    from eigenmap.networks import SparseRows


def read_images(
    model: Eigenmap,
    source: Path | Sequence[Path],
    *,
    labels: Path | None = None,
    strict: bool = False,
    quiet: bool = False,
) -> ImageSet:
    """Read images in the model's format, reporting skipped files."""
    from eigenmap.data import load_images
    from eigenmap.fitting.images import log_skipped

    size, channels = model.image.size, model.image.channels  # raises if the model takes something else
    with progress_bar("reading", quiet) as tick:
        images = load_images(given_images(source), size, channels, labels, strict, progress=tick)
    log_skipped(images, log_function(quiet))
    return images


def given_images(source: Path | Sequence[Path]) -> Path | Sequence[Path] | ImageSet:
    """Return the source, or the embedded catalogue for the word `catalogue` unless a file has that name."""
    if source == Path("catalogue") and not Path("catalogue").exists():
        from eigenmap.data.images import catalogue

        return catalogue.load("train")
    return source


def encode_images(
    model: Eigenmap, images: ImageSet, dim: int, device: str, batch_size: int = 256, quiet: bool = False
) -> Codes:
    """Return the codes of all images."""
    import numpy as np

    codes = np.empty((len(images), dim), np.float32)
    with progress_bar("encoding", quiet) as tick:
        for start in range(0, len(images), batch_size):
            rows = slice(start, start + batch_size)
            codes[rows] = model.encode(images.pixels[rows], dim, device=device, batch_size=batch_size)
            if tick is not None:
                tick(min(rows.stop, len(images)), len(images))
    return codes


def encode_nodes(
    model: Eigenmap, rows: Tensor | SparseRows, dim: int, device: str, batch_size: int = 256, quiet: bool = False
) -> Iterator[Codes]:
    """Encode nodes by their features, batch by batch; features and codes may stay on disk."""
    with progress_bar("encoding", quiet) as tick:
        for start in range(0, len(rows), batch_size):
            stop = min(start + batch_size, len(rows))
            yield model.encode(rows[start:stop], dim, device=device, batch_size=batch_size)
            if tick is not None:
                tick(stop, len(rows))
