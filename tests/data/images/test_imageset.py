from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, Labels
from eigenmap.data.images import imageset


def make(n: int = 4) -> ImageSet:
    pixels = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 3, 5, 5).clone()
    return ImageSet(pixels, [f"{i}.png" for i in range(n)], Labels.from_integers(list(range(n))), [("x", "bad")])


def test_what_it_knows() -> None:
    images = make()
    assert (len(images), images.size, images.channels) == (4, 5, 3)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_subset_keeps_everything_together(kind: type) -> None:
    part = make().subset(kind([3, 1]))
    assert part.ids == ["3.png", "1.png"]
    assert part.pixels[:, 0, 0, 0].tolist() == [3, 1]
    assert part.labels is not None
    assert part.labels.to_integers().tolist() == [3, 1]
    assert part.skipped == [("x", "bad")]


def test_empty_subset() -> None:
    assert len(make().subset([])) == 0


def test_a_digest_tells_images_from_others() -> None:
    images = make()
    assert images.digest() == make().digest() == replace(images, labels=None).digest()
    renamed = replace(images, ids=["x", *images.ids[1:]])
    repainted = replace(images, pixels=images.pixels.flip(0))
    sets = [images, renamed, repainted, images.subset([0, 1]), images.subset([])]
    assert len({one.digest() for one in sets}) == len(sets)
    many = ImageSet(torch.zeros(1000, 1, 2, 2, dtype=torch.uint8), [f"odd\udcff{i}" for i in range(1000)])
    assert many.digest() == many.digest()


def test_parts_that_do_not_fit_are_refused() -> None:
    pixels = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    with pytest.raises(EigenmapError, match=r"3 ids.*2 images"):
        ImageSet(pixels, ["a", "b", "c"])
    with pytest.raises(EigenmapError, match=r"1 label.*2 images"):
        ImageSet(pixels, ["a", "b"], Labels.from_integers([0]))
    with pytest.raises(EigenmapError, match="uint8"):
        ImageSet(pixels.float(), ["a", "b"])


def test_examples() -> None:
    assert doctest.testmod(imageset).failed == 0
