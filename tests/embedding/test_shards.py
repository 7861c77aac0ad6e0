from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenmap import EigenmapError
from eigenmap.embedding.blocks import Block
from eigenmap.embedding.shards import Codebook, Plan, code_table, utf8_name
from eigenmap.embedding.workspace import ShardFolder

PLAN = Plan("abc", dim=3, images=5, digest="d", shard_size=2, files="parquet")


def block(number: int, rows: int) -> Block:
    codes = np.random.default_rng(number).normal(size=(rows, 3)).astype(np.float32)
    return Block([f"{number}-{row}" for row in range(rows)], codes, [(f"bad-{number}", "why")])


def written(folder: Path, plan: Plan = PLAN, blocks: int = 3) -> ShardFolder:
    made = ShardFolder(folder, plan)
    made.make()
    for number in range(blocks):
        made.write(number, block(number, 2 if number < 2 else 1))
    return made


@pytest.mark.parametrize("files", ["parquet", "npy"])
def test_shards_are_read_as_they_were_written(tmp_path: Path, files: str) -> None:
    folder = ShardFolder(tmp_path / "parts", replace(PLAN, files=files))
    folder.make()
    blocks = [block(0, 2), block(1, 0), block(2, 1)]
    for number in (2, 0, 1):
        folder.write(number, blocks[number])
    made = folder.complete()
    assert len(made) == 3
    assert made.skipped == [("bad-0", "why"), ("bad-1", "why"), ("bad-2", "why")]
    assert Codebook.open(folder.codes) == made
    assert made.verify()
    for (ids, codes), wanted in zip(made, blocks, strict=True):
        assert ids == wanted.ids
        np.testing.assert_array_equal(codes, wanted.codes)
    names = {"parquet": ["parquet"], "npy": ["ids.json", "npy"]}[files]
    expected = ["_embedding.json", *(f"part-{number:05d}.{name}" for number in range(3) for name in names)]
    assert sorted(path.name for path in folder.codes.iterdir()) == expected
    if files == "parquet":
        assert pq.read_table(folder.codes).num_rows == 3


def test_any_program_can_read_the_parquet_files(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path / "parts", PLAN)
    folder.make()
    folder.write(0, Block(["a\udcff.jpg", "ü"], np.eye(2, 3, dtype=np.float32)))
    table = pq.read_table(folder.codes / "part-00000.parquet")
    assert table.schema.field("code").type == pa.list_(pa.float32(), 3)
    assert table.to_pydict() == {"id": ["a\\xff.jpg", "ü"], "code": [[1, 0, 0], [0, 1, 0]]}
    assert table.schema.metadata[b"eigenmap_fingerprint"] == b"abc"


def test_whole_numbers_are_ids_too() -> None:
    assert code_table([3, 4], np.zeros((2, 1), np.float32), {}).schema.field("id").type == pa.int64()


def test_names_that_are_no_utf8() -> None:
    assert utf8_name("a/ü.jpg") == "a/ü.jpg"
    assert utf8_name("a\udcff") == "a\\xff"
    assert utf8_name("a\ud800ü") == "a\\xed\\xa0\\x80ü"  # half of a pair, which is no byte of a file name


def test_what_is_no_folder_of_codes(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="finished"):
        Codebook.open(tmp_path)
    (tmp_path / "_embedding.json").write_text('{"kind": "eigenmap-codes", "version": 1}')
    with pytest.raises(EigenmapError, match="is damaged"):
        Codebook.open(tmp_path)
    (tmp_path / "_embedding.json").write_text("{")
    with pytest.raises(EigenmapError, match="is damaged"):
        Codebook.open(tmp_path)


@pytest.mark.parametrize("files", ["parquet", "npy"])
def test_a_flipped_bit_anywhere_is_seen(tmp_path: Path, files: str) -> None:
    """Also in the codes themselves, of which every value is a number."""
    made = written(tmp_path, replace(PLAN, files=files)).complete()
    for path in sorted(made.path.iterdir()):
        whole = path.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 60)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises(EigenmapError, match=path.name if path.name.startswith("part") else "codes"):
                Codebook.open(made.path).verify()
        path.write_bytes(whole)
    assert Codebook.open(made.path).verify()


@pytest.mark.parametrize("files", ["parquet", "npy"])
def test_a_damaged_or_missing_shard(tmp_path: Path, files: str) -> None:
    made = written(tmp_path, replace(PLAN, files=files)).complete()
    part = made.path / f"part-00001.{files}"
    whole = part.read_bytes()
    part.write_bytes(whole[:20])
    with pytest.raises(EigenmapError, match=f"part-00001.{files}.*damaged.*20 bytes"):
        list(made)
    part.unlink()
    with pytest.raises(EigenmapError, match=f"part-00001.{files}.*missing"):
        list(made)
    os.mkfifo(part)
    with pytest.raises(EigenmapError, match=f"part-00001.{files}.*regular file"):
        made.verify()


def test_files_that_do_not_belong_to_the_folder(tmp_path: Path) -> None:
    made = written(tmp_path).complete()
    (made.path / "notes.txt").write_text("mine")
    assert made.verify()
    (made.path / "part-00003.parquet").write_bytes((made.path / "part-00000.parquet").read_bytes())
    with pytest.raises(EigenmapError, match=r"part-00003.parquet"):
        made.verify()


@pytest.mark.parametrize("files", ["parquet", "npy"])
def test_folders_without_checksums_are_read_and_say_so(tmp_path: Path, files: str) -> None:
    """As earlier versions wrote them."""
    made = written(tmp_path, replace(PLAN, files=files)).complete()
    about = json.loads((made.path / "_embedding.json").read_text())
    del about["files"], about["checksum"]
    (made.path / "_embedding.json").write_text(json.dumps(about))
    old = Codebook.open(made.path)
    assert old.checksums is None and len(list(old)) == 3
    assert old.verify() is False
    part = made.path / f"part-00001.{files}"
    whole = part.read_bytes()
    for place in range(0, len(whole), 5):
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with suppress(EigenmapError):  # a value that is another number cannot be seen
            old.verify()
    part.write_bytes(whole)
    (made.path / "_embedding.json").write_text(json.dumps(about | {"images": 6}))
    with pytest.raises(EigenmapError, match=r"5 codes.*6"):
        Codebook.open(made.path).verify()


@pytest.mark.parametrize(
    "change",
    [
        {"images": "5"},
        {"images": -1},
        {"skipped": [1]},
        {"skipped": 3},
        {"plan": []},
        {"plan": {"dim": 3}},
        {"files": {}},
        {"checksum": 1},
        *({"plan": {name: value}} for name, value in (("shard_size", 0), ("dim", -1), ("dim", "3"), ("files", "csv"))),
    ],
    ids=str,
)
def test_descriptions_that_make_no_sense(tmp_path: Path, change: dict[str, Any]) -> None:
    made = written(tmp_path).complete()
    about = json.loads((made.path / "_embedding.json").read_text())
    del about["checksum"], about["files"]  # which would tell as well
    if isinstance(change.get("plan"), dict) and change["plan"] != {"dim": 3}:
        change = {"plan": about["plan"] | change["plan"]}
    (made.path / "_embedding.json").write_text(json.dumps(about | change))
    with pytest.raises(EigenmapError, match=r"_embedding.json.*damaged"):
        Codebook.open(made.path)


def test_a_description_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "_embedding.json")
    with pytest.raises(EigenmapError, match="finished"):
        Codebook.open(tmp_path)


def test_a_description_nested_without_end(tmp_path: Path) -> None:
    (tmp_path / "_embedding.json").write_text("[" * 100_000)
    with pytest.raises(EigenmapError, match=r"_embedding.json.*damaged"):
        Codebook.open(tmp_path)
