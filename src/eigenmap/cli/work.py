"""What several verbs do: read images or features for a model, and turn them into codes, with a bar for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.cli.console import progress_bar, sayer

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
    """Images as the model takes them; says which files were left out.

    The word `catalogue`, where no file has that name, is the embedded catalogue.
    """
    from eigenmap.data import load_images
    from eigenmap.data.images import catalogue
    from eigenmap.fitting.images import say_skipped

    size, channels = model.image.size, model.image.channels  # refused here if the model takes something else
    embedded = source == Path("catalogue") and not Path("catalogue").exists()
    with progress_bar("reading", quiet) as tick:
        given = catalogue.load("train") if embedded else source
        images = load_images(given, size, channels, labels, strict, progress=tick)
    say_skipped(images, sayer(quiet))
    return images


def encode_images(
    model: Eigenmap, images: ImageSet, dim: int, device: str, batch_size: int = 256, quiet: bool = False
) -> Codes:
    """Codes of all images."""
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
    """Codes of nodes by their features, a batch at a time: features may stay on disk, and codes may go there."""
    with progress_bar("encoding", quiet) as tick:
        for start in range(0, len(rows), batch_size):
            stop = min(start + batch_size, len(rows))
            yield model.encode(rows[start:stop], dim, device=device, batch_size=batch_size)
            if tick is not None:
                tick(stop, len(rows))
