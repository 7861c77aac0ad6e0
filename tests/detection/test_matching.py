from __future__ import annotations

import torch

from eigenmap.detection.matching import BACKGROUND, IGNORED, match, sample

OBJECTS = torch.tensor([[0.0, 0, 10, 10], [20.0, 20, 30, 30]])
BOXES = torch.tensor([[0.0, 0, 10, 9], [0.0, 0, 10, 5], [40.0, 40, 50, 50], [21.0, 20, 27, 30]])


def test_boxes_belong_to_the_object_they_overlap_most() -> None:
    # Overlaps: .9, .5, 0 and .6.
    assert match(BOXES, OBJECTS, 0.3, 0.7, best_of_each=False).tolist() == [0, IGNORED, BACKGROUND, IGNORED]
    assert match(BOXES, OBJECTS, 0.3, 0.7, best_of_each=True).tolist() == [0, IGNORED, BACKGROUND, 1]
    assert match(BOXES, OBJECTS, 0.5, 0.5, best_of_each=False).tolist() == [0, 0, BACKGROUND, 1]
    assert match(BOXES, OBJECTS[:0], 0.5, 0.5, best_of_each=True).tolist() == [BACKGROUND] * 4


def test_samples_have_at_most_their_share_of_objects() -> None:
    matched = torch.tensor([0] * 30 + [BACKGROUND] * 50 + [IGNORED] * 20)
    objects, background = sample(matched, 16, 0.25, torch.Generator().manual_seed(0))
    assert len(objects) == 4 and len(background) == 12
    assert bool((matched[objects] >= 0).all() and (matched[background] == BACKGROUND).all())
    assert len(set(objects.tolist())) == 4 and len(set(background.tolist())) == 12
    few = torch.tensor([0, BACKGROUND, BACKGROUND])
    assert [part.tolist() for part in sample(few, 16, 0.25, torch.Generator())] == [[0], [1, 2]]
