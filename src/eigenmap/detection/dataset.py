"""Detection sets in COCO's format, read image by image and padded into batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from eigenmap.augment.views import IMAGENET_STANDARDISATION, Standardisation
from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.released.coco import read_instances
from eigenmap.detection.average_precision import segmentation_mask
from eigenmap.detection.mask_rcnn import Target


@dataclass(frozen=True)
class DetectionSet:
    """One part of a detection set, such as the training images.

    Attributes:
        folder: holds PART/ with images and annotations/instances_PART.json.
        content: images, annotations and categories.
        sides: lengths of the shorter side to draw from in training; detection uses the last one. Empty: no resizing.
        longest: maximum length of the longer side.

    """

    folder: Path
    part: str
    content: Mapping[str, Any]
    sides: tuple[int, ...] = ()
    longest: int = 1333
    standardisation: Standardisation = IMAGENET_STANDARDISATION

    @classmethod
    def open(cls, folder: Path, part: str, **settings: Any) -> DetectionSet:
        """Read the instances of a part; if something is missing, the error describes the expected layout."""
        content = read_instances(folder, part)
        for row in content["images"]:
            if not all(isinstance(row.get(side), int) for side in ("height", "width")):
                raise EigenmapError(f"An image in {folder}/annotations/instances_{part}.json has no height and width.")
        return cls(folder, part, content, **settings)

    def __len__(self) -> int:
        return len(self.content["images"])

    @property
    def n_classes(self) -> int:
        """Number of categories."""
        return len(self.content["categories"])

    def column(self) -> dict[int, int]:
        """Return the class number of each category."""
        numbers = sorted(row["id"] for row in self.content["categories"])
        return {number: place for place, number in enumerate(numbers)}

    def objects(self) -> list[list[Mapping[str, Any]]]:
        """Return the instances of every image, without crowds."""
        place = {row["id"]: number for number, row in enumerate(self.content["images"])}
        found: list[list[Mapping[str, Any]]] = [[] for _ in place]
        for row in self.content["annotations"]:
            if not row.get("iscrowd") and row["bbox"][2] > 0 and row["bbox"][3] > 0:
                found[place[row["image_id"]]].append(row)
        return found

    def picture(self, number: int, side: int | None, flip: bool) -> tuple[Tensor, float]:
        """Return a standardised image (3, H, W) and the factor by which it was enlarged."""
        file = self.folder / self.part / self.content["images"][number]["file_name"]
        try:
            with Image.open(file) as image:
                pixels = np.array(image.convert("RGB"))
        except OSError as error:
            raise EigenmapError(f"{file} cannot be read ({error}): extract the set again.") from error
        x = torch.from_numpy(pixels).permute(2, 0, 1).float() / 255
        height, width = x.shape[1:]
        scale = 1.0
        if side is not None:
            scale = min(side / min(height, width), self.longest / max(height, width))
            size = round(height * scale), round(width * scale)
            x = functional.interpolate(x[None], size, mode="bilinear", align_corners=False, antialias=True)[0]
        x = x.flip(2) if flip else x
        return self.standardisation(x[None])[0], scale

    def target(
        self, rows: Sequence[Mapping[str, Any]], number: int, scale: float, size: tuple[int, int], flip: bool
    ) -> Target:
        """Return the objects of an image, enlarged and mirrored like the image itself."""
        about = self.content["images"][number]
        column = self.column()
        masks = torch.zeros(len(rows), *size, dtype=torch.bool)
        boxes = torch.tensor([row["bbox"] for row in rows], dtype=torch.float32).reshape(-1, 4) * scale
        boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1)
        for place, row in enumerate(rows):
            own = torch.from_numpy(segmentation_mask(row["segmentation"], (about["height"], about["width"])).copy())
            if own.shape != size:
                own = functional.interpolate(own[None, None].float(), size)[0, 0] > 0.5
            masks[place] = own
        if flip:
            masks = masks.flip(2)
            boxes = torch.stack([size[1] - boxes[:, 2], boxes[:, 1], size[1] - boxes[:, 0], boxes[:, 3]], dim=1)
        classes = torch.tensor([column[row["category_id"]] for row in rows], dtype=torch.long)
        return Target(boxes, classes, masks)


def joined(pictures: Sequence[Tensor]) -> tuple[Tensor, list[tuple[int, int]]]:
    """Pad images with zeros to a common size; also return their original sizes."""
    sizes = [(int(each.shape[1]), int(each.shape[2])) for each in pictures]
    height, width = (max(size[axis] for size in sizes) for axis in (0, 1))
    padded = [functional.pad(each, (0, width - each.shape[2], 0, height - each.shape[1])) for each in pictures]
    return torch.stack(padded), sizes
