"""Assignment of objects to anchors and regions, and random sampling of those used in training."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.detection.boxes import box_iou

IGNORED, BACKGROUND = -2, -1


def match(boxes: Tensor, objects: Tensor, below: float, above: float, *, best_of_each: bool) -> Tensor:
    """Return the index of each box's object, or BACKGROUND, or IGNORED.

    A box belongs to the object that it overlaps most if the overlap is at least `above`, and to the background if it is
    less than `below`. With `best_of_each`, the boxes that overlap an object most belong to it in any case.
    """
    if len(objects) == 0:
        return torch.full((len(boxes),), BACKGROUND, device=boxes.device)
    overlap = box_iou(boxes, objects)
    most, which = overlap.max(1)
    found = torch.where(most >= above, which, torch.where(most < below, BACKGROUND, IGNORED))
    if best_of_each:
        best = overlap.max(0).values
        chosen = ((overlap == best) & (best > 0)).any(1)
        found = torch.where(chosen, which, found)
    return found


def sample(matched: Tensor, count: int, objects_share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw `count` boxes: those of objects up to `objects_share`, the rest from the background."""
    objects, background = ((matched >= 0).nonzero().flatten(), (matched == BACKGROUND).nonzero().flatten())
    chosen = _drawn(objects, int(count * objects_share), generator)
    return chosen, _drawn(background, count - len(chosen), generator)


def _drawn(numbers: Tensor, most: int, generator: torch.Generator) -> Tensor:
    if len(numbers) <= most:
        return numbers
    order = torch.randperm(len(numbers), generator=generator)[:most]
    return numbers[order.to(numbers.device)]
