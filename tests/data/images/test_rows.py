from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap.data import load_images
from eigenmap.data.images.decode import UnreadableImageError
from eigenmap.data.images.rows import decoded, nothing_readable, square, strict_error
from eigenmap.data.images.stream import open_stream


def test_a_damaged_file_says_so_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"")
    ((name, picture),) = [row for shard in open_stream(tmp_path).shards(5) for row in shard.rows]
    assert name == "broken.jpg"
    with pytest.raises(UnreadableImageError, match="empty file"):
        square(picture, 8, 3)


def test_errors_name_the_images() -> None:
    for error in (strict_error("a.jpg", "empty file"), nothing_readable([("a.jpg", "empty file")])):
        assert "a.jpg" in str(error) and "empty file" in str(error)
    several = str(nothing_readable([("a.jpg", "empty file"), ("b.jpg", "damaged")]))
    assert "2 images" in several and "b.jpg" in several and "damaged" in several


def test_rows_are_decoded_in_order_with_the_reason_of_what_cannot_be_read(photos: Path) -> None:
    (photos / "disc" / "broken.png").write_bytes(b"")
    rows = list(decoded(open_stream(photos).whole().rows, 8, 3, workers=3, ahead=2))
    loaded = load_images(photos, size=8, channels=3)
    assert [name for name, result in rows if not isinstance(result, UnreadableImageError)] == loaded.ids
    assert [(name, str(result)) for name, result in rows if isinstance(result, UnreadableImageError)] == loaded.skipped
    pixels = [torch.from_numpy(np.array(result)) for _, result in rows if not isinstance(result, UnreadableImageError)]
    assert torch.equal(torch.stack(pixels), loaded.pixels)
