from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.reproduce import load_sets
from eigenmap.reproduce.searches import check_searches, load_search, load_searches, own_search, parse_searches
from tests.data.images.released.miniatures import write_coco, write_voc


def test_released_sets_are_read_at_the_size_of_the_scale(tmp_path: Path) -> None:
    write_coco(tmp_path)
    search = load_search("coco", tmp_path, "paper")
    assert search.top == 5000 and search.gallery.pixels.shape == (4, 3, 256, 256)
    query, gallery = search.truth()
    assert query.int().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert gallery.int().tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 1], [1, 1, 0]]
    assert load_search("coco", tmp_path, "tiny").gallery.size == 16


def test_own_images_or_those_asked_for(tmp_path: Path) -> None:
    sets = load_sets("tiny", None)
    (own,) = load_searches("tiny", sets, [], 10)
    assert own.name == "own" and own.gallery is sets.train and own.top == own_search(sets, 10).top
    write_voc(tmp_path)
    (voc,) = load_searches("tiny", sets, [f"voc2012={tmp_path}"], 10)
    assert voc.name == "voc2012" and voc.top == 100 and len(voc.queries) == 2
    with pytest.raises(EigenmapError, match=r"search=, such as coco=DIR"):
        check_searches("paper", [])
    assert check_searches("tiny", []) == {}
    (checked,) = check_searches("paper", [f"voc2012={tmp_path}"]).values()
    assert (len(checked.gallery), len(checked.queries)) == (3, 2)


@pytest.mark.parametrize(
    ("given", "words"), [(["coco"], "NAME=DIR"), (["cifar=x"], "cifar"), (["coco=a", "coco=b"], "twice")]
)
def test_what_cannot_be_searched(given: list[str], words: str) -> None:
    with pytest.raises(EigenmapError, match=words):
        parse_searches(given)
