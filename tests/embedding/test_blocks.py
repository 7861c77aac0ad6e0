from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap, EigenmapError
from eigenmap.data import load_images
from eigenmap.data.images.rows import RawImage
from eigenmap.data.images.stream import open_stream
from eigenmap.embedding.blocks import Encoding, encode_blocks
from tests.end_to_end.photos import pictures


def rows(source: Path) -> Iterator[tuple[str, RawImage]]:
    for shard in open_stream(source).shards(7):
        yield from shard.rows


@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_the_codes_are_those_of_encode(model: Eigenmap, photos: Path, batch_size: int) -> None:
    blocks = list(encode_blocks(model, rows(photos), Encoding(5, batch_size=batch_size, workers=2)))
    images = load_images(photos, size=16, channels=3)
    assert [name for block in blocks for name in block.ids] == images.ids
    codes = np.concatenate([block.codes for block in blocks])
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, model.encode(images, 5), atol=1e-5)
    assert [name for block in blocks for name, _ in block.skipped] == ["disc/broken.jpg"]


def test_images_are_read_no_faster_than_they_are_encoded(model: Eigenmap) -> None:
    drawn = 0

    def many() -> Iterator[tuple[str, RawImage]]:
        nonlocal drawn
        for picture in pictures(200):
            drawn += 1
            yield str(drawn), picture

    encoded = 0
    for block in encode_blocks(model, many(), Encoding(8, batch_size=10, workers=2)):
        encoded += len(block.ids)
        assert drawn <= encoded + 2 * 10
    assert encoded == 200


def test_strict(model: Eigenmap, photos: Path) -> None:
    with pytest.raises(EigenmapError, match=r"disc/broken\.jpg.*read"):
        list(encode_blocks(model, rows(photos), Encoding(8, strict=True)))


def test_a_block_of_nothing_but_damage(model: Eigenmap) -> None:
    (block,) = encode_blocks(model, [("a", b""), ("b", None)], Encoding(8))
    assert block.ids == [] and block.codes.shape == (0, 8)
    assert block.skipped == [("a", "empty file"), ("b", "no image bytes")]
