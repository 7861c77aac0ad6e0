"""Outputs of a trained network on a sample of every set, small enough to try codes on a CPU (`criteria.py`).

    outputs = sample(trained, evidence, held_out_images, searched)
    store(outputs, Path("outputs-tiny80-s3"))       # one .npz per set, and one of pairs and moments

The projector's 2,048 features are replaced by their 256 leading Ritz features with a ridge, which is all that staged
codes use of it. Everything is in float16 but the moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from benchmarks.vision.measure import Trained
from benchmarks.vision.sets import Split
from eigenmap.augment.views import TwoViews, policy
from eigenmap.fitting.align import Evidence
from eigenmap.networks import code_rows
from eigenmap.spectrum import Moments, align
from eigenmap.spectrum.staged import RIDGE

GALLERY, QUERIES, PAIRS, KEPT = 3_000, 1_000, 2_000, 256
"""Number of images of each set and of held-out images; number of features kept of the projector."""
VIEWS, OTHER_VIEWS = "barlow_twins", "cifar"
"""Views for pairs as training did not see them: the first, or the second if training used the first."""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Reduced:
    """Both outputs side by side, the projector's reduced by a linear map."""

    trained: Trained
    mean: Tensor
    rotation: Tensor
    """Of the projector's rows."""

    @classmethod
    def of(cls, trained: Trained, evidence: Evidence) -> Reduced:
        projector = evidence.of("projector")
        found = align(projector.fit, projector.held_out, RIDGE).cut(KEPT)
        return cls(trained, found.mean, found.rotation)

    def map(self, width: int) -> tuple[Tensor, Tensor]:
        """Mean and matrix from rows of both outputs to reduced rows."""
        k, kept = self.rotation.shape
        matrix = self.rotation.new_zeros(width + k, width + kept)
        matrix[:width, :width].fill_diagonal_(1.0)
        matrix[width:, width:] = self.rotation
        return torch.cat([self.mean.new_zeros(width), self.mean]), matrix

    @torch.no_grad()
    def rows(self, views: Tensor) -> Tensor:
        """Reduced rows of images as the network takes them."""
        features, psi = self.trained.network(views)
        rows = code_rows(features, psi, "both")
        mean, matrix = self.map(features.shape[1])
        return (rows - mean.to(rows)) @ matrix.to(rows)

    def moments(self, of: Moments) -> Arrays:
        """Moments of reduced rows, from those of whole ones."""
        mean, matrix = self.map(of.n_features - len(self.rotation))
        # Rows carry a constant 1 as their last feature, which takes the mean away.
        whole = torch.zeros(of.n_features + 1, matrix.shape[1] + 1).to(of.within)
        whole[:-1, :-1], whole[-1, :-1], whole[-1, -1] = matrix, -mean @ matrix, 1.0
        sums = {"within": of.within, "within_plus": of.within_plus, "across": of.across}
        return {name: (whole.T @ value @ whole).float().cpu().numpy() for name, value in sums.items()}


def sample(
    trained: Trained, evidence: Evidence, held_out: Tensor, searched: Mapping[str, tuple[Split, Split]]
) -> dict[str, Arrays]:
    """Return pairs and moments, and outputs on each searched set."""
    reduced = Reduced.of(trained, evidence)
    _, fit = next(iter(evidence.fit.items()))
    _, judged = next(iter(evidence.held_out.items()))
    parts: dict[str, Arrays] = {
        "pairs": dict(_pairs(reduced, held_out[:PAIRS])) | {"width": np.array(evidence.width)},
        "moments": {f"fit_{name}": value for name, value in reduced.moments(fit).items()}
        | {f"held_{name}": value for name, value in reduced.moments(judged).items()},
    }
    for name, (gallery, test) in searched.items():
        parts[name] = {
            **_outputs(reduced, _spread(gallery, GALLERY), "gallery"),
            **_outputs(reduced, _spread(test, QUERIES), "query"),
        }
    return parts


def store(parts: Mapping[str, Arrays], folder: Path) -> None:
    """Write one file per part."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, arrays in parts.items():
        np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]


def _pairs(reduced: Reduced, images: Tensor) -> Iterator[tuple[str, np.ndarray]]:
    """Two views of held-out images as in training, two as not in training, and the images in few pixels."""
    ours, device = reduced.trained.pairs.views, reduced.trained.pairs.device
    name = OTHER_VIEWS if (ours.first, ours.second) == policy(VIEWS) else VIEWS
    other = TwoViews(name, ours.image_size, ours.standardisation)
    for label, views in (("own", ours), ("other", other)):
        generator = torch.Generator().manual_seed(0)
        sides: tuple[list[Tensor], list[Tensor]] = ([], [])
        for chunk in torch.split(images, 500):
            for side, view in zip(sides, views(chunk.to(device), generator), strict=True):
                side.append(reduced.rows(view))
        for side, place in zip(sides, ("x", "x_plus"), strict=True):
            yield f"{label}_{place}", _half(torch.cat(side))
    yield "pixels", adaptive_avg_pool2d(images.float(), 12).round().to(torch.uint8).flatten(1).cpu().numpy()


def _outputs(reduced: Reduced, of: Split, name: str) -> Arrays:
    views, device = reduced.trained.pairs.views, reduced.trained.pairs.device
    rows = [reduced.rows(views.plain(chunk.to(device))) for chunk in torch.split(of.images, 500)]
    return {f"{name}_x": _half(torch.cat(rows)), f"{name}_y": of.labels.cpu().numpy()}


def _spread(part: Split, at_most: int) -> Split:
    """Images spread evenly over a set."""
    kept = torch.linspace(0, len(part) - 1, min(len(part), at_most)).long()
    return Split(part.images[kept], part.labels[kept])


def _half(rows: Tensor) -> np.ndarray:
    return rows.half().cpu().numpy()
