"""NumPy's files: what is read, and what is refused before anything is allocated."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenmap import EigenmapError
from eigenmap.data.npy import open_npy, open_npz, read_npy
from tests.robustness.damage import npy

ARRAYS: dict[str, Any] = {
    "floats": np.arange(12, dtype=np.float32).reshape(3, 4),
    "turned": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "swapped": np.arange(5, dtype=">i4"),
    "bools": np.array([True, False]),
    "texts": np.array(["a", "Жé"]),
    "swapped texts": np.array(["a", "Жé"]).astype(">U2"),
    "bytes": np.array([b"a", b"bc"]),
    "number": np.array(3.5),
    "nothing": np.empty((0, 4)),
    "no texts": np.empty(0, "<U3"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back(name: str, tmp_path: Path) -> None:
    array = ARRAYS[name]
    np.save(tmp_path / "a.npy", array)
    with (tmp_path / "a.npy").open("rb") as stream:
        whole = read_npy(stream)
    for found in (open_npy(tmp_path / "a.npy"), open_npy(tmp_path / "a.npy", "c"), whole):
        assert found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", first=np.zeros(2), **{name: array})
        with open_npz(tmp_path / "a.npz") as arrays:
            assert arrays.names == ["first", name] and arrays.shape(name) == array.shape
            assert arrays[name].dtype == array.dtype and np.array_equal(arrays[name], array)


def test_files_are_mapped_and_stay_as_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(5))
    assert isinstance(open_npy(tmp_path / "a.npy"), np.memmap)
    private = open_npy(tmp_path / "a.npy", "c")
    private[:] = 1
    assert not np.load(tmp_path / "a.npy").any()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_headers_of_every_version_and_of_python_2(version: tuple[int, int], tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }"
    (tmp_path / "a.npy").write_bytes(npy(header, np.arange(6, dtype=np.float32).tobytes(), version))
    assert open_npy(tmp_path / "a.npy").tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("(-1,)", "its shape"),
        ("(-1, -2)", "its shape"),
        ("(True,)", "its shape"),
        ("(2.0,)", "its shape"),
        ("'abc'", "its shape"),
        ("(1000000000000000, 3)", "12,000,000,000,000,000 .*24"),
        (f"({2**62}, {2**62})", "bytes.*24"),
        ("(7,)", "28 bytes.*24"),
        ("(3,", "describe"),
        ("(3,))", "describe"),
        ("__import__('os').getpid()", "describe"),
    ],
)
def test_shapes_that_cannot_be(shape: str, reason: str, tmp_path: Path) -> None:
    content = npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}", bytes(24))
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(EigenmapError, match=rf"a\.npy.*NumPy.*{reason}"):
        open_npy(tmp_path / "a.npy")
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", kind) as archive:
            archive.writestr("x.npy", content)
        with open_npz(tmp_path / "a.npz") as arrays, pytest.raises(EigenmapError, match=rf"a\.npz.*{reason}"):
            arrays["x"]


def test_objects_are_refused_without_advice_to_execute_them(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(EigenmapError, match="Python objects") as caught:
        open_npy(tmp_path / "a.npy")
    assert "allow_pickle" not in str(caught.value)


def test_characters_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    content = npy("{'descr': '<U1', 'fortran_order': False, 'shape': (2,), }", b"\x7f" * 8)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(EigenmapError, match="characters"):
        open_npy(tmp_path / "a.npy")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_without_bounds_is_refused(method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.writestr("x.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", bytes(8)))
    with open_npz(tmp_path / "a.npz") as arrays, pytest.raises(EigenmapError, match="compressed"):
        arrays["x"]


@pytest.mark.parametrize("field", [6, 8, 18, 22])
def test_a_directory_that_lies(field: int, tmp_path: Path) -> None:
    """Flags (encrypted), method, packed and unpacked size of the first member, in both of the places they are in."""
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(1000))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    for place in (content.index(b"PK\x03\x04") + field, content.index(b"PK\x01\x02") + field + 2):
        content[place] |= 1
        if field > 8:
            content[place + 2] = 0xFF
    (tmp_path / "a.npz").write_bytes(content)
    with (
        pytest.raises(EigenmapError, match=r"a\.npz.*NumPy"),
        open_npz(tmp_path / "a.npz") as a,
    ):
        a["x"]


def test_a_name_that_is_not_there_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    with open_npz(tmp_path / "a.npz") as arrays, pytest.raises(EigenmapError, match="array y"):
        arrays["y"]
