"""Miniatures of released data sets, in exactly their layout: a handful of pictures each."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

COCO_CLASSES = ((1, "person"), (3, "car"), (18, "dog"))
COCO_LABELS = {"train2017": [[1], [3, 18], [], [18], [1, 3]], "val2017": [[1], [18, 18]]}
VOC_OBJECTS = {"train": [["dog"], ["cat", "person"], ["dog", "dog"]], "val": [["person"], ["cat"]]}
NUS_CONCEPTS = ("sky", "dog", "person", "tree")
NUS_MARKS = {"Train": [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], "Test": [[1, 0, 1, 0], [0, 0, 0, 0]]}
MIRFLICKR = {"animals": [1, 2, 5], "dog": [2], "dog_r1": [2], "sky": [1, 3, 6, 8]}


def picture(path: Path, number: int, size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (20 * number % 256, 90, 40)).save(path)


def write_coco(folder: Path) -> None:
    for part, labels in COCO_LABELS.items():
        content: dict[str, Any] = {"info": {}, "licenses": [], "images": [], "annotations": []}
        content["categories"] = [{"supercategory": "x", "id": number, "name": name} for number, name in COCO_CLASSES]
        for row, classes in enumerate(labels):
            name = f"{row:012}.jpg"
            content["images"].append({"id": 100 + row, "file_name": name, "width": 40, "height": 30})
            picture(folder / part / name, row)
            for number in classes:
                instance = {"id": len(content["annotations"]), "image_id": 100 + row, "category_id": number}
                box = {"bbox": [4.0, 4.0, 20.0, 16.0], "area": 320.0, "iscrowd": 0}
                corners = {"segmentation": [[4.0, 4.0, 24.0, 4.0, 24.0, 20.0, 4.0, 20.0]]}
                content["annotations"].append(instance | box | corners)
        (folder / "annotations").mkdir(exist_ok=True)
        (folder / "annotations" / f"instances_{part}.json").write_text(json.dumps(content))


def write_nus_wide(folder: Path) -> None:
    for place in ("ConceptsList", "ImageList", "Groundtruth/TrainTestLabels"):
        (folder / place).mkdir(parents=True)
    (folder / "ConceptsList" / "Concepts81.txt").write_text("\n".join(NUS_CONCEPTS) + "\n")
    for part, marks in NUS_MARKS.items():
        names = [f"{NUS_CONCEPTS[row % 2]}\\{part}{row:04}_17.jpg" for row in range(len(marks))]
        (folder / "ImageList" / f"{part}Imagelist.txt").write_text("\r\n".join(names) + "\r\n")
        for row, name in enumerate(names):
            picture(folder / "Flickr" / name.replace("\\", "/"), row)
        for column, concept in enumerate(NUS_CONCEPTS):
            lines = "".join(f"{mark[column]}\n" for mark in marks)
            (folder / "Groundtruth" / "TrainTestLabels" / f"Labels_{concept}_{part}.txt").write_text(lines)


def write_voc(folder: Path) -> None:
    home = folder / "VOCdevkit" / "VOC2012"
    for place in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (home / place).mkdir(parents=True)
    for part, objects in VOC_OBJECTS.items():
        names = [f"2008_{part}{row:06}" for row in range(len(objects))]
        (home / "ImageSets" / "Main" / f"{part}.txt").write_text("".join(f"{name}\n" for name in names))
        for row, (name, shown) in enumerate(zip(names, objects, strict=True)):
            picture(home / "JPEGImages" / f"{name}.jpg", row)
            boxes = "".join(
                f"<object><name>{each}</name><bndbox><xmin>1</xmin></bndbox><part><name>head</name></part></object>"
                for each in shown
            )
            text = f"<annotation><filename>{name}.jpg</filename>{boxes}</annotation>"
            (home / "Annotations" / f"{name}.xml").write_text(text)


def write_mirflickr(folder: Path) -> None:
    for number in range(1, 9):
        picture(folder / "mirflickr" / f"im{number}.jpg", number)
    home = folder / "mirflickr25k_annotations_v080"
    home.mkdir()
    (home / "README.txt").write_text("Annotations of the images.\n")
    for name, numbers in MIRFLICKR.items():
        (home / f"{name}.txt").write_text("".join(f"{number}\r\n" for number in numbers))


def write_ogb(folder: Path) -> None:
    rng = np.random.default_rng(0)
    tables: dict[str, Any] = {
        "raw/edge": [[0, 1], [1, 2], [3, 4]],
        "raw/node-feat": rng.normal(size=(5, 3)).round(4).tolist(),
        "raw/node-label": [[0], [1], [1], ["nan"], [0]],
        "raw/num-node-list": [[5]],
        "raw/num-edge-list": [[3]],
        "split/sales_ranking/train": [[0], [1]],
        "split/sales_ranking/valid": [[2]],
        "split/sales_ranking/test": [[4]],
        "mapping/labelidx2productcategory": [["label idx", "product category"], [0, "Books"], [1, "Music"]],
        "mapping/nodeidx2asin": [["node idx", "asin"], [0, "B00"], [1, "B01"]],
    }
    for name, rows in tables.items():
        file = folder / f"{name}.csv.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(file, "wt") as lines:
            lines.writelines(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "mapping" / "README.md").write_text("Numbers of nodes and classes.\n")
    (folder / "RELEASE_v1.txt").write_text("")
