from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.released import read_voc
from tests.data.images.released.miniatures import write_voc


def test_labels_are_the_objects_and_not_their_parts(tmp_path: Path) -> None:
    write_voc(tmp_path)
    voc = read_voc(tmp_path)
    assert voc.gallery.labels.rows() == [["dog"], ["cat", "person"], ["dog"]]
    assert voc.queries.labels.rows() == [["person"], ["cat"]] and voc.queries.labels.n_classes == 20


def test_incomplete_and_damaged_sets(tmp_path: Path) -> None:
    write_voc(tmp_path)
    home = tmp_path / "VOCdevkit" / "VOC2012"
    file = home / "Annotations" / "2008_val000001.xml"
    good = file.read_text()
    for bad, words in (
        (good[:-5], "is damaged"),
        (good.replace("cat", "unicorn"), "unknown class 'unicorn'"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>' + good, "declarations"),
    ):
        file.write_text(bad)
        with pytest.raises(EigenmapError, match=words):
            read_voc(tmp_path)
    file.unlink()
    with pytest.raises(EigenmapError, match=r"000001.xml .*exist: .*ImageSets/Main/train.txt"):
        read_voc(tmp_path)
    (home / "JPEGImages" / "2008_train000000.jpg").unlink()
    with pytest.raises(EigenmapError, match=r"1 of 3 images of PASCAL VOC 2012"):
        read_voc(tmp_path)
