from __future__ import annotations

import pytest
import torch

from eigenmap.detection.mask_rcnn import MaskRCNN, Target, mask_targets, paste_masks
from eigenmap.detection.settings import TINY
from tests.detection.thin import thin_encoder

LOSSES = {"rpn_score", "rpn_box", "class", "box", "mask"}


@pytest.fixture
def detector() -> MaskRCNN:
    return MaskRCNN(thin_encoder(), 3, TINY)


def one_object(side: int = 32) -> Target:
    masks = torch.zeros(1, side, side, dtype=torch.bool)
    masks[0, 8:24, 4:20] = True
    return Target(torch.tensor([[4.0, 8.0, 20.0, 24.0]]), torch.tensor([1]), masks)


def nothing(side: int = 32) -> Target:
    return Target(torch.empty(0, 4), torch.empty(0, dtype=torch.long), torch.zeros(0, side, side, dtype=torch.bool))


def test_every_parameter_learns_and_images_without_objects_are_allowed(detector: MaskRCNN) -> None:
    images, sizes = torch.rand(2, 3, 32, 32), [(32, 32), (32, 24)]
    for targets in ([one_object(), nothing()], [nothing(), nothing()]):
        detector.zero_grad()
        losses = detector(images, sizes, targets)
        assert losses.keys() == LOSSES and all(bool(value.isfinite()) for value in losses.values())
        sum(losses.values()).backward()
        without = [name for name, each in detector.named_parameters() if each.grad is None]
        assert without == []  # several processes wait for each other's gradients
    assert losses["box"] == losses["mask"] == losses["rpn_box"] == 0


@pytest.mark.slow
def test_an_image_is_learned_by_heart(detector: MaskRCNN) -> None:
    """After some steps on one image its object is found: place, class and outline."""
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 0.1
    image[:, :, 8:24, 4:20] += 1
    target = one_object()
    optimizer = torch.optim.SGD(detector.parameters(), 0.02, momentum=0.9)
    detector.train()
    for _ in range(150):
        optimizer.zero_grad()
        sum(detector(image.repeat(2, 1, 1, 1), [(32, 32)] * 2, [target, target]).values()).backward()
        optimizer.step()
    for module in detector.modules():  # so few steps leave running averages behind
        if isinstance(module, torch.nn.BatchNorm2d):
            module.train().momentum = None  # type: ignore[assignment]
            module.reset_running_stats()
    with torch.no_grad():
        detector(image.repeat(2, 1, 1, 1), [(32, 32)] * 2, [target, target])
    (found,) = detector.eval().detect(image, [(32, 32)])
    assert found.classes[0] == 1 and len(found.boxes) == len(found.masks) == len(found.scores)
    assert (found.boxes[0] - target.boxes[0]).abs().max() < 5
    common, union = (found.masks[0] & target.masks[0]).sum(), (found.masks[0] | target.masks[0]).sum()
    assert common / union > 0.5


def test_nothing_found_has_no_masks(detector: MaskRCNN) -> None:
    torch.nn.init.constant_(detector.classifier.bias[3:], 50.0)  # background
    (found,) = detector.eval().detect(torch.rand(1, 3, 32, 32), [(32, 32)])
    assert len(found.boxes) == 0 and found.masks.shape == (0, 32, 32)


def test_masks_inside_boxes_and_back() -> None:
    masks = torch.zeros(1, 32, 32, dtype=torch.bool)
    masks[0, 8:24, 4:20] = True
    inside = mask_targets(masks, torch.tensor([[4.0, 8.0, 20.0, 24.0]]), 8)
    assert bool((inside == 1).all())
    half = mask_targets(masks, torch.tensor([[4.0, 8.0, 36.0, 24.0]]), 8)[0]
    assert half[:, :4].all() and not half[:, 4:].any()
    pasted = paste_masks(torch.ones(1, 8, 8), torch.tensor([[4.0, 8.0, 20.0, 24.0]]), (32, 32)) >= 0.5
    assert torch.equal(pasted, masks)
