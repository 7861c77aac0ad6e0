from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenmap import EigenmapError
from eigenmap.embedding import stored
from eigenmap.embedding.files import join_shards
from eigenmap.embedding.shards import Codebook
from eigenmap.embedding.stored import open_codes
from tests.compatibility.recording import RECORDED
from tests.end_to_end.photos import pictures

SHARDS = RECORDED / "shards-npy"


def all_of(path: Path) -> tuple[list[str], np.ndarray]:
    found = open_codes(path)
    assert found is not None
    blocks = list(found)
    return [name for ids, _ in blocks for name in ids], np.concatenate([codes for _, codes in blocks])


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_a_file_is_read_as_its_shards_are(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_ROWS", 5)
    shards, path = Codebook.open(SHARDS), tmp_path / f"codes{suffix}"
    join_shards(shards, suffix, path, tmp_path / "codes.ids.json")
    names, codes = all_of(path)
    expected_names, expected = all_of(SHARDS)
    assert names == expected_names and len(names) == len(shards)
    np.testing.assert_array_equal(codes, expected)
    found = open_codes(path)
    assert found is not None and found.dim == shards.plan.dim
    assert found.fingerprint == (shards.plan.fingerprint if suffix == ".parquet" else None)


def test_what_holds_no_codes(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", pictures(3))
    np.save(tmp_path / "numbers.npy", np.zeros((3, 4), int))
    np.savez(tmp_path / "images.npz", images=pictures(3))
    pq.write_table(pa.table({"id": ["a"], "jpeg": [b""]}), tmp_path / "images.parquet")
    (tmp_path / "a.jpg").write_bytes(b"")
    for path in [tmp_path, tmp_path / "gone.npy", *tmp_path.iterdir()]:
        assert open_codes(path) is None, path


def test_names_that_do_not_belong_to_the_codes(tmp_path: Path) -> None:
    path = tmp_path / "codes.npy"
    np.save(path, np.eye(3))
    assert all_of(path)[0] == ["0", "1", "2"]
    for names, sentence in (
        (["a"], r"codes\.ids\.json.*1 names.*3 codes"),
        ([1, 2, 3], r"codes\.ids\.json.*list"),
    ):
        (tmp_path / "codes.ids.json").write_text(json.dumps(names))
        with pytest.raises(EigenmapError, match=sentence):
            all_of(path)
    (tmp_path / "codes.ids.json").write_text("[")
    with pytest.raises(EigenmapError, match=r"codes\.ids\.json.*damaged"):
        all_of(path)


def test_a_damaged_parquet_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "codes.parquet"
    join_shards(Codebook.open(SHARDS), ".parquet", path, tmp_path / "names")
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)
    with pytest.raises(EigenmapError, match=r"codes\.parquet"):
        all_of(path)
