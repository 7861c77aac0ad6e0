"""Sample data for the examples of the documentation: small, real where possible, the same every time.

Each function writes into a folder; in the small form it writes less, for tests.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np


def photos(folder: Path, quick: bool = False) -> None:
    """Write `photos/CLASS/NUMBER.png`, garments of the embedded catalogue, and `new.png`, which is not among them."""
    from PIL import Image

    from eigenmap.data.images import catalogue
    from eigenmap.evaluation.baselines import labels_of

    images = catalogue.load("train")
    labels = labels_of(images)
    for row in range(120 if quick else 4_000):
        name = labels.names[int(labels.matrix[row].int().argmax())]
        place = folder / "photos" / name
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(images.pixels[row]).squeeze()).save(place / f"{row:05}.png")
    Image.fromarray(np.asarray(catalogue.load("query").pixels[0]).squeeze()).save(folder / "new.png")
