"""Inputs and encoders of a model: preprocessing of images and node features, and encoder specifications."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from eigenmap.augment.views import Standardisation, plain_view
from eigenmap.core.errors import EigenmapError
from eigenmap.data import load_images, to_pixels
from eigenmap.data.graphs.graph import as_features, check_features
from eigenmap.data.vectors.input import VectorInput
from eigenmap.networks import ResidualMLP, SparseRows, build_encoder
from eigenmap.networks.vectors import VectorEncoderSpec


@dataclass(frozen=True)
class ImageInput:
    """Image preprocessing.

    Images are read at `size` x `size` pixels; the network sees the central `view` x `view` of them, by default all.
    """

    size: int
    channels: int
    standardisation: Standardisation = field(default_factory=Standardisation)
    view: int | None = None

    @property
    def view_size(self) -> int:
        """Side of the square that the network sees, in pixels."""
        return self.view or self.size

    def read(self, images: object) -> Tensor:
        """Convert images of any accepted kind to uint8 pixels (N, channels, size, size).

        All files must be readable, so that row i belongs to file i.
        """
        if _are_files(images):
            return load_images(images, self.size, self.channels, strict=True).pixels  # type: ignore[arg-type]
        return to_pixels(images, self.size, self.channels)  # type: ignore[arg-type]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Standardise uint8 pixels: floats (B, channels, view_size, view_size)."""
        return plain_view(pixels, self.view_size, self.standardisation, self.view_size / self.size)


def _are_files(images: object) -> bool:
    """Tell whether images are given as a file, a folder or a list of files."""
    if isinstance(images, (list, tuple)) and images:
        return all(isinstance(each, (str, Path)) for each in images)
    return isinstance(images, (str, Path))


@dataclass(frozen=True)
class NodeInput:
    """Node features: the network of a graph model sees these, not the graph."""

    n_features: int
    hops: int = 0
    """Number of times features are averaged over neighbours; with 0 the network sees only a node's own features."""

    @property
    def width(self) -> int:
        """Number of values per node that the network sees."""
        return self.n_features * (self.hops + 1)

    def read(self, x: object) -> Tensor | SparseRows:
        """Convert a matrix of any accepted kind to validated rows of features, dense or sparse."""
        rows = as_features(x)
        if len(rows.shape) == 2 and rows.shape[1] != self.n_features:
            raise EigenmapError(f"This model takes {self.n_features} features per node, not {rows.shape[1]}.")
        if tuple(rows.shape) != (0, self.n_features):  # zero nodes are valid and have zero codes
            check_features(rows)
        return rows

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the rows unchanged; the network itself scales them."""
        return rows


@dataclass(frozen=True)
class EncoderSpec:
    """Specification of an image encoder; `name` is None for the user's own module."""

    name: str | None
    stem: Literal["auto", "imagenet", "medium", "small"] = "auto"

    def build(self, image: ImageInput) -> nn.Module:
        """Build an encoder with new weights."""
        if self.name is None:
            raise EigenmapError(
                "This model was trained with your own encoder: pass it as Eigenmap.load(directory, encoder=...)."
            )
        return build_encoder(self.name, channels=image.channels, image_size=image.view_size, stem=self.stem)


@dataclass(frozen=True)
class NodeEncoderSpec:
    """Specification of the residual perceptron of a graph model."""

    width: int
    blocks: int = 5

    def build(self, node: NodeInput, feature_dropout: float = 0.0) -> ResidualMLP:
        """Build an encoder with new weights."""
        return ResidualMLP(node.width, self.width, self.blocks, feature_dropout)


Input = ImageInput | NodeInput | VectorInput
Encoder = EncoderSpec | NodeEncoderSpec | VectorEncoderSpec
