"""Region proposal network.

References:
    [1] Ren, He, Girshick, Sun. Faster R-CNN. NeurIPS 2015.

"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from eigenmap.detection import boxes as geometry
from eigenmap.detection.matching import match, sample
from eigenmap.detection.settings import Settings

OVERLAP = 0.7


class ProposalNetwork(nn.Module):
    """A 3x3 convolution, followed by the score and the offsets of every anchor."""

    def __init__(self, channels: int, settings: Settings) -> None:
        super().__init__()
        shapes = len(settings.anchor_sizes) * len(settings.anchor_ratios)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.objectness = nn.Conv2d(channels, shapes, 1)
        self.deltas = nn.Conv2d(channels, 4 * shapes, 1)
        for layer in (self.conv, self.objectness, self.deltas):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        self.settings = settings

    def forward(self, features: Tensor, stride: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores (B, n), offsets (B, n, 4) and the n anchors."""
        hidden = self.conv(features).relu()
        batch, _, height, width = features.shape
        scores = self.objectness(hidden).permute(0, 2, 3, 1).reshape(batch, -1).float()
        deltas = self.deltas(hidden).permute(0, 2, 3, 1).reshape(batch, -1, 4).float()
        settings = self.settings
        grid = geometry.anchors(height, width, stride, settings.anchor_sizes, settings.anchor_ratios, features.device)
        return scores, deltas, grid

    @torch.no_grad()
    def propose(self, scores: Tensor, deltas: Tensor, grid: Tensor, sizes: Sequence[tuple[int, int]]) -> list[Tensor]:
        """Return the proposed regions of each image: the best boxes after non-maximum suppression."""
        number = 0 if self.training else 1
        before, after = self.settings.proposals_before[number], self.settings.proposals_after[number]
        found = []
        for own, corrections, (height, width) in zip(scores, deltas, sizes, strict=True):
            best = own.topk(min(before, len(own))).indices
            boxes = geometry.clip(geometry.decode(corrections[best], grid[best]), height, width)
            large = ((boxes[:, 2:] - boxes[:, :2]) > 1e-3).all(1) & boxes.isfinite().all(1)
            boxes, kept_scores = boxes[large], own[best][large]
            found.append(boxes[geometry.nms(boxes, kept_scores, OVERLAP)[:after]])
        return found

    def losses(
        self, scores: Tensor, deltas: Tensor, grid: Tensor, objects: Sequence[Tensor], generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the losses of scores and offsets on a sample of each image's anchors."""
        count = self.settings.rpn_batch * len(objects)
        score_loss, box_loss = scores.sum() * 0, deltas.sum() * 0
        for own, corrections, truth in zip(scores, deltas, objects, strict=True):
            matched = match(grid, truth, 0.3, 0.7, best_of_each=True)
            inside, outside = sample(matched, self.settings.rpn_batch, 0.5, generator)
            chosen = torch.cat([inside, outside])
            wanted = (torch.arange(len(chosen), device=own.device) < len(inside)).float()
            score_loss = score_loss + functional.binary_cross_entropy_with_logits(own[chosen], wanted, reduction="sum")
            if len(inside):
                target = geometry.encode(truth[matched[inside]], grid[inside])
                box_loss = box_loss + functional.l1_loss(corrections[inside], target, reduction="sum")
        return {"rpn_score": score_loss / count, "rpn_box": box_loss / count}
