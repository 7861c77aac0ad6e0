"""Small pictures of three kinds that nobody could confuse, as arrays and as folders of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

KINDS = ("bars", "disc", "stripes")
ORIENTATION = 0x0112


def picture(kind: str, rng: np.random.Generator, height: int = 24, width: int = 24) -> npt.NDArray[np.uint8]:
    """Blue horizontal bars, a green disc or red vertical stripes, at a random phase or radius, with noise."""
    y, x = (axis / max(height, width) for axis in np.mgrid[:height, :width])
    phase = rng.uniform(0, 6)
    inside, colour = {
        "bars": (np.sin(30 * y + phase) > 0, (60, 60, 220)),
        "disc": ((x - x.max() / 2) ** 2 + (y - y.max() / 2) ** 2 < 0.04 + 0.01 * phase, (60, 220, 60)),
        "stripes": (np.sin(30 * x + phase) > 0, (220, 60, 60)),
    }[kind]
    pixels = np.where(inside[..., None], colour, rng.integers(0, 60, 3)) + rng.normal(0, 8, (height, width, 3))
    return pixels.clip(0, 255).astype(np.uint8)


def pictures(n: int, size: int = 16, seed: int = 0) -> npt.NDArray[np.uint8]:
    """n pictures of one size (n, size, size, 3), the kinds taking turns."""
    rng = np.random.default_rng(seed)
    return np.stack([picture(KINDS[i % 3], rng, size, size) for i in range(n)])


def write_photos(root: Path, per_kind: int, seed: int = 0) -> list[str]:
    """Photos of mixed sizes and formats in nested class folders; one is stored on its side. Returns their names."""
    rng = np.random.default_rng(seed)
    names = []
    for kind in KINDS:
        for i in range(per_kind):
            folder = f"{kind}/older" if i % 3 == 0 else kind
            (root / folder).mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(picture(kind, rng, *rng.integers(20, 40, 2)))
            name = f"{folder}/{i}.{'png' if i % 2 else 'jpg'}"
            exif = image.getexif()
            if i == 2:
                image = image.transpose(Image.Transpose.ROTATE_90)
                exif[ORIENTATION] = 6  # a viewer turns it back
            image.save(root / name, exif=exif)
            names.append(name)
    return sorted(names)
