from __future__ import annotations

import builtins
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, load_images
from eigenmap.data.images.parquet import named_rows
from eigenmap.data.images.stream import open_stream


def png(value: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (16, 16), (value, value, value)).save(stream, "PNG")
    return stream.getvalue()


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def values(images: ImageSet) -> list[int]:
    return images.pixels[:, 0, 0, 0].tolist()


def labels(images: ImageSet) -> list[list[str]]:
    assert images.labels is not None
    return [[images.labels.names[c] for c in row.nonzero()[:, 0].tolist()] for row in images.labels.matrix]


def test_bytes_integers_and_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", name=["x", "y", "z"], label=[10, 2, -1], jpeg=[png(1), png(2), png(3)])
    images = load_images(path)
    assert (images.ids, values(images), images.channels) == (["x", "y", "z"], [1, 2, 3], 3)
    assert images.labels is not None
    assert images.labels.names == ["2", "10"]
    assert labels(images) == [["10"], ["2"], []]


def test_struct_column_lists_of_labels_and_missing_bytes(tmp_path: Path) -> None:
    image = [{"bytes": png(7), "path": "p"}, {"bytes": None, "path": "q"}, {"bytes": b"junk", "path": "r"}]
    image.append({"bytes": png(9), "path": "s"})
    path = write(tmp_path / "a.parquet", image=image, labels=[["cat", "dog"], ["cat"], [], None])
    images = load_images(path)
    assert (images.ids, values(images)) == (["a.parquet/0", "a.parquet/3"], [7, 9])
    assert labels(images) == [["cat", "dog"], []]
    assert [name for name, _ in images.skipped] == ["a.parquet/1", "a.parquet/2"]
    assert "image bytes" in images.skipped[0][1] and "damaged" in images.skipped[1][1]
    with pytest.raises(EigenmapError, match=r"a.parquet/1.*read"):
        load_images(path, strict=True)


@pytest.mark.parametrize("column", ["image", "img", "png", "bytes"])
def test_a_folder_and_a_list_of_files(tmp_path: Path, column: str) -> None:
    for part in range(3):
        write(tmp_path / f"{part}.parquet", **{column: [png(10 * part + row) for row in range(5)]})
    expected = [10 * part + row for part in range(3) for row in range(5)]
    images = load_images(tmp_path)
    assert (values(images), images.labels) == (expected, None)
    assert images.ids[5:7] == ["1.parquet/0", "1.parquet/1"]
    assert values(load_images([tmp_path / "1.parquet", tmp_path / "0.parquet"])) == expected[5:10] + expected[:5]


def test_images_in_a_folder_come_before_parquet(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", jpeg=[png(1)])
    (tmp_path / "b.png").write_bytes(png(2))
    assert values(load_images(tmp_path)) == [2]


def test_a_struct_called_img(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", img=[{"bytes": png(7), "path": "p"}], label=[3])
    assert (values(load_images(path)), labels(load_images(path))) == ([7], [["3"]])


@pytest.mark.parametrize(("column", "kind"), [(["photo.png"], "string"), ([3], "int64"), ([[1, 2]], "list<")])
def test_a_column_that_holds_no_bytes_is_no_column_of_images(column: Any, kind: str, tmp_path: Path) -> None:
    """Paths above all: whoever wrote the file would decide which files of this machine are opened."""
    (tmp_path / "photo.png").write_bytes(png(1))
    with pytest.raises(EigenmapError, match=f"bytes.*{kind}"):
        load_images(write(tmp_path / "a.parquet", image=column))
    # Bytes beside it are found.
    assert values(load_images(write(tmp_path / "b.parquet", image=column, bytes=[png(5)]))) == [5]


def test_labels_from_csv_by_id(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", id=np.array([31, 32]), jpeg=[png(1), png(2)])
    (tmp_path / "l.csv").write_text("file,labels\n32,x y\n31,x\n")
    assert labels(load_images(path, labels=tmp_path / "l.csv")) == [["x"], ["x", "y"]]


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"bytes.*id, width"):
        load_images(write(tmp_path / "a.parquet", id=[1], width=[2]))
    (tmp_path / "a.parquet").write_bytes(b"nonsense")
    with pytest.raises(EigenmapError, match="parquet file"):
        load_images(tmp_path / "a.parquet")
    write(tmp_path / "a.parquet", jpeg=[png(1)], label=[1])
    write(tmp_path / "b.parquet", image=[png(1)], label=[1])
    with pytest.raises(EigenmapError, match=r"b\.parquet.*'(jpeg|label)'.*a\.parquet"):
        load_images(tmp_path)
    write(tmp_path / "b.parquet", jpeg=[png(1)])
    with pytest.raises(EigenmapError, match=r"b\.parquet.*'(jpeg|label)'.*a\.parquet"):
        load_images(tmp_path)
    with pytest.raises(EigenmapError, match="no rows"):
        load_images(write(tmp_path / "c.parquet", jpeg=pa.array([], pa.binary())))


def test_without_pyarrow_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", jpeg=[png(1)])
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EigenmapError, match=r'pip install "eigenmap\[parquet\]"'):
        load_images(path)


def test_damage_between_the_ends_of_a_file_is_one_sentence(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(256, size=(20, 3000), dtype=np.uint8)
    path = write(tmp_path / "a.parquet", png=[row.tobytes() for row in noise], label=list(range(20)))
    whole = bytearray(path.read_bytes())
    whole[4:20_000] = bytes(len(whole[4:20_000]))
    path.write_bytes(whole)
    with pytest.raises(EigenmapError, match=r"a\.parquet.*read"):
        load_images(path)
    with pytest.raises(EigenmapError, match=r"a\.parquet.*read"):
        list(named_rows([path], 0, 20))


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ([0.0, math.nan, -1.0, None, 10.0, 2.0], [["0"], [], [], [], ["10"], ["2"]]),
        (["cat", "", None, "dog", "cat", "cat"], [["cat"], [], [], ["dog"], ["cat"], ["cat"]]),
        ([b"cat", b"", None, b"dog", b"cat", b"cat"], [["cat"], [], [], ["dog"], ["cat"], ["cat"]]),
        ([[2.0, 1.0], [], None, [math.nan], [-1.0], [10.0]], [["1", "2"], [], [], [], [], ["10"]]),
    ],
    ids=["floats", "texts", "bytes", "lists"],
)
def test_a_missing_negative_or_empty_label_is_no_class(
    given: list[object], known: list[list[str]], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.parquet", png=[png(k) for k in range(6)], label=given)
    (shard,) = open_stream(path).shards(10)
    assert shard.rows.labels() == known
    images = load_images(path)
    assert labels(images) == known and images.labels is not None
    numbers = [name for name in images.labels.names if name.isdigit()]
    assert numbers == sorted(numbers, key=int)


def test_labels_that_are_lists_of_lists_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", png=[png(1)], label=[[[1], [2]]])
    with pytest.raises(EigenmapError, match=r"label in a Parquet file must be .* not \[1\]"):
        load_images(path)
