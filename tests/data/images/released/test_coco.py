from __future__ import annotations

import json
from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.released import read_coco
from tests.data.images.released.miniatures import write_coco


def test_labels_are_the_classes_of_the_instances(tmp_path: Path) -> None:
    write_coco(tmp_path)
    coco = read_coco(tmp_path)
    assert coco.gallery.labels.rows() == [["person"], ["car", "dog"], ["dog"], ["person", "car"]]
    assert [file.name for file in coco.gallery.files] == [f"{row:012}.jpg" for row in (0, 1, 3, 4)]
    assert coco.queries.labels.rows() == [["person"], ["dog"]]
    assert coco.queries.labels.names == coco.gallery.labels.names == ["person", "car", "dog"]


def test_what_is_missing_is_named_with_the_layout(tmp_path: Path) -> None:
    write_coco(tmp_path)
    (tmp_path / "val2017" / "000000000001.jpg").unlink()
    with pytest.raises(EigenmapError, match=r"1 of 2 images of COCO 2017 .*val2017.*000000000001.jpg"):
        read_coco(tmp_path)
    (tmp_path / "annotations" / "instances_val2017.json").unlink()
    with pytest.raises(EigenmapError, match=r"instances_val2017.json .*exist: .*train2017/\*.jpg"):
        read_coco(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"images": 3}, "images must be a list"),
        ({"annotations": [{"image_id": 7, "category_id": 1}]}, "unknown id 7"),
        ({"annotations": [{"image_id": [], "category_id": 1}]}, "unknown id"),
        ({"categories": [{"id": "x"}]}, "categories"),
        ({"images": [{"id": 0, "file_name": "../secret.jpg"}], "annotations": []}, "secret"),
        ({"images": [{"id": 0, "file_name": 7}], "annotations": []}, "file_name"),
        ({"images": [], "annotations": []}, "lists no images"),
        ({"images": [{"id": 0, "file_name": f"{row}.jpg"} for row in "ab"], "annotations": []}, "same id"),
    ],
)
def test_damaged_instances(tmp_path: Path, change: dict[str, object], words: str) -> None:
    write_coco(tmp_path)
    file = tmp_path / "annotations" / "instances_train2017.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(EigenmapError, match=words):
        read_coco(tmp_path)
