from __future__ import annotations

import os
from pathlib import Path

import pytest

from eigenmap.data.images.stream import open_stream


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
    monkeypatch.setattr("eigenmap.data.images.file_streams._LISTING_BLOCK", 7)
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
