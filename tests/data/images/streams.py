"""What several tests of streams need."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from eigenmap.data import load_images
from eigenmap.data.images.rows import square
from eigenmap.data.images.stream import ImageSource, open_stream
from tests.end_to_end.photos import pictures


def parquet(path: Path, names: list[str] | None, n: int = 10, row_group: int = 3) -> Path:
    from io import BytesIO

    encoded = []
    for picture in pictures(n):
        Image.fromarray(picture).save(buffer := BytesIO(), "PNG")
        encoded.append(buffer.getvalue())
    table = pa.table({"jpeg": encoded} | ({} if names is None else {"id": names}))
    pq.write_table(table, path, row_group_size=row_group)
    return path


def assert_same_as_loaded(source: ImageSource, size: int) -> None:
    """All shards together are what `load_images` reads, also after a journey to another process."""
    images = load_images(source, size=16, channels=3)
    shards = [pickle.loads(pickle.dumps(shard)) for shard in open_stream(source).shards(size)]
    assert [shard.number for shard in shards] == list(range(-(-len(images) // size)))
    assert all(len(shard.rows) == size for shard in shards[:-1])
    rows = [row for shard in reversed(shards) for row in reversed(list(shard.rows))][::-1]
    assert [name for name, _ in rows] == images.ids
    pixels = torch.stack([torch.from_numpy(square(picture, 16, 3).copy()) for _, picture in rows])
    assert torch.equal(pixels, images.pixels)
    assert open_stream(source).survey().count == len(images)
