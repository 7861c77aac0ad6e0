from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.released import read_nus_wide
from tests.data.images.released.miniatures import write_nus_wide


def test_the_most_frequent_concepts_in_the_order_of_the_list(tmp_path: Path) -> None:
    write_nus_wide(tmp_path)
    found = read_nus_wide(tmp_path, classes=2)
    assert found.gallery.labels.names == ["sky", "person"]
    assert found.gallery.labels.rows() == [["sky", "person"], ["sky"]] and len(found.queries) == 1
    assert [file.parent.name for file in found.gallery.files] == ["sky", "sky"]
    whole = read_nus_wide(tmp_path)  # fewer concepts than 21: all
    assert whole.gallery.labels.names == ["sky", "dog", "person", "tree"] and len(whole.gallery) == 4


def test_incomplete_sets(tmp_path: Path) -> None:
    write_nus_wide(tmp_path)
    labels = tmp_path / "Groundtruth" / "TrainTestLabels" / "Labels_dog_Test.txt"
    labels.write_text("0\n")
    with pytest.raises(EigenmapError, match=r"Labels_dog_Test.txt is damaged \(it has 1 lines for 2"):
        read_nus_wide(tmp_path)
    labels.write_text("0\n2\n")
    with pytest.raises(EigenmapError, match="neither 0 nor 1"):
        read_nus_wide(tmp_path)
    labels.unlink()
    with pytest.raises(EigenmapError, match=r"Labels_dog_Test.txt .*exist: .*Flickr/CONCEPT"):
        read_nus_wide(tmp_path)
