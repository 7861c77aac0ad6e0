"""Mask R-CNN with a C4 backbone: regions are pooled from the third stage, and the fourth stage is applied to each.

A BatchNorm follows the fourth stage, and all BatchNorm layers are trained, as in the MoCo code used by the paper.

References:
    [1] He, Gkioxari, Dollar, Girshick. Mask R-CNN. ICCV 2017.
    [2] He, Fan, Wu, Xie, Girshick. Momentum contrast. CVPR 2020.

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from eigenmap.detection import boxes as geometry
from eigenmap.detection.matching import match, sample
from eigenmap.detection.proposals import ProposalNetwork
from eigenmap.detection.roi_align import roi_align
from eigenmap.detection.settings import Settings
from eigenmap.networks import ResNet

BOX_WEIGHTS = (10.0, 10.0, 5.0, 5.0)


@dataclass(frozen=True)
class Target:
    """Objects of an image: boxes (n, 4), classes (n,) from 0, masks (n, height, width) bool."""

    boxes: Tensor
    classes: Tensor
    masks: Tensor


@dataclass(frozen=True)
class Detections:
    """Detections in an image, best first; masks have the size of the image."""

    boxes: Tensor
    classes: Tensor
    scores: Tensor
    masks: Tensor


class MaskRCNN(nn.Module):
    """Mask R-CNN: calling it returns the training losses, `detect` returns detections.

    Args:
        encoder: a ResNet, trained or not; its four stages are used, its pooling is not.
        n_classes: number of classes, without the background.
        settings: sizes and thresholds.

    """

    def __init__(self, encoder: ResNet, n_classes: int, settings: Settings | None = None) -> None:
        super().__init__()
        self.settings = settings or Settings()
        self.encoder, self.n_classes = encoder, n_classes
        width = encoder.out_features
        self.proposals = ProposalNetwork(width // 2, self.settings)
        self.norm = nn.BatchNorm2d(width)
        self.classifier = nn.Linear(width, n_classes + 1)
        self.box_deltas = nn.Linear(width, 4 * n_classes)
        self.upsample = nn.ConvTranspose2d(width, self.settings.mask_channels, 2, stride=2)
        self.mask_scores = nn.Conv2d(self.settings.mask_channels, n_classes, 1)
        nn.init.normal_(self.classifier.weight, std=0.01)
        nn.init.normal_(self.box_deltas.weight, std=0.001)
        nn.init.kaiming_normal_(self.upsample.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(self.mask_scores.weight, std=0.001)
        for layer in (self.classifier, self.box_deltas, self.upsample, self.mask_scores):
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, images: Tensor, sizes: Sequence[tuple[int, int]], targets: Sequence[Target]) -> dict[str, Tensor]:
        """Return the five losses of a batch (B, 3, H, W) of padded images of the given sizes (height, width)."""
        features, stride = self._features(images)
        scores, deltas, grid = self.proposals(features, stride)
        objects = [target.boxes for target in targets]
        losses = self.proposals.losses(scores, deltas, grid, objects, self.generator)
        proposed = self.proposals.propose(scores, deltas, grid, sizes)
        regions, matched = self._sampled(proposed, targets)
        return losses | self._region_losses(features, stride, regions, matched, targets)

    @torch.no_grad()
    def detect(self, images: Tensor, sizes: Sequence[tuple[int, int]]) -> list[Detections]:
        """Return the detections in each image of a batch."""
        features, stride = self._features(images)
        scores, deltas, grid = self.proposals(features, stride)
        regions = self.proposals.propose(scores, deltas, grid, sizes)
        pooled = self._stage4(features, stride, regions)
        vectors = pooled.mean((2, 3))
        chances = self.classifier(vectors).float().softmax(1)
        corrections = self.box_deltas(vectors).float().reshape(-1, self.n_classes, 4)
        counts = [len(each) for each in regions]
        found = []
        for number, (own, chance, change) in enumerate(
            zip(regions, chances.split(counts), corrections.split(counts), strict=True)
        ):
            boxes, classes, kept = self._best(own, chance, change, sizes[number])
            masks = self._masks(features[number : number + 1], stride, boxes, classes, sizes[number])
            found.append(Detections(boxes, classes, kept, masks))
        return found

    def _features(self, images: Tensor) -> tuple[Tensor, float]:
        net = self.encoder
        x = net.maxpool(net.relu(net.bn1(net.conv1(images))))
        features: Tensor = net.layer3(net.layer2(net.layer1(x)))
        return features, images.shape[-1] / features.shape[-1]

    def _stage4(self, features: Tensor, stride: float, regions: Sequence[Tensor]) -> Tensor:
        numbered = [
            torch.cat([each.new_full((len(each), 1), number), each], dim=1) for number, each in enumerate(regions)
        ]
        pooled = roi_align(features, torch.cat(numbered), self.settings.pooled, 1 / stride)
        out: Tensor = self.norm(self.encoder.layer4(pooled)).relu()
        return out

    def _sampled(self, proposed: Sequence[Tensor], targets: Sequence[Target]) -> tuple[list[Tensor], list[Tensor]]:
        """Sample regions to train on, including the objects' own boxes; also return the object of each region."""
        regions, numbers = [], []
        for own, target in zip(proposed, targets, strict=True):
            boxes = torch.cat([own, target.boxes])
            matched = match(boxes, target.boxes, 0.5, 0.5, best_of_each=False)
            chosen = torch.cat(sample(matched, self.settings.roi_batch, 0.25, self.generator))
            regions.append(boxes[chosen])
            numbers.append(matched[chosen])
        return regions, numbers

    def _region_losses(
        self,
        features: Tensor,
        stride: float,
        regions: Sequence[Tensor],
        matched: Sequence[Tensor],
        targets: Sequence[Target],
    ) -> dict[str, Tensor]:
        pooled = self._stage4(features, stride, regions)
        vectors = pooled.mean((2, 3))
        inside = torch.cat(list(matched)) >= 0
        classes = torch.cat(
            [_classes(own, target, self.n_classes) for own, target in zip(matched, targets, strict=True)]
        )
        losses = {"class": functional.cross_entropy(self.classifier(vectors).float(), classes)}
        corrections = self.box_deltas(vectors).float().reshape(-1, self.n_classes, 4)
        scores = self.mask_scores(self.upsample(pooled[inside]).relu()).float()
        if not bool(inside.any()):  # every parameter needs a gradient in every step, as several processes require
            return losses | {"box": corrections.sum() * 0, "mask": self._no_masks(pooled)}
        rows, own_class = torch.arange(int(inside.sum()), device=classes.device), classes[inside]
        boxes = torch.cat(list(regions))[inside]
        truth = torch.cat([t.boxes[m[m >= 0]] for m, t in zip(matched, targets, strict=True)])
        wanted = geometry.encode(truth, boxes, BOX_WEIGHTS)
        box_loss = functional.l1_loss(corrections[inside][rows, own_class], wanted, reduction="sum")
        shapes = torch.cat(
            [
                mask_targets(target.masks[own[own >= 0]], region[own >= 0], scores.shape[-1])
                for own, region, target in zip(matched, regions, targets, strict=True)
            ]
        )
        mask_loss = functional.binary_cross_entropy_with_logits(scores[rows, own_class], shapes)
        return losses | {"box": box_loss / len(classes), "mask": mask_loss}

    def _no_masks(self, pooled: Tensor) -> Tensor:
        parameters = [*self.upsample.parameters(), *self.mask_scores.parameters()]
        return sum((each.sum() * 0 for each in parameters), pooled.sum() * 0)

    def _best(
        self, regions: Tensor, chances: Tensor, corrections: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return boxes, classes and scores of the best detections of an image."""
        rows, classes = (chances[:, : self.n_classes] > self.settings.score).nonzero().T
        scores = chances[rows, classes]
        boxes = geometry.clip(geometry.decode(corrections[rows, classes], regions[rows], BOX_WEIGHTS), *size)
        large = ((boxes[:, 2:] - boxes[:, :2]) > 1e-3).all(1)
        boxes, classes, scores = boxes[large], classes[large], scores[large]
        kept = geometry.nms_by_class(boxes, scores, classes, self.settings.overlap)[: self.settings.most]
        return boxes[kept], classes[kept], scores[kept]

    def _masks(self, features: Tensor, stride: float, boxes: Tensor, classes: Tensor, size: tuple[int, int]) -> Tensor:
        if len(boxes) == 0:
            return torch.zeros(0, *size, dtype=torch.bool, device=boxes.device)
        pooled = self._stage4(features, stride, [boxes])
        scores = self.mask_scores(self.upsample(pooled).relu()).float()
        own = scores[torch.arange(len(boxes), device=boxes.device), classes].sigmoid()
        return paste_masks(own, boxes, size) >= 0.5


def _classes(matched: Tensor, target: Target, background: int) -> Tensor:
    """Return the class of each region; the background has the number after the last class."""
    if len(target.classes) == 0:
        return torch.full_like(matched, background)
    return torch.where(matched >= 0, target.classes[matched.clamp(min=0)], background)


def mask_targets(masks: Tensor, boxes: Tensor, side: int) -> Tensor:
    """Return the part of each mask (n, H, W) inside its box, resampled to (n, side, side) with values 0 and 1."""
    rois = torch.cat([torch.arange(len(boxes), device=boxes.device)[:, None].to(boxes), boxes], dim=1)
    return (roi_align(masks[:, None].float(), rois, side)[:, 0] >= 0.5).float()


def paste_masks(chances: Tensor, boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Paste probabilities (n, side, side) into their boxes in images (n, height, width), bilinearly; 0 outside."""
    height, width = size
    x = torch.arange(width, device=boxes.device) + 0.5
    y = torch.arange(height, device=boxes.device) + 0.5
    x = (x - boxes[:, :1]) / (boxes[:, 2:3] - boxes[:, :1]) * 2 - 1
    y = (y - boxes[:, 1:2]) / (boxes[:, 3:4] - boxes[:, 1:2]) * 2 - 1
    grid = torch.stack([x[:, None, :].expand(-1, height, -1), y[:, :, None].expand(-1, -1, width)], dim=3)
    return functional.grid_sample(chances[:, None], grid, align_corners=False)[:, 0]
