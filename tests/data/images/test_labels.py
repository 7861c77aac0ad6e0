from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data import Labels, labels_from_csv, labels_from_folders
from eigenmap.data.images import labels


def rows(found: Labels | None) -> list[set[str]]:
    assert found is not None
    return [{found.names[c] for c in row.nonzero()[:, 0].tolist()} for row in found.matrix]


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# --- Labels ------------------------------------------------------------------------------------------------------


def test_names_one_or_several() -> None:
    assert rows(Labels.from_names(["b", "a", "b"])) == [{"b"}, {"a"}, {"b"}]
    assert rows(Labels.from_names([["b", "a"], [], ["a"]])) == [{"a", "b"}, set(), {"a"}]


def test_integers() -> None:
    found = Labels.from_integers([10, 2, -1, 2])
    assert found.names == ["2", "10"]
    assert rows(found) == [{"10"}, {"2"}, set(), {"2"}]
    assert rows(Labels.from_integers(torch.tensor([1, 0]), ["cat", "dog"])) == [{"dog"}, {"cat"}]
    assert Labels.from_integers(np.array([1, 1], np.uint8), ["cat", "dog"]).n_classes == 2
    with pytest.raises(EigenmapError, match="label 2"):
        Labels.from_integers([0, 2], ["cat", "dog"])
    with pytest.raises(EigenmapError, match="integer"):
        Labels.from_integers([0.5, 1.0])


def test_arrays_of_any_kind() -> None:
    assert rows(Labels.from_array(np.array([[3], [1]]))) == [{"3"}, {"1"}]
    assert rows(Labels.from_array(np.array(["x", "y"]))) == [{"x"}, {"y"}]
    assert rows(Labels.from_array(np.array([b"x", b"y"]))) == [{"x"}, {"y"}]
    assert rows(Labels.from_array([["x", "y"], []])) == [{"x", "y"}, set()]
    assert rows(Labels.from_array(torch.eye(3)[[2, 0]])) == [{"2"}, {"0"}]
    assert rows(Labels.from_array(np.array([[True], [False]]))) == [{"0"}, set()]
    with pytest.raises(EigenmapError, match="integer"):
        Labels.from_array(np.full((3, 2), 7))


def test_back_to_integers() -> None:
    assert Labels.from_integers([2, -1, 0], ["a", "b", "c"]).to_integers().tolist() == [2, -1, 0]
    assert Labels.from_names([[], []]).to_integers().tolist() == [-1, -1]
    with pytest.raises(EigenmapError, match="several labels"):
        Labels.from_names([["a", "b"]]).to_integers()


def test_relevance_is_sharing_a_class_by_name() -> None:
    query = Labels.from_names([["cat"], ["dog", "fish"], ["newt"], []])
    gallery = Labels.from_names([["dog"], ["ant", "cat"], ["fish", "cat"], [], ["bee"]])
    expected = [[bool(q & g) for g in rows(gallery)] for q in rows(query)]
    assert query.relevant(gallery).tolist() == expected
    assert query.subset(torch.tensor([1])).relevant(gallery).tolist() == expected[1:2]


def test_shape_and_names_must_fit() -> None:
    with pytest.raises(EigenmapError, match=r"name.*class"):
        Labels(torch.zeros(3, 2, dtype=torch.bool), ["a"])


# --- class folders -----------------------------------------------------------------------------------------------


def test_class_folders() -> None:
    found = labels_from_folders(["cat/a.jpg", "cat/deep/er/b.jpg", "ängström/c.jpg"])
    assert rows(found) == [{"cat"}, {"cat"}, {"ängström"}]


@pytest.mark.parametrize("ids", [[], ["0", "1"], ["a.jpg", "cat/b.jpg"]])
def test_no_class_folders(ids: list[str]) -> None:
    assert labels_from_folders(ids) is None


# --- label files -------------------------------------------------------------------------------------------------


def test_csv_by_path_by_name_and_with_several_labels(tmp_path: Path) -> None:
    path = table(tmp_path / "l.csv", 'file,labels\nx/a.jpg,cat dog\nb.jpg,fish\n./y\\a.jpg,\n"y/c, d.jpg",cat\n')
    found = labels_from_csv(path, ["x/a.jpg", "x/b.jpg", "y/a.jpg", "y/c, d.jpg"])
    assert rows(found) == [{"cat", "dog"}, {"fish"}, set(), {"cat"}]
    assert found.names == ["cat", "dog", "fish"]


def test_csv_from_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_bytes("\ufeffid, Labels ,File\r\n1,kött,bjo\u0308rn.jpg\r\n".encode())
    assert rows(labels_from_csv(path, ["björn.jpg"])) == [{"kött"}]


def test_csv_naming_missing_images(tmp_path: Path) -> None:
    path = table(tmp_path / "l.csv", "file,labels\na.jpg,x\n" + "".join(f"no{i}.jpg,x\n" for i in range(5)))
    with pytest.raises(EigenmapError, match=r"5 files \(no0\.jpg, no1\.jpg, no2\.jpg"):
        labels_from_csv(path, ["a.jpg"])
    path = table(tmp_path / "l.csv", "file,labels\na.jpg,x\nno.jpg,x\n")
    with pytest.raises(EigenmapError, match=r"1 file \(no\.jpg\)"):
        labels_from_csv(path, ["a.jpg"])


def test_csv_without_a_row_for_every_image(tmp_path: Path) -> None:
    path = table(tmp_path / "l.csv", "file,label\na.jpg,x\n")
    with pytest.raises(EigenmapError, match=r"2 images \(b\.jpg, c\.jpg\)"):
        labels_from_csv(path, ["a.jpg", "b.jpg", "c.jpg"])
    assert rows(labels_from_csv(path, ["a.jpg", "b.jpg"], missing="unlabelled")) == [{"x"}, set()]


@pytest.mark.parametrize(
    ("text", "ids", "message"),
    [
        ("a.jpg,x\n", ["a.jpg"], "'file,labels'"),
        ("", ["a.jpg"], "'file,labels'"),
        ("file,colour\na.jpg,x\n", ["a.jpg"], "'file,labels'"),
        ("file,labels\na.jpg,x\n./a.jpg,y\n", ["a.jpg"], "rows.*a.jpg"),
        ("file,labels\nq/a.jpg,x\na.jpg,y\n", ["q/a.jpg"], "rows.*q/a.jpg"),
        ("file,labels\na.jpg,x\n", ["p/a.jpg", "q/a.jpg"], "2 images.*folder"),
        ("file,labels\n,x\n", ["a.jpg"], "line 2"),
        ("file,labels\na.jpg,cat,odd\n", ["a.jpg"], r"header.*a\.jpg"),
    ],
)
def test_csv_that_is_not_clear(tmp_path: Path, text: str, ids: list[str], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        labels_from_csv(table(tmp_path / "l.csv", text), ids)


def test_csv_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"absent\.csv.*No such file"):
        labels_from_csv(tmp_path / "absent.csv", [])
    (tmp_path / "l.csv").write_bytes(b"file,labels\n\xff\xfe\x00,x\n")
    with pytest.raises(EigenmapError, match=r"l\.csv.*read"):
        labels_from_csv(tmp_path / "l.csv", [])


def test_examples() -> None:
    assert doctest.testmod(labels).failed == 0


def test_rows_and_cells_without_anything_in_them_are_nothing(tmp_path: Path) -> None:
    found = labels_from_csv(table(tmp_path / "l.csv", "file,labels\na.jpg,cat,\n,\n\n"), ["a.jpg"])
    assert found.names == ["cat"]
