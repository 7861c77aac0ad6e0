from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from eigenmap import EigenmapError
from eigenmap.data import load_images
from eigenmap.data.images.decode import UnreadableImageError
from eigenmap.data.images.stream import open_stream, square
from tests.end_to_end.photos import pictures, write_photos


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    write_photos(root, per_kind=4)
    # Names that sort differently as text and as trees, and a name that is not UTF-8.
    for name in ("disc-2.png", "disc.png", "disc0.png", "disc/a\udcff.png"):
        (root / name).write_bytes((root / "disc" / "1.png").read_bytes())
    (root / "notes.txt").write_text("no image")
    return root


def parquet(path: Path, names: list[str] | None, n: int = 10, row_group: int = 3) -> Path:
    from io import BytesIO

    from PIL import Image

    encoded = []
    for picture in pictures(n):
        Image.fromarray(picture).save(buffer := BytesIO(), "PNG")
        encoded.append(buffer.getvalue())
    table = pa.table({"jpeg": encoded} | ({} if names is None else {"id": names}))
    pq.write_table(table, path, row_group_size=row_group)
    return path


def assert_same_as_loaded(source: Path, size: int) -> None:
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


@pytest.mark.parametrize("size", [1, 4, 100])
def test_folders(photos: Path, size: int) -> None:
    assert_same_as_loaded(photos, size)


@pytest.mark.parametrize("names", [None, [f"photo-{i}" for i in range(10)]])
@pytest.mark.parametrize("size", [2, 4, 100])
def test_parquet(tmp_path: Path, names: list[str] | None, size: int) -> None:
    assert_same_as_loaded(parquet(tmp_path / "a.parquet", names), size)
    parquet(tmp_path / "b.parquet", names, row_group=100)
    assert_same_as_loaded(tmp_path, size)


@pytest.mark.parametrize("size", [5, 100])
def test_arrays(tmp_path: Path, size: int) -> None:
    np.save(tmp_path / "a.npy", pictures(12, size=20).transpose(0, 3, 1, 2))
    np.savez(tmp_path / "a.npz", images=pictures(12, size=20))
    assert_same_as_loaded(tmp_path / "a.npy", size)
    assert_same_as_loaded(tmp_path / "a.npz", size)


def test_one_file_and_several(photos: Path) -> None:
    assert_same_as_loaded(photos / "disc.png", 10)
    files = [photos / "disc.png", photos / "disc0.png"]
    assert [name for shard in open_stream(files).shards(1) for name, _ in shard.rows] == [str(file) for file in files]


def test_a_changed_source_has_another_digest(photos: Path) -> None:
    before = open_stream(photos).survey()
    assert open_stream(photos).survey() == before
    (photos / "disc.png").rename(photos / "dish.png")
    after = open_stream(photos).survey()
    assert after.count == before.count
    assert after.digest != before.digest


def test_so_has_a_changed_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", pictures(4))
    before = open_stream(tmp_path / "a.npy").survey()
    np.save(tmp_path / "a.npy", pictures(4, seed=1))
    after = open_stream(tmp_path / "a.npy").survey()
    assert after.count == before.count and after.digest != before.digest


def test_a_listing_keeps_the_names_of_the_survey(photos: Path, tmp_path: Path) -> None:
    stream = open_stream(photos, listing=tmp_path / "names")
    survey = stream.survey()
    names = [name for shard in open_stream(photos).shards(3) for name, _ in shard.rows]
    (photos / "disc0.png").unlink()
    (photos / "a\nnew one.png").write_bytes(b"")
    listed = [name for shard in stream.shards(3) for name, _ in shard.rows]
    assert listed == names and len(listed) == survey.count
    assert stream.survey().digest != survey.digest
    assert "a\nnew one.png" in [name for shard in stream.shards(3) for name, _ in shard.rows]


def test_long_listings_are_read_in_blocks(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_stream(photos, listing=tmp_path / "names")
    stream.survey()
    whole = [name for shard in stream.shards(3) for name, _ in shard.rows]
    monkeypatch.setattr("eigenmap.data.images.stream._LISTING_BLOCK", 7)
    assert [name for shard in stream.shards(3) for name, _ in shard.rows] == whole


def test_the_stamp_of_a_shard_changes_with_its_files_only(photos: Path) -> None:
    def stamps() -> list[str]:
        return [shard.rows.stamp() for shard in open_stream(photos).shards(4)]

    before = stamps()
    assert stamps() == before
    first = photos / next(iter(next(open_stream(photos).shards(4)).rows))[0]
    content, status = first.read_bytes(), first.stat()
    first.write_bytes(content[:-1] + b"~")
    os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = stamps()
    assert after[0] != before[0] and after[1:] == before[1:]
    first.unlink()
    first.symlink_to("nowhere")
    assert stamps()[0] not in (before[0], after[0])


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
def test_a_file_of_many_images_must_stay_as_it_is(tmp_path: Path, name: str) -> None:
    def write(seed: int) -> None:
        np.save(tmp_path / name, pictures(10, seed=seed)) if name == "a.npy" else parquet(tmp_path / name, None)

    write(0)
    first, second = open_stream(tmp_path / name).shards(5)
    rows = iter(first.rows)
    next(rows)
    write(1)
    with pytest.raises(EigenmapError, match=f"{name}.*changed"):
        list(rows)
    with pytest.raises(EigenmapError, match=f"{name}.*changed"):
        list(second.rows)


@pytest.mark.parametrize("name", ["a.jpg", "a.npy", "a.npz", "a.parquet"])
def test_pipes_are_no_sources(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    for source in (tmp_path / name, [tmp_path / name]):
        with pytest.raises(EigenmapError, match=f"{name}.*regular"):
            open_stream(source)
    if name == "a.parquet":
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / name).symlink_to(tmp_path / name)
        with pytest.raises(EigenmapError, match=f"{name}.*regular"):
            open_stream(tmp_path / "folder")


def test_class_folders_are_seen(photos: Path, tmp_path: Path) -> None:
    assert not open_stream(photos).survey().class_folders
    for loose in photos.glob("*.png"):
        loose.unlink()
    assert open_stream(photos).survey().class_folders
    np.save(tmp_path / "a.npy", pictures(3))
    assert not open_stream(tmp_path / "a.npy").survey().class_folders


def test_a_damaged_file_says_so_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"")
    ((name, picture),) = [row for shard in open_stream(tmp_path).shards(5) for row in shard.rows]
    assert name == "broken.jpg"
    with pytest.raises(UnreadableImageError, match="empty file"):
        square(picture, 8, 3)


def test_what_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"gone.*exist"):
        open_stream(tmp_path / "gone")
    with pytest.raises(EigenmapError, match="is empty"):
        open_stream(tmp_path)
    with pytest.raises(EigenmapError, match=r"list.*empty"):
        open_stream([])
    with pytest.raises(EigenmapError, match="1 of 1"):
        open_stream([tmp_path / "gone.jpg"])
    pq.write_table(pa.table({"jpeg": pa.array([], pa.binary())}), tmp_path / "empty.parquet")
    with pytest.raises(EigenmapError, match="no rows"):
        open_stream(tmp_path)
