"""Settings of Mask R-CNN; the defaults are those of the C4 baselines used by the paper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Sizes and thresholds of the detector.

    Attributes:
        anchor_sizes: sides of square anchors in pixels; each also has the shapes `anchor_ratios` (height / width).
        pooled: side of the pooled features of a region, before the last stage halves it.
        proposals_before: proposals per image before non-maximum suppression, in training and in detection.
        proposals_after: maximum number of proposals per image after non-maximum suppression.
        rpn_batch: anchors per image in the proposal loss, at most half of them objects.
        roi_batch: regions per image in training, at most a quarter of them objects.
        mask_channels: width of the mask head.
        score: minimum score of a detection.
        overlap: maximum overlap of two detections of the same class.
        most: maximum number of detections per image.

    """

    anchor_sizes: tuple[int, ...] = (32, 64, 128, 256, 512)
    anchor_ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    pooled: int = 14
    proposals_before: tuple[int, int] = (12_000, 6_000)
    proposals_after: tuple[int, int] = (2_000, 1_000)
    rpn_batch: int = 256
    roi_batch: int = 512
    mask_channels: int = 256
    score: float = 0.05
    overlap: float = 0.5
    most: int = 100


SMALL = Settings(
    anchor_sizes=(16, 32, 64),
    pooled=8,
    proposals_before=(1_000, 500),
    proposals_after=(300, 100),
    rpn_batch=64,
    roi_batch=64,
    mask_channels=64,
    most=20,
)
"""Settings for pictures of about a hundred pixels."""
TINY = Settings(
    anchor_sizes=(16, 32),
    pooled=4,
    proposals_before=(100, 50),
    proposals_after=(40, 20),
    rpn_batch=32,
    roi_batch=16,
    mask_channels=16,
    most=20,
)
"""Settings that run in seconds on a CPU."""
