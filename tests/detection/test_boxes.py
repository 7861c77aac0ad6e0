"""Boxes against slow loops: overlaps, greedy suppression, anchors, corrections."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eigenmap.detection.boxes import anchors, box_iou, clip, decode, encode, nms, nms_by_class


def random_boxes(n: int, seed: int, side: float = 40.0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, side, (n, 2))
    return torch.from_numpy(np.concatenate([low, low + rng.uniform(1, side / 2, (n, 2))], 1))


def slow_iou(a: list[float], b: list[float]) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(area) - width * height)


def slow_nms(boxes: list[list[float]], scores: list[float], overlap: float) -> list[int]:
    kept: list[int] = []
    for place in sorted(range(len(boxes)), key=lambda row: (-scores[row], row)):
        if all(slow_iou(boxes[place], boxes[other]) <= overlap for other in kept):
            kept.append(place)
    return kept


def test_overlaps_are_those_of_a_loop() -> None:
    a, b = random_boxes(7, 0), random_boxes(5, 1)
    expected = [[slow_iou(x, y) for y in b.tolist()] for x in a.tolist()]
    np.testing.assert_allclose(box_iou(a, b).numpy(), expected, rtol=1e-12)
    empty = torch.zeros(1, 4, dtype=torch.float64)
    assert box_iou(empty, empty).tolist() == [[0.0]] and box_iou(a, empty[:0]).shape == (7, 0)


@given(seed=st.integers(0, 10**6), n=st.integers(0, 40), overlap=st.sampled_from([0.0, 0.2, 0.5, 0.9]))
def test_suppression_is_the_greedy_one(seed: int, n: int, overlap: float) -> None:
    boxes = random_boxes(n, seed)
    scores = torch.from_numpy(np.random.default_rng(seed).integers(0, 8, n) / 8)  # with ties
    assert nms(boxes, scores, overlap).tolist() == slow_nms(boxes.tolist(), scores.tolist(), overlap)


def test_a_long_chain_of_overlaps_is_settled_in_order() -> None:
    left = torch.arange(200.0)
    boxes = torch.stack([left, 0 * left, left + 1.5, 0 * left + 1], 1)  # each overlaps the next by a fifth
    assert nms(boxes, -left, 0.1).tolist() == list(range(0, 200, 2))


def test_classes_do_not_suppress_each_other() -> None:
    boxes, scores = random_boxes(60, 3), torch.from_numpy(np.random.default_rng(3).random(60))
    classes = torch.arange(60) % 3
    expected = [
        row
        for c in range(3)
        for row in (classes == c).nonzero().flatten()[nms(boxes[classes == c], scores[classes == c], 0.3)].tolist()
    ]
    found = nms_by_class(boxes, scores, classes, 0.3).tolist()
    assert sorted(found) == sorted(expected) and found == sorted(found, key=lambda row: -scores[row])
    assert nms_by_class(boxes[:0], scores[:0], classes[:0], 0.3).tolist() == []


def test_corrections_lead_back_to_the_boxes() -> None:
    boxes, references = random_boxes(20, 4).float(), random_boxes(20, 5).float()
    weights = (10.0, 10.0, 5.0, 5.0)
    torch.testing.assert_close(decode(encode(boxes, references, weights), references, weights), boxes)
    (delta,) = encode(torch.tensor([[2.0, 0, 6, 2]]), torch.tensor([[0.0, 0, 2, 2]])).tolist()
    assert delta == pytest.approx([1.5, 0.0, np.log(2), 0.0], abs=1e-6)
    huge = decode(torch.tensor([[0.0, 0, 99, 0]]), torch.tensor([[0.0, 0, 2, 2]]))
    assert huge[0, 2] - huge[0, 0] == pytest.approx(2 * 1000 / 16)


def test_anchors_have_their_area_shape_and_place() -> None:
    grid = anchors(2, 3, 8.0, (16, 32), (0.5, 2.0), torch.device("cpu")).reshape(2, 3, 4, 4)
    sides = grid[..., 2:] - grid[..., :2]
    assert sides.prod(-1)[1, 2].tolist() == pytest.approx([256, 256, 1024, 1024], rel=1e-5)
    assert (sides[..., 1] / sides[..., 0])[0, 0].tolist() == pytest.approx([0.5, 2, 0.5, 2])
    centres = (grid[..., 2:] + grid[..., :2]) / 2
    assert centres[1, 2, 0].tolist() == pytest.approx([16, 8])


def test_boxes_are_cut_at_the_border() -> None:
    assert clip(torch.tensor([[-3.0, 2, 50, 60]]), 40, 30).tolist() == [[0, 2, 30, 40]]
