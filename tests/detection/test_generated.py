from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.detection.average_precision import segmentation_mask
from eigenmap.detection.dataset import DetectionSet, joined
from eigenmap.detection.generated import generate_detection_set
from eigenmap.reproduce import load_sets


def test_the_same_seed_makes_the_same_set_and_boxes_enclose_masks(tmp_path: Path) -> None:
    images = load_sets("tiny", None).train
    one, two, other = (
        generate_detection_set(images, tmp_path / name, "train", 6, 32, seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert one == two != other and json.loads((tmp_path / "a/annotations/instances_train.json").read_text()) == one
    assert (tmp_path / "a/train/000003.png").read_bytes() == (tmp_path / "b/train/000003.png").read_bytes()
    assert len(one["images"]) == 6 and len(one["categories"]) == 4 and one["annotations"]
    for row in one["annotations"]:
        mask = segmentation_mask(row["segmentation"], (32, 32))
        x, y, width, height = row["bbox"]
        assert mask[y : y + height, x : x + width].sum() == mask.sum() == row["area"] > 0
        assert mask[y].any() and mask[:, x].any() and mask[y + height - 1].any() and mask[:, x + width - 1].any()


def test_reading_enlarging_and_mirroring(tmp_path: Path) -> None:
    images = load_sets("tiny", None).train
    generate_detection_set(images, tmp_path, "train", 4, 32, seed=0)
    part = DetectionSet.open(tmp_path, "train", sides=(64,))
    objects = part.objects()
    number = next(place for place, rows in enumerate(objects) if rows)
    plain, scale = part.picture(number, None, flip=False)
    large, twice = part.picture(number, 64, flip=True)
    assert plain.shape == (3, 32, 32) and scale == 1 and large.shape == (3, 64, 64) and twice == 2
    with Image.open(tmp_path / "train" / f"{number:06}.png") as image:
        expected = (np.asarray(image)[..., 0] / 255 - 0.485) / 0.229
    np.testing.assert_allclose(plain[0].numpy(), expected, atol=1e-5)
    target, mirrored = (
        part.target(objects[number], number, 1.0, (32, 32), flip=False),
        part.target(objects[number], number, 2.0, (64, 64), flip=True),
    )
    for box, mask in ((target.boxes, target.masks), (mirrored.boxes, mirrored.masks)):
        rows, columns = (axis.nonzero().flatten() for axis in (mask[0].any(1), mask[0].any(0)))
        assert box[0].tolist() == [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    assert target.classes.tolist() == [row["category_id"] - 1 for row in objects[number]] and part.n_classes == 4
    batch, sizes = joined([plain, large[:, :, :40]])
    assert batch.shape == (2, 3, 64, 40) and sizes == [(32, 32), (64, 40)] and not batch[0, :, 32:].any()


def test_sets_that_are_damaged(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"instances_train.json"):
        DetectionSet.open(tmp_path, "train")
    content = generate_detection_set(load_sets("tiny", None).train, tmp_path, "train", 2, 32, seed=0)
    (tmp_path / "train" / "000001.png").write_bytes(b"no picture")
    with pytest.raises(EigenmapError, match=r"000001.png cannot be read"):
        DetectionSet.open(tmp_path, "train").picture(1, None, flip=False)
    del content["images"][0]["height"]
    (tmp_path / "annotations" / "instances_train.json").write_text(json.dumps(content))
    with pytest.raises(EigenmapError, match=r"no height and width"):
        DetectionSet.open(tmp_path, "train")
