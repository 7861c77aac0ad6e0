"""Generated detection set: a small set in COCO's format, composed at random from labelled pictures.

Pictures are cut to ellipses and other outlines and pasted onto a noisy grey background, so that boxes and masks are
known exactly. The set does not replace COCO, but compares initial weights in minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from eigenmap.core.files import make_folder, write_json
from eigenmap.data import ImageSet
from eigenmap.detection.rle import runs_of, to_text

Picture = npt.NDArray[np.uint8]
LEAST_SEEN = 0.4
"""Minimum visible share of an object; others are left out."""


def generate_detection_set(
    images: ImageSet, folder: Path, part: str, count: int, side: int, seed: int, most: int = 4
) -> dict[str, Any]:
    """Write FOLDER/PART/*.png and FOLDER/annotations/instances_PART.json; return the annotations."""
    assert images.labels is not None
    rng = np.random.default_rng(seed)
    make_folder(folder / part)
    make_folder(folder / "annotations")
    y = images.labels.to_integers().numpy()
    pictures = images.pixels.permute(0, 2, 3, 1).numpy()
    content: dict[str, Any] = {
        "images": [],
        "annotations": [],
        "categories": [{"id": number + 1, "name": name} for number, name in enumerate(images.labels.names)],
    }
    for number in range(count):
        name = f"{number:06}.png"
        canvas, objects = compose(pictures, y, side, int(rng.integers(1, most + 1)), rng)
        Image.fromarray(canvas).save(folder / part / name, compress_level=1)
        content["images"].append({"id": number, "file_name": name, "height": side, "width": side})
        for class_number, mask in objects:
            content["annotations"].append(_annotation(len(content["annotations"]) + 1, number, class_number, mask))
    write_json(folder / "annotations" / f"instances_{part}.json", content)
    return content


def compose(
    pictures: Picture, y: Sequence[int] | npt.NDArray[np.int64], side: int, count: int, rng: np.random.Generator
) -> tuple[Picture, list[tuple[int, npt.NDArray[np.bool_]]]]:
    """Return a canvas with pasted pictures, and the class and visible mask of each; later ones cover earlier ones."""
    backdrop = pictures[rng.integers(len(pictures))]
    # Noise around the mean grey of some picture: objects stand out, and the background contains no other object.
    faded = np.repeat(backdrop.mean((0, 1, 2), keepdims=True), side, 0).repeat(side, 1).repeat(3, 2)
    noise = rng.normal(0, 12, (side, side, 1))
    canvas = np.clip(faded + noise, 0, 255).astype(np.uint8)
    objects: list[tuple[int, npt.NDArray[np.bool_], int]] = []
    for _ in range(count):
        row = int(rng.integers(len(pictures)))
        length = int(rng.integers(max(6, side // 5), side // 2 + 1))
        patch = np.asarray(Image.fromarray(pictures[row]).resize((length, length), Image.Resampling.BILINEAR))
        patch = np.repeat(patch[..., None], 3, 2) if patch.ndim == 2 else patch
        outline = _outline(length, rng)
        top, left = (int(rng.integers(0, side - length + 1)) for _ in range(2))
        mask = np.zeros((side, side), dtype=bool)
        mask[top : top + length, left : left + length] = outline
        canvas[mask] = patch[outline]
        objects = [(number, seen & ~mask, whole) for number, seen, whole in objects]
        objects.append((int(y[row]), mask, int(mask.sum())))
    return canvas, [(number, seen) for number, seen, whole in objects if seen.sum() >= LEAST_SEEN * whole]


def _outline(length: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return a superellipse with a random exponent and shape."""
    place = (np.arange(length) + 0.5) / length * 2 - 1
    power, wide = rng.uniform(1.2, 4), rng.uniform(0.6, 1)
    shape = np.abs(place[:, None]) ** power + np.abs(place / wide) ** power <= 1
    return shape if rng.random() < 0.5 else shape.T


def _annotation(identity: int, image: int, class_number: int, mask: npt.NDArray[np.bool_]) -> dict[str, Any]:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    height, width = rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
    return {
        "id": identity,
        "image_id": image,
        "category_id": class_number + 1,
        "bbox": [int(columns[0]), int(rows[0]), int(width), int(height)],
        "area": int(mask.sum()),
        "iscrowd": 0,
        "segmentation": {"size": list(mask.shape), "counts": to_text(runs_of(mask))},
    }
