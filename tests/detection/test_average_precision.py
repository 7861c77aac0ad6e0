"""Average precision against a slow loop over overlaps, images and detections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eigenmap.detection.average_precision import average_precision, segmentation_mask
from eigenmap.detection.rle import runs_of, to_text
from tests.detection.test_boxes import slow_iou

SIDE = 24


def mask(box: list[int]) -> np.ndarray:
    found = np.zeros((SIDE, SIDE), dtype=bool)
    x, y, width, height = box
    found[y : y + height, x : x + width] = True
    found[y, x] = False  # no rectangle: boxes and masks differ
    return found


def row(image: int, category: int, box: list[int], **more: Any) -> dict[str, Any]:
    segmentation = {"size": [SIDE, SIDE], "counts": to_text(runs_of(mask(box)))}
    return {"image_id": image, "category_id": category, "bbox": box, "segmentation": segmentation, **more}


def scene(seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Three images, three classes (the last without objects), and detections near some objects."""
    rng = np.random.default_rng(seed)
    images = [{"id": 10 + n, "height": SIDE, "width": SIDE} for n in range(3)]
    truth = {"images": images, "categories": [{"id": c, "name": str(c)} for c in (1, 5, 7)], "annotations": []}
    found = []
    for image in (10, 11, 12):
        for _ in range(rng.integers(1, 5)):
            box, category = (
                [int(v) for v in (*rng.integers(0, 10, 2), *rng.integers(4, 12, 2))],
                int(rng.choice([1, 5])),
            )
            truth["annotations"].append(row(image, category, box))
            for _ in range(rng.integers(0, 3)):
                moved = [
                    max(0, box[0] + int(rng.integers(-2, 3))),
                    *box[1:3],
                    max(2, box[3] + int(rng.integers(-2, 3))),
                ]
                found.append(row(image, int(rng.choice([category, 1, 7])), moved, score=float(rng.random())))
    return truth, found


def with_crowds(truth: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same scene, with some objects and some larger boxes marked as crowds."""
    rng = np.random.default_rng(seed)
    rows = [{**each, "iscrowd": int(rng.random() < 0.3)} for each in truth["annotations"]]
    rows += [row(image["id"], 1, [2, 2, 18, 18], iscrowd=1) for image in truth["images"][:2]]
    return {**truth, "annotations": rows}


def filled(box: list[int], kind: str) -> np.ndarray:
    """The pixels of a mask or of a whole box."""
    if kind == "segm":
        return mask(box)
    found = np.zeros((SIDE, SIDE), dtype=bool)
    found[box[1] : box[1] + box[3], box[0] : box[0] + box[2]] = True
    return found


def slow(truth: dict[str, Any], found: list[dict[str, Any]], kind: str) -> list[float]:
    def overlap(a: dict[str, Any], b: dict[str, Any]) -> float:
        first, second = (filled(each["bbox"], kind) for each in (a, b))
        if b.get("iscrowd"):
            return (first & second).sum() / first.sum()
        if kind == "bbox":
            return slow_iou(*([x, y, x + w, y + h] for x, y, w, h in (a["bbox"], b["bbox"])))
        return (first & second).sum() / (first | second).sum()

    values = []
    for least in np.arange(50, 100, 5) / 100:
        per_class = []
        for category in truth["categories"]:
            named = [each for each in truth["annotations"] if each["category_id"] == category["id"]]
            objects = [each for each in named if not each.get("iscrowd")]
            crowds = [each for each in named if each.get("iscrowd")]
            if not objects:
                continue
            taken: set[int] = set()
            hits = []
            for each in sorted(
                (f for f in found if f["category_id"] == category["id"]), key=lambda f: -float(f["score"])
            ):
                best, which = least - 1e-9, None
                for number, thing in enumerate(objects):
                    if number not in taken and thing["image_id"] == each["image_id"] and overlap(each, thing) >= best:
                        best, which = overlap(each, thing), number
                if which is None and any(
                    crowd["image_id"] == each["image_id"] and overlap(each, crowd) >= least - 1e-9 for crowd in crowds
                ):
                    continue
                hits.append(which is not None)
                taken |= set() if which is None else {which}
            at = []
            for recall in np.arange(101) / 100:
                precisions = [
                    sum(hits[: n + 1]) / (n + 1)
                    for n in range(len(hits))
                    if sum(hits[: n + 1]) / len(objects) >= recall - 1e-12
                ]
                at.append(max(precisions, default=0.0))
            per_class.append(np.mean(at))
        values.append(float(np.mean(per_class)))
    return values


@pytest.mark.parametrize("crowds", [False, True])
@pytest.mark.parametrize("kind", ["bbox", "segm"])
@pytest.mark.parametrize("seed", range(6))
def test_precision_is_that_of_a_loop(kind: Any, seed: int, crowds: bool) -> None:
    truth, found = scene(seed)
    truth = with_crowds(truth, seed) if crowds else truth
    expected = slow(truth, found, kind)
    got = average_precision(truth, found, kind)
    assert got == pytest.approx({"AP": np.mean(expected), "AP50": expected[0], "AP75": expected[5]}, abs=1e-9)


def test_perfect_no_and_wrong_detections() -> None:
    truth, _ = scene(0)
    perfect = [{**each, "score": 0.9} for each in truth["annotations"]]
    assert average_precision(truth, perfect, "segm")["AP"] == pytest.approx(1)
    assert average_precision(truth, [], "bbox")["AP"] == 0
    assert average_precision({**truth, "annotations": []}, perfect, "bbox")["AP"] == 0
    crowd = {**truth, "annotations": [{**each, "iscrowd": 1} for each in truth["annotations"]]}
    assert average_precision(crowd, perfect, "bbox")["AP"] == 0


def test_a_detection_in_a_crowd_does_not_count() -> None:
    images = [{"id": 1, "height": SIDE, "width": SIDE}]
    objects = [row(1, 1, [2, 2, 6, 6]), row(1, 1, [10, 2, 12, 20], iscrowd=1)]
    truth = {"images": images, "categories": [{"id": 1, "name": "x"}], "annotations": objects}
    found = [row(1, 1, [12, 4, 6, 6], score=0.9), row(1, 1, [2, 2, 6, 6], score=0.5)]
    assert average_precision(truth, found, "bbox")["AP"] == pytest.approx(1)
    alone = {**truth, "annotations": objects[:1]}
    assert average_precision(alone, found, "bbox")["AP"] == pytest.approx(0.5)


def test_polygons_and_lists_of_runs() -> None:
    square = segmentation_mask([[2, 3, 8, 3, 8, 9, 2, 9]], (12, 10))
    expected = np.zeros((12, 10), dtype=bool)
    expected[3:9, 2:8] = True
    assert (square != expected).mean() < 0.12  # but for the border, which the drawing includes
    np.testing.assert_array_equal(
        segmentation_mask({"size": [12, 10], "counts": runs_of(expected)}, (12, 10)), expected
    )


def test_objects_of_images_that_are_not_listed_are_found_by_nothing() -> None:
    truth = {"images": [], "categories": [{"id": 1}], "annotations": [row(1, 1, [0, 0, 2, 2])]}
    assert average_precision(truth, [], "bbox") == {"AP": 0.0, "AP50": 0.0, "AP75": 0.0}
