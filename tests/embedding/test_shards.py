from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenmap import EigenmapError
from eigenmap.embedding.blocks import Block
from eigenmap.embedding.shards import Codebook, Plan, ShardFolder, code_table, utf8_name

PLAN = Plan("abc", dim=3, images=5, digest="d", shard_size=2, files="parquet")


def block(number: int, rows: int) -> Block:
    codes = np.random.default_rng(number).normal(size=(rows, 3)).astype(np.float32)
    return Block([f"{number}-{row}" for row in range(rows)], codes, [(f"bad-{number}", "why")])


@pytest.mark.parametrize("files", ["parquet", "npy"])
def test_shards_are_read_as_they_were_written(tmp_path: Path, files: str) -> None:
    folder = ShardFolder(tmp_path / ".codes.parts", replace(PLAN, files=files))
    assert folder.begin() == 0
    blocks = [block(0, 2), block(1, 0), block(2, 1)]
    for number in (2, 0, 1):
        folder.write(number, blocks[number])
    made = folder.complete()
    assert len(made) == 3
    assert made.skipped == [("bad-0", "why"), ("bad-1", "why"), ("bad-2", "why")]
    folder.publish(tmp_path / "codes")
    for (ids, codes), wanted in zip(Codebook.open(tmp_path / "codes"), blocks, strict=True):
        assert ids == wanted.ids
        np.testing.assert_array_equal(codes, wanted.codes)
    assert not list(tmp_path.rglob(".*"))
    names = {"parquet": ["parquet"], "npy": ["ids.json", "npy"]}[files]
    expected = ["_embedding.json", *(f"part-{number:05d}.{name}" for number in range(3) for name in names)]
    assert sorted(path.name for path in (tmp_path / "codes").iterdir()) == expected
    if files == "parquet":
        assert pq.read_table(tmp_path / "codes").num_rows == 3


def test_work_of_the_same_plan_is_kept_and_of_another_is_not(tmp_path: Path) -> None:
    first = ShardFolder(tmp_path / "parts", PLAN)
    first.begin()
    first.write(1, block(1, 2))
    again = ShardFolder(tmp_path / "parts", PLAN)
    assert again.begin() == 1
    assert again.is_finished(1) and not again.is_finished(0)
    with pytest.raises(EigenmapError, match=r"shard 0 of .* is missing"):
        again.complete()
    other = ShardFolder(tmp_path / "parts", replace(PLAN, dim=2))
    assert other.begin() == 0
    assert not other.is_finished(1)


def test_a_shard_without_its_mark_does_not_count(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path / "parts", PLAN)
    folder.begin()
    folder.write(0, block(0, 2))
    (tmp_path / "parts" / ".progress" / "00000.json").unlink()  # killed between the two files
    assert ShardFolder(tmp_path / "parts", PLAN).begin() == 0
    assert not folder.is_finished(0)


def test_any_program_can_read_the_parquet_files(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path / "parts", PLAN)
    folder.begin()
    folder.write(0, Block(["a\udcff.jpg", "ü"], np.eye(2, 3, dtype=np.float32)))
    table = pq.read_table(tmp_path / "parts" / "part-00000.parquet")
    assert table.schema.field("code").type == pa.list_(pa.float32(), 3)
    assert table.to_pydict() == {"id": ["a\\xff.jpg", "ü"], "code": [[1, 0, 0], [0, 1, 0]]}
    assert table.schema.metadata[b"eigenmap_fingerprint"] == b"abc"


def test_whole_numbers_are_ids_too() -> None:
    assert code_table([3, 4], np.zeros((2, 1), np.float32), {}).schema.field("id").type == pa.int64()


def test_names_that_are_no_utf8() -> None:
    assert utf8_name("a/ü.jpg") == "a/ü.jpg"
    assert utf8_name("a\udcff") == "a\\xff"


def test_what_is_no_folder_of_codes(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="is not a finished folder of codes"):
        Codebook.open(tmp_path)
    (tmp_path / "_embedding.json").write_text('{"kind": "eigenmap-codes", "version": 1}')
    with pytest.raises(EigenmapError, match="is damaged"):
        Codebook.open(tmp_path)
    (tmp_path / "_embedding.json").write_text("{")
    with pytest.raises(EigenmapError, match="is damaged"):
        Codebook.open(tmp_path)


@pytest.mark.parametrize("files", ["parquet", "npy"])
def test_a_damaged_or_missing_shard(tmp_path: Path, files: str) -> None:
    folder = ShardFolder(tmp_path / "parts", Plan("abc", 3, 1, "d", 2, files))
    folder.begin()
    folder.write(0, block(0, 1))
    made = folder.complete()
    part = tmp_path / "parts" / f"part-00000.{files}"
    part.write_bytes(part.read_bytes()[:20])
    with pytest.raises(EigenmapError, match=r"part-00000 in .* is missing or damaged"):
        list(made)
    part.unlink()
    with pytest.raises(EigenmapError, match=r"part-00000 in .* is missing or damaged"):
        list(made)
