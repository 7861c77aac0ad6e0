"""COCO 2017: image labels from the JSON files of instances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from eigenmap.data.images.labels import Labels
from eigenmap.data.images.released.layout import Layout, Listing, Released

LAYOUT = Layout(
    "COCO 2017",
    "annotations/instances_train2017.json, annotations/instances_val2017.json, train2017/*.jpg and val2017/*.jpg",
)


def read_coco(folder: Path) -> Released:
    """Read the training images as gallery and the validation images as queries; omit those without an instance.

    117,266 of the 118,287 training images and 4,952 of the 5,000 validation images have one, of 80 classes.
    """
    return Released(_listing(folder, "train2017"), _listing(folder, "val2017"))


def read_instances(folder: Path, part: str) -> dict[str, Any]:
    """Return the checked content of annotations/instances_PART.json."""
    inside = f"annotations/instances_{part}.json"
    text, file = LAYOUT.text(folder, inside), folder / inside
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LAYOUT.damaged(file, str(error)) from error
    for name, keys in (("images", ("id", "file_name")), ("annotations", ("image_id", "category_id"))):
        rows = content.get(name) if isinstance(content, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) and set(keys) <= row.keys() for row in rows):
            raise LAYOUT.damaged(file, f"{name} must be a list of entries with {' and '.join(keys)}")
    categories = content.get("categories")
    if not isinstance(categories, list) or not all(
        isinstance(row, dict) and isinstance(row.get("id"), int) and isinstance(row.get("name"), str)
        for row in categories
    ):
        raise LAYOUT.damaged(file, "categories must be a list of entries with id and name")
    if not all(isinstance(row["id"], int) and isinstance(row["file_name"], str) for row in content["images"]):
        raise LAYOUT.damaged(file, "an image has an id that is not a whole number or a file_name that is not text")
    if len({row["id"] for row in content["images"]}) < len(content["images"]):
        raise LAYOUT.damaged(file, "two images have the same id")
    return dict(content)


def _listing(folder: Path, part: str) -> Listing:
    content = read_instances(folder, part)
    classes = sorted(content["categories"], key=lambda row: int(row["id"]))
    column = {row["id"]: place for place, row in enumerate(classes)}
    place = {row["id"]: number for number, row in enumerate(content["images"])}
    matrix = torch.zeros(len(place), len(classes), dtype=torch.bool)
    try:
        pairs = {(place[row["image_id"]], column[row["category_id"]]) for row in content["annotations"]}
    except (KeyError, TypeError) as error:
        raise LAYOUT.damaged(folder / "annotations", f"an instance names the unknown id {error}") from error
    for image, class_number in pairs:
        matrix[image, class_number] = True
    files = LAYOUT.require_images(folder, part, [row["file_name"] for row in content["images"]])
    return Listing(files, Labels(matrix, [row["name"] for row in classes])).labelled()
