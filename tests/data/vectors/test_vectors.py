"""Vectors from files and from memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.sparse import csr_matrix

from benchmarks.common.timing import status_bytes
from eigenmap import EigenmapError
from eigenmap.data.vectors.input import VectorInput
from eigenmap.data.vectors.vectors import Vectors, is_vector_file, load_vectors


def rows(n: int = 50, d: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def fixed(x: np.ndarray) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])


def write_arrow(path: Path, table: Any) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def write(folder: Path, kind: str, x: np.ndarray) -> Path:
    path = folder / f"x.{kind}"
    variable = pa.table(
        {"id": [f"r{i}" for i in range(len(x))], "vector": pa.array(x.tolist(), pa.list_(pa.float32()))}
    )
    if kind == "npy":
        np.save(path, x)
    elif kind == "npz":
        np.savez(path, x=x, labels=np.arange(len(x)))
    elif kind == "parquet":
        pq.write_table(variable, path, row_group_size=7)
    elif kind == "arrow":
        write_arrow(path, variable)
    else:
        write_arrow(path, pa.table({"vector": fixed(x)}))
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "arrow", "feather"])
def test_every_file_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    x = rows()
    found = load_vectors(write(tmp_path, kind, x))
    assert (len(found), found.n_features) == x.shape
    np.testing.assert_array_equal(np.concatenate(list(found.blocks(16))), x)
    np.testing.assert_array_equal(found.take(np.array([3, 1, 49])), x[[3, 1, 49]])
    np.testing.assert_array_equal(found.take(np.array([3, 4, 6])), x[[3, 4, 6]])


def test_one_pass_over_a_file_takes_constant_memory(tmp_path: Path) -> None:
    x = np.zeros((40_000, 512), np.float32)
    np.save(tmp_path / "x.npy", x)
    found = load_vectors(tmp_path / "x.npy")
    every, scattered = np.arange(len(x)), np.random.default_rng(0).permutation(len(x))
    before = status_bytes("RssFile")
    taken = [(found.take(rows[k : k + 1000]) for k in range(0, len(x), 1000)) for rows in (every, scattered)]
    for some in (found.blocks(1000), *taken):
        assert max(status_bytes("RssFile") for _ in some) < before + x.nbytes / 4


def test_scattered_rows_of_a_large_file_take_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row maps at least 64 kB around it, 128 MB for 2,000 rows, unless pages are released in between."""
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float16, (1_000_000, 512))  # sparse: no disk is used
    rows = np.sort(np.random.default_rng(0).permutation(len(x))[:2_000])
    x[rows] = np.arange(2_000)[:, None]
    del x
    found, release, seen = load_vectors(tmp_path / "x.npy"), Vectors._release, [0]
    monkeypatch.setattr(Vectors, "_release", lambda self: (seen.append(status_bytes("RssFile")), release(self)))
    before = status_bytes("RssFile")
    assert (found.take(rows)[:, 0] == np.arange(2_000)).all()
    assert len(seen) > 10 and max(seen) < before + (64 << 20)


def test_rows_in_memory_are_not_copied_to_read_them_all(tmp_path: Path) -> None:
    x = rows()
    assert np.shares_memory(load_vectors(x).whole(), x)
    locked = x.copy()
    locked.flags.writeable = False
    np.save(tmp_path / "x.npy", x)
    for other in (locked, x[::2], x.astype(np.float16), np.asfortranarray(x), tmp_path / "x.npy"):
        found = load_vectors(other)
        every = found.whole()
        np.testing.assert_array_equal(every, np.asarray(found.array, every.dtype))
        assert not np.shares_memory(every, found.array) and every.flags.writeable
    x[3, 1] = np.nan
    with pytest.raises(EigenmapError, match=r"Row 3 of the vectors \(counted from 0\) contains NaN"):
        load_vectors(x).whole()


def test_a_private_map_keeps_what_was_written_to_it(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows())
    x = np.load(tmp_path / "x.npy", mmap_mode="c")
    x[3] = 7
    found = load_vectors(x)
    assert (found.block(0, 10)[3] == 7).all() and (found.take(np.arange(10))[3] == 7).all() and (x[3] == 7).all()


@pytest.mark.parametrize("made", [lambda x: x, torch.from_numpy, lambda x: x.tolist(), fixed])
def test_what_is_in_memory(made: Any) -> None:
    x = rows()
    np.testing.assert_array_equal(load_vectors(made(x)).block(0, 50), x)


def test_an_npy_file_stays_on_disk_and_a_column_can_be_named(tmp_path: Path) -> None:
    x = rows()
    assert isinstance(load_vectors(write(tmp_path, "npy", x)).array, np.memmap)
    assert isinstance(load_vectors(write(tmp_path, "parquet", x)).array, np.memmap)
    two = tmp_path / "two.parquet"
    pq.write_table(pa.table({"a": fixed(x), "b": fixed(-x)}), two)
    with pytest.raises(EigenmapError, match=r"several columns.*a, b.*two\.parquet:a"):
        load_vectors(two)
    np.testing.assert_array_equal(load_vectors(f"{two}:b").block(0, 50), -x)
    assert is_vector_file(Path(f"{two}:b")) and not is_vector_file(Path("photo.jpg"))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, ">f4"])
def test_numbers_of_any_type_become_floats(tmp_path: Path, dtype: Any) -> None:
    x = (10 * rows()).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    block = load_vectors(tmp_path / "x.npy").block(0, 50)
    assert block.dtype == (np.float64 if np.dtype(dtype).itemsize == 8 else np.float32)
    np.testing.assert_array_equal(block, x.astype(np.float64))


def test_names_are_ids_or_row_numbers(tmp_path: Path) -> None:
    assert load_vectors(write(tmp_path, "parquet", rows())).names()[:2] == ["r0", "r1"]
    assert Vectors(rows()).names()[:2] == ["0", "1"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(tmp_path: Path, bad: float) -> None:
    x = rows()
    x[37, 2] = bad
    np.save(tmp_path / "x.npy", x)
    found = load_vectors(tmp_path / "x.npy")
    with pytest.raises(EigenmapError, match=r"Row 37 of .*x\.npy"):
        list(found.blocks(16))
    with pytest.raises(EigenmapError, match="Row 37 "):
        found.take(np.array([5, 37]))
    assert np.isfinite(found.block(0, 37)).all()


def test_large_finite_numbers_are_not_refused() -> None:
    x = np.full((4, 4), np.finfo(np.float64).max)
    np.testing.assert_array_equal(Vectors(x).block(0, 4), x)


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros(5), "shape"),
        (np.zeros((0, 5)), "empty"),
        (np.zeros((5, 0)), "empty"),
        (np.array([["a", "b"]]), "numbers"),
        (np.zeros((2, 2), complex), "numbers"),
        ([[1.0], [1.0, 2.0]], "same length"),
    ],
)
def test_what_is_no_matrix_is_refused(array: Any, says: str) -> None:
    with pytest.raises(EigenmapError, match=says):
        load_vectors(array, "X")


def test_a_sparse_matrix_is_refused_by_name() -> None:
    sparse = csr_matrix((3, 5))
    with pytest.raises(EigenmapError, match=r"^X must be a dense matrix.*toarray"):
        load_vectors(sparse, "X")
    with pytest.raises(EigenmapError, match="dense matrix"):
        VectorInput(5).read(sparse)


def test_lists_of_unequal_length_and_missing_rows_are_named(tmp_path: Path) -> None:
    lists = [[1.0, 2.0]] * 9
    for change, says in (
        ([1.0], "has 1 numbers"),
        (None, "no vector"),
        ([1.0, None], "null"),
    ):
        table = pa.table({"vector": pa.array([*lists[:4], change, *lists[4:]], pa.list_(pa.float32()))})
        pq.write_table(table, tmp_path / "x.parquet")
        with pytest.raises(EigenmapError, match=f"Row 4 .*{says}"):
            load_vectors(tmp_path / "x.parquet")


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("1 2 3")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing")
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "y.parquet")
    for name, says in (
        ("none.npy", r"none\.npy"),
        ("x.txt", r"x\.txt .*file of vectors"),
        ("x.parquet", "cannot be read"),
        ("y.parquet", "no column of lists"),
        ("y.parquet:text", "no column text"),
        (".", "folder"),
    ):
        with pytest.raises(EigenmapError, match=says):
            load_vectors(tmp_path / name)


def test_digests_tell_vectors_apart() -> None:
    x = rows()
    assert Vectors(x).digest() == Vectors(x.copy()).digest() != Vectors(x + 1).digest()


def test_a_damaged_arrow_file_is_refused_before_it_ends_the_process(tmp_path: Path) -> None:
    """Of old, some lengths made Arrow abort, or read memory that it did not have."""
    write_arrow(tmp_path / "x.arrow", pa.table({"vector": fixed(rows(6, 4))}))
    good = (tmp_path / "x.arrow").read_bytes()
    length, size = (24).to_bytes(8, "little"), (4).to_bytes(4, "little")
    damaged = [good.replace(length, (-24).to_bytes(8, "little", signed=True))]
    place = good.index(size, good.rindex(b"vector"))
    while place >= 0:
        damaged.append(good[:place] + (-4).to_bytes(4, "little", signed=True) + good[place + 4 :])
        place = good.find(size, place + 1)
    assert len(damaged) > 2
    refused = 0
    for content in damaged:
        (tmp_path / "x.arrow").write_bytes(content)
        try:
            load_vectors(tmp_path / "x.arrow")
        except EigenmapError as error:
            assert "x.arrow" in str(error)
            refused += 1
    assert refused >= 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
@pytest.mark.parametrize("width", [1, 3, 8])
def test_rows_have_equal_keys_if_they_are_equal(dtype: type, width: int) -> None:
    rows = np.random.default_rng(0).integers(-2, 3, size=(40_000, width)).astype(dtype)
    keys = load_vectors(rows).row_keys()
    _, numbers = np.unique(rows, axis=0, return_inverse=True)
    assert len(np.unique(keys)) == numbers.max() + 1 == len(np.unique(np.stack([numbers.ravel(), keys]), axis=1).T)
