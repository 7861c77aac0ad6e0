from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenmap import EigenmapError
from eigenmap.data import load_images
from eigenmap.data.images.stream import open_stream
from tests.data.images.streams import assert_same_as_loaded, parquet
from tests.end_to_end.photos import pictures


@pytest.mark.parametrize("size", [1, 4, 100])
def test_folders(photos: Path, size: int) -> None:
    assert_same_as_loaded(photos, size)


@pytest.mark.parametrize("names", [None, [f"photo-{i}" for i in range(10)]])
@pytest.mark.parametrize("size", [2, 4, 100])
def test_parquet(tmp_path: Path, names: list[str] | None, size: int) -> None:
    assert_same_as_loaded(parquet(tmp_path / "a.parquet", names), size)
    parquet(tmp_path / "b.parquet", names, row_group=100)
    assert_same_as_loaded(tmp_path, size)


def test_one_file_and_several(photos: Path) -> None:
    assert_same_as_loaded(photos / "disc.png", 10)
    files = [photos / "disc.png", photos / "disc0.png"]
    assert [name for shard in open_stream(files).shards(1) for name, _ in shard.rows] == [str(file) for file in files]


def test_classes_are_known_row_by_row(photos: Path, tmp_path: Path) -> None:
    for loose in photos.glob("*.png"):
        loose.unlink()
    parquet(tmp_path / "a.parquet", None)
    table = pq.read_table(tmp_path / "a.parquet")
    for name, column in (("numbers", [3, 12, -1, None] + 6 * [3]), ("names", [["b", "a"], [], None] + 7 * [["a"]])):
        pq.write_table(table.append_column("label", [column]), tmp_path / f"{name}.parquet", row_group_size=3)
    np.savez(tmp_path / "a.npz", images=pictures(5), labels=np.array(["x", "y", "x", "y", "z"]))
    for source in (photos, tmp_path / "numbers.parquet", tmp_path / "names.parquet", tmp_path / "a.npz"):
        stream, loaded = open_stream(source), load_images(source).labels
        assert stream.survey().labelled and loaded is not None
        assert [row for shard in stream.shards(4) for row in shard.rows.labels()] == loaded.rows()
    assert not open_stream(tmp_path / "a.parquet").survey().labelled


def test_a_changed_source_has_another_digest(photos: Path) -> None:
    before = open_stream(photos).survey()
    assert open_stream(photos).survey() == before
    (photos / "disc.png").rename(photos / "dish.png")
    after = open_stream(photos).survey()
    assert after.count == before.count
    assert after.digest != before.digest


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
    assert not open_stream(photos).survey().labelled
    for loose in photos.glob("*.png"):
        loose.unlink()
    assert open_stream(photos).survey().labelled
    np.save(tmp_path / "a.npy", pictures(3))
    assert not open_stream(tmp_path / "a.npy").survey().labelled


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
