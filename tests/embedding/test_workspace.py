from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenmap import EigenmapError
from eigenmap.core.folders import BusyFolderError
from eigenmap.data.images.rows import ImageStream, Shard
from eigenmap.data.images.stream import open_stream
from eigenmap.embedding.blocks import Block
from eigenmap.embedding.shards import Plan
from eigenmap.embedding.workspace import ShardFolder, Workspace

PLAN = Plan("abc", dim=3, images=5, digest="d", shard_size=2, files="npy")


@pytest.fixture
def stream(tmp_path: Path) -> ImageStream:
    (tmp_path / "photos").mkdir()
    for number in range(5):
        Image.new("L", (2, 2), number).save(tmp_path / "photos" / f"{number}.bmp")
    return open_stream(tmp_path / "photos")


def write(folder: ShardFolder, shard: Shard) -> None:
    ids = [name for name, _ in shard.rows]
    folder.write(shard.number, Block(ids, np.ones((len(ids), 3), np.float32)), shard.rows.stamp())


def filled(out: Path, stream: ImageStream, plan: Plan = PLAN) -> ShardFolder:
    folder = Workspace(out).folder(plan)
    folder.make()
    for shard in stream.shards(2):
        write(folder, shard)
    return folder


def test_work_of_the_same_plan_is_kept_and_of_another_is_not(tmp_path: Path, stream: ImageStream) -> None:
    workspace = Workspace(tmp_path / "codes")
    first = filled(tmp_path / "codes", stream)
    assert workspace.folder(PLAN).path == first.path
    assert first.keep_current(stream) == 3
    other = workspace.folder(replace(PLAN, dim=2))
    other.make()
    assert other.path != first.path and other.keep_current(stream) == 0
    with pytest.raises(EigenmapError, match=r"shard 0 .*missing"):
        other.complete()
    workspace.keep_only(other)
    assert [path.name for path in workspace.path.iterdir()] == [other.path.name]


def test_a_shard_without_its_mark_does_not_count(tmp_path: Path, stream: ImageStream) -> None:
    folder = filled(tmp_path / "codes", stream)
    (folder.path / "finished" / "00001.json").unlink()  # killed between the files
    assert folder.keep_current(stream) == 2
    assert [folder.is_finished(number) for number in range(3)] == [True, False, True]


@pytest.mark.parametrize("name", ["codes/part-00001.npy", "codes/part-00001.ids.json", "finished/00001.json"])
@pytest.mark.parametrize("damage", ["gone", "cut", "flipped"])
def test_a_damaged_shard_is_made_again(tmp_path: Path, stream: ImageStream, name: str, damage: str) -> None:
    folder = filled(tmp_path / "codes", stream)
    content = (folder.path / name).read_bytes()
    (folder.path / name).unlink()
    if damage != "gone":
        (folder.path / name).write_bytes(content[:9] if damage == "cut" else b"~" + content[1:])
    assert folder.keep_current(stream) == 2
    assert not folder.is_finished(1)


def test_a_shard_of_other_images_is_made_again(tmp_path: Path, stream: ImageStream) -> None:
    """Of the same name and size, and with the time of the old one."""
    folder = filled(tmp_path / "codes", stream)
    picture = tmp_path / "photos" / "3.bmp"
    before = picture.stat()
    Image.new("L", (2, 2), 99).save(picture)
    os.utime(picture, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert picture.stat().st_size == before.st_size and picture.stat().st_mtime_ns == before.st_mtime_ns
    assert not folder.is_of(stream)
    assert folder.keep_current(stream) == 2
    assert not folder.is_finished(1)


def test_what_a_killed_process_left_half_written_is_not_published(tmp_path: Path, stream: ImageStream) -> None:
    folder = filled(tmp_path / "codes", stream)
    (folder.codes / ".part-00002.npy.partial").write_bytes(b"half")
    (folder.codes / "part-00003.npy").write_bytes(b"of a longer run")
    folder.complete()
    assert sorted(path.suffix for path in folder.codes.iterdir()) == [".json"] * 4 + [".npy"] * 3


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with Workspace(tmp_path / "codes").held():
        busy = pytest.raises(BusyFolderError, match=r"process.*/codes")
        with busy, Workspace(tmp_path / "codes").held():
            pass
        with Workspace(tmp_path / "others").held():
            pass
    with Workspace(tmp_path / "codes").held():
        pass


def test_what_is_discarded_is_not_discarded_again(tmp_path: Path) -> None:
    """By then it may be another's."""
    first, second = Workspace(tmp_path / "codes"), Workspace(tmp_path / "codes")
    with first.held():
        first.discard()
        assert not list(tmp_path.iterdir())
        with second.held():
            first.discard()
            assert second.path.is_dir()


def test_work_of_earlier_versions_is_not_continued(tmp_path: Path, stream: ImageStream) -> None:
    """They did not look at the content of the images; and their folder may have been half deleted."""
    workspace = Workspace(tmp_path / "codes")
    (workspace.path / ".progress").mkdir(parents=True)
    (workspace.path / ".progress" / "plan.json").write_text(json.dumps(asdict(PLAN)))
    (workspace.path / ".progress" / "00000.json").write_text("{}")
    (workspace.path / "part-00000.npy").write_bytes(b"")
    assert workspace.is_fruitless()
    with workspace.held():
        workspace.keep_only(workspace.folder(PLAN))
        assert not list(workspace.path.iterdir())


@pytest.mark.parametrize(
    "damaged",
    [
        {"files": {"part-00001.npy": {"size": 1}}},
        {"files": {"part-00001.npy": 3}},
        {"files": [1]},
        {"images": "two"},
        {"skipped": [["a"]]},
        {"skipped": None},
    ],
    ids=str,
)
def test_a_mark_that_makes_no_sense_counts_as_none(tmp_path: Path, stream: ImageStream, damaged: object) -> None:
    folder = filled(tmp_path / "codes", stream)
    mark = folder.path / "finished" / "00001.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | damaged))
    with pytest.raises(EigenmapError, match=r"shard 1 .*missing"):
        folder.summary()
    assert folder.keep_current(stream) == 2 and not folder.is_finished(1)
