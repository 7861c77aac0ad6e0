from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.released import RELEASED, read_released
from tests.data.images.released import miniatures


def test_sets_by_name(tmp_path: Path) -> None:
    miniatures.write_voc(tmp_path)
    found = read_released("voc2012", tmp_path)
    assert len(found.gallery) == 3 and len(found.queries) == 2
    drawn = found.gallery.drawn(2, seed=1)
    assert len(drawn) == len(drawn.labels) == 2 and found.gallery.drawn(3, seed=1) is found.gallery
    assert drawn.files == found.gallery.drawn(2, seed=1).files
    with pytest.raises(EigenmapError, match=r"'imagenet'.*coco, nus-wide"):
        read_released("imagenet", tmp_path)


@pytest.mark.parametrize("name", RELEASED)
def test_a_folder_that_is_not_there_is_told_the_layout(name: str, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=rf"gone .*exist.*{RELEASED[name].layout.name}.*jpg"):
        read_released(name, tmp_path / "gone")
