"""Average precision of detections as defined by COCO, for boxes or masks.

For each class and overlap t = .50, .55, ... .95, detections are sorted by descending score. A detection is correct if
it overlaps an object by at least t that no better detection has claimed. AP is the mean of the interpolated precision
at recalls 0, .01, ... 1, over all t and all classes with objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt
import torch

from eigenmap.detection.boxes import box_iou
from eigenmap.detection.rle import from_text, mask_of

OVERLAPS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
MOST = 100
"""Maximum number of detections per image and class."""

Values = npt.NDArray[np.float64]
Kind = Literal["bbox", "segm"]


class Precision(TypedDict):
    """AP over all overlaps, and at .5 and .75."""

    AP: float
    AP50: float
    AP75: float


def average_precision(truth: Mapping[str, Any], found: Sequence[Mapping[str, Any]], kind: Kind) -> Precision:
    """Score detections against annotated instances, both in COCO's format; crowds are ignored."""
    images = [image["id"] for image in truth["images"]]
    by_class = []
    for category in truth["categories"]:
        objects = _by_image(truth["annotations"], category["id"])
        detected = _by_image(found, category["id"])
        if objects:
            by_class.append(_class_precision(images, objects, detected, truth, kind))
    if not by_class:
        return Precision(AP=0.0, AP50=0.0, AP75=0.0)
    at = np.mean(by_class, axis=0)
    return Precision(AP=float(at.mean()), AP50=float(at[0]), AP75=float(at[5]))


def _by_image(rows: Sequence[Mapping[str, Any]], category: int) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["category_id"] == category and not row.get("iscrowd"):
            found.setdefault(row["image_id"], []).append(row)
    return found


def _class_precision(
    images: Sequence[int],
    objects: Mapping[int, list[Mapping[str, Any]]],
    detected: Mapping[int, list[Mapping[str, Any]]],
    truth: Mapping[str, Any],
    kind: Kind,
) -> Values:
    """Return the mean precision of one class at each overlap."""
    sizes = {image["id"]: (image["height"], image["width"]) for image in truth["images"]}
    scores, right = [], []
    for image in images:
        best = sorted(detected.get(image, []), key=lambda row: -row["score"])[:MOST]
        scores += [row["score"] for row in best]
        right.append(_matches(overlaps(best, objects.get(image, []), kind, sizes[image])))
    order = np.argsort(-np.array(scores, dtype=float), kind="stable")
    hits = np.concatenate(right, axis=1)[:, order] if scores else np.zeros((len(OVERLAPS), 0), dtype=bool)
    total = sum(map(len, objects.values()))
    return np.array([_interpolated(row, total) for row in hits])


def _matches(overlap: Values) -> npt.NDArray[np.bool_]:
    """Tell which detections (rows, best first) are matched to an object, at each overlap."""
    taken = np.zeros((len(OVERLAPS), overlap.shape[1]), dtype=bool)
    right = np.zeros((len(OVERLAPS), overlap.shape[0]), dtype=bool)
    for place, least in enumerate(OVERLAPS):
        for row, values in enumerate(overlap):
            free = np.where(taken[place], -1.0, values)
            if len(free) and free.max() >= min(least, 1 - 1e-10):
                # Of equal overlaps take the last one, as COCO's tools do.
                taken[place, len(free) - 1 - int(free[::-1].argmax())] = True
                right[place, row] = True
    return right


def _interpolated(hits: npt.NDArray[np.bool_], total: int) -> float:
    """Return the mean over recalls of the largest precision at that recall or above."""
    found = hits.cumsum()
    recall, precision = found / total, found / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    place = np.searchsorted(recall, RECALLS, side="left")
    return float(np.where(place < len(best), np.append(best, 0.0)[np.minimum(place, len(best))], 0.0).mean())


def overlaps(
    found: Sequence[Mapping[str, Any]], objects: Sequence[Mapping[str, Any]], kind: Kind, size: tuple[int, int]
) -> Values:
    """Return the intersections over unions as a matrix (detections, objects)."""
    if kind == "bbox":
        first, second = (
            torch.tensor([row["bbox"] for row in rows], dtype=torch.float64).reshape(-1, 4) for rows in (found, objects)
        )
        corners = [torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1) for boxes in (first, second)]
        return np.asarray(box_iou(*corners).numpy())
    masks = [
        np.array([segmentation_mask(row["segmentation"], size).reshape(-1) for row in rows], dtype=float).reshape(
            len(rows), size[0] * size[1]
        )
        for rows in (found, objects)
    ]
    common = masks[0] @ masks[1].T
    union = masks[0].sum(1)[:, None] + masks[1].sum(1) - common
    return np.asarray(common / np.maximum(union, 1))


def segmentation_mask(segmentation: Any, size: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return the mask of a segmentation: polygons, or run lengths as a list or as text."""
    if isinstance(segmentation, Mapping):
        counts = segmentation["counts"]
        return mask_of(from_text(counts) if isinstance(counts, str) else counts, *segmentation["size"])
    from PIL import Image, ImageDraw

    picture = Image.new("1", (size[1], size[0]))
    for polygon in segmentation:
        # Polygon coordinates refer to pixel edges; a pixel belongs to the mask if its centre is inside.
        corners = [value - 0.5 for value in polygon]
        ImageDraw.Draw(picture).polygon(list(zip(corners[0::2], corners[1::2], strict=True)), fill=1)
    return np.asarray(picture, dtype=bool)
