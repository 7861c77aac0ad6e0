"""Average precision of detections as defined by COCO, for boxes or masks.

For each class and overlap t = .50, .55, ... .95, detections are sorted by descending score. A detection is correct if
it overlaps an object by at least t that no better detection has claimed. AP is the mean of the interpolated precision
at recalls 0, .01, ... 1, over all t and all classes with objects. A detection that is not correct, but lies in a crowd
by at least a share t of its area, does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt
import torch

from eigenmap.detection.boxes import box_area, box_intersection
from eigenmap.detection.rle import from_text, mask_of

LEAST = np.linspace(0.5, 0.95, 10)
"""Minimum overlaps t."""
RECALLS = np.linspace(0, 1, 101)
MOST = 100
"""Maximum number of detections per image and class."""

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Kind = Literal["bbox", "segm"]


class Precision(TypedDict):
    """AP over all overlaps, and at .5 and .75."""

    AP: float
    AP50: float
    AP75: float


def average_precision(truth: Mapping[str, Any], found: Sequence[Mapping[str, Any]], kind: Kind) -> Precision:
    """Score detections against annotated instances, both in COCO's format."""
    images = [image["id"] for image in truth["images"]]
    by_class = []
    for category in truth["categories"]:
        objects = _by_image(truth["annotations"], category["id"])
        detected = _by_image(found, category["id"])
        if not all(_crowds(rows).all() for rows in objects.values()):
            by_class.append(_class_precision(images, objects, detected, truth, kind))
    if not by_class:
        return Precision(AP=0.0, AP50=0.0, AP75=0.0)
    at = np.mean(by_class, axis=0)
    return Precision(AP=float(at.mean()), AP50=float(at[0]), AP75=float(at[5]))


def _by_image(rows: Sequence[Mapping[str, Any]], category: int) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["category_id"] == category:
            found.setdefault(row["image_id"], []).append(row)
    return found


def _crowds(objects: Sequence[Mapping[str, Any]]) -> Flags:
    """Tell which objects are crowds."""
    return np.array([bool(row.get("iscrowd")) for row in objects], dtype=bool)


def _class_precision(
    images: Sequence[int],
    objects: Mapping[int, list[Mapping[str, Any]]],
    detected: Mapping[int, list[Mapping[str, Any]]],
    truth: Mapping[str, Any],
    kind: Kind,
) -> Values:
    """Return the mean precision of one class at each overlap."""
    sizes = {image["id"]: (image["height"], image["width"]) for image in truth["images"]}
    nothing = np.zeros((len(LEAST), 0), dtype=bool)
    scores, right, counted = [], [nothing], [nothing]
    for image in images:
        best = sorted(detected.get(image, []), key=lambda row: -row["score"])[:MOST]
        there = objects.get(image, [])
        overlap, crowds = overlaps(best, there, kind, sizes[image]), _crowds(there)
        correct = _matches(overlap[:, ~crowds])
        in_crowd = overlap[:, crowds].max(1, initial=0.0) >= LEAST[:, None]
        scores += [row["score"] for row in best]
        right.append(correct)
        counted.append(correct | ~in_crowd)
    order = np.argsort(-np.array(scores, dtype=float), kind="stable")
    hits, counts = (np.concatenate(parts, axis=1)[:, order] for parts in (right, counted))
    total = sum(int((~_crowds(rows)).sum()) for rows in objects.values())
    return np.array([_interpolated(row[kept], total) for row, kept in zip(hits, counts, strict=True)])


def _matches(overlap: Values) -> Flags:
    """Tell which detections (columns, best first) are matched to an object, at each overlap (rows)."""
    taken = np.zeros((len(LEAST), overlap.shape[1]), dtype=bool)
    right = np.zeros((len(LEAST), overlap.shape[0]), dtype=bool)
    for place, least in enumerate(LEAST):
        for row, values in enumerate(overlap):
            free = np.where(taken[place], -1.0, values)
            if len(free) and free.max() >= least:
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
    """Return the intersections over unions as a matrix (detections, objects); for a crowd, over the detection alone."""
    if kind == "bbox":
        corners = [_corners(rows) for rows in (found, objects)]
        common = np.asarray(box_intersection(*corners).numpy())
        areas = [np.asarray(box_area(boxes).numpy()) for boxes in corners]
    else:
        masks = [_flat_masks(rows, size) for rows in (found, objects)]
        common = masks[0] @ masks[1].T
        areas = [each.sum(1) for each in masks]
    union = areas[0][:, None] + np.where(_crowds(objects), 0.0, areas[1] - common)
    return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=union > 0))


def _corners(rows: Sequence[Mapping[str, Any]]) -> torch.Tensor:
    boxes = torch.tensor([row["bbox"] for row in rows], dtype=torch.float64).reshape(-1, 4)
    return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1)


def _flat_masks(rows: Sequence[Mapping[str, Any]], size: tuple[int, int]) -> Values:
    masks = [segmentation_mask(row["segmentation"], size).reshape(-1) for row in rows]
    return np.array(masks, dtype=float).reshape(len(rows), size[0] * size[1])


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
