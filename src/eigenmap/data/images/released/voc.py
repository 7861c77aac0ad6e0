"""PASCAL VOC 2012: image labels from the XML files of objects."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import torch

from eigenmap.data.images.labels import Labels
from eigenmap.data.images.released.layout import Layout, Listing, Released

LAYOUT = Layout(
    "PASCAL VOC 2012",
    "VOCdevkit/VOC2012 with Annotations/*.xml, ImageSets/Main/train.txt and val.txt, JPEGImages/*.jpg",
)
HOME = "VOCdevkit/VOC2012"
CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)


def read_voc(folder: Path) -> Released:
    """Read the 5,717 images of train.txt as gallery and the 5,823 of val.txt as queries."""
    return Released(_listing(folder, "train"), _listing(folder, "val"))


def _listing(folder: Path, part: str) -> Listing:
    names = LAYOUT.text(folder, f"{HOME}/ImageSets/Main/{part}.txt").split()
    files = LAYOUT.require_images(folder, f"{HOME}/JPEGImages", [f"{name}.jpg" for name in names])
    matrix = torch.zeros(len(names), len(CLASSES), dtype=torch.bool)
    for row, name in enumerate(names):
        for shown in _objects(folder, f"{HOME}/Annotations/{name}.xml"):
            matrix[row, CLASSES.index(shown)] = True
    return Listing(files, Labels(matrix, list(CLASSES))).labelled()


def _objects(folder: Path, inside: str) -> set[str]:
    """Return the classes of the objects in an image."""
    text, file = LAYOUT.text(folder, inside), folder / inside
    if "<!" in text:  # no file of the set has declarations; entities could expand without end
        raise LAYOUT.damaged(file, "it has declarations")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, RecursionError, ValueError) as error:
        raise LAYOUT.damaged(file, str(error)) from error
    found = {(entry.findtext("name") or "").strip() for entry in root.iter("object")}
    unknown = sorted(found - set(CLASSES))
    if unknown:
        raise LAYOUT.damaged(file, f"it names the unknown class {unknown[0]!r}")
    return found
