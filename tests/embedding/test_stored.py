from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def written(path: Path, code: pa.Array, ids: list[str | None]) -> Path:
    pq.write_table(pa.table({"id": ids, "code": code}), path)
    return path


@pytest.mark.parametrize("precision", [pa.float16(), pa.float32(), pa.float64()])
def test_codes_in_parquet_may_have_any_precision(precision: pa.DataType, tmp_path: Path) -> None:
    code = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(4.0)).cast(precision), 2)
    names, codes = all_of(written(tmp_path / "codes.parquet", code, ["a", "b"]))
    assert names == ["a", "b"] and codes.dtype == np.float32 and codes.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("kind", [pa.int32(), pa.string()])
def test_lists_of_something_else_are_no_codes(kind: pa.DataType, tmp_path: Path) -> None:
    code = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4]).cast(kind), 2)
    assert open_codes(written(tmp_path / "codes.parquet", code, ["a", "b"])) is None


def test_rows_without_code_or_name_are_refused_clearly(tmp_path: Path) -> None:
    """Of old the first was an error about shapes, and the second an item named None."""
    path, pairs = tmp_path / "codes.parquet", pa.list_(pa.float32(), 2)
    for code, ids, what in (([[1, 2], None], ["a", "b"], "code"), ([[1, 2], [3, 4]], ["a", None], "id")):
        with pytest.raises(EigenmapError, match=rf"codes\.parquet has rows without {what}"):
            all_of(written(path, pa.array(code, pairs), ids))


@pytest.mark.parametrize("ids", [np.array("a"), np.array([["a", "b"]] * 3)])
def test_ids_that_are_no_list_of_names(ids: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", codes=np.eye(3), ids=ids)
    with pytest.raises(EigenmapError, match=r"ids in .*codes\.npz are not a list of names"):
        all_of(tmp_path / "codes.npz")


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


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_codes_never_get_the_names_of_those_that_replaced_them(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: Path, names: list[str], value: float) -> Path:
        folder.mkdir()
        codes = np.full((2, 3), value, np.float32)
        if suffix == ".npy":
            np.save(folder / "codes.npy", codes)
            (folder / "codes.ids.json").write_text(json.dumps(names))
        else:
            np.savez(folder / "codes.npz", codes=codes, ids=names)
        return folder / f"codes{suffix}"

    path, other = write(tmp_path / "a", ["a", "b"], 1), write(tmp_path / "b", ["c", "d"], 2)
    read_names = stored.stored_names

    def replaced_meanwhile(*given: Any) -> list[str] | None:
        for file in other.parent.iterdir():
            file.replace(path.with_name(file.name))
        return read_names(*given)

    monkeypatch.setattr(stored, "stored_names", replaced_meanwhile)
    with pytest.raises(EigenmapError, match=r"codes\.np[yz] was replaced"):
        all_of(path)
    assert all_of(path)[0] == ["c", "d"]
