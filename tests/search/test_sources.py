"""Images of two folders with the same name are two items, and the same folder added again is noticed."""

import json
from pathlib import Path

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.adding import Added, add
from eigenmap.search.columns import Columns
from eigenmap.search.sources import Sources, place_of

K = 6
FILES = ["IMG_1.jpg", "IMG_2.jpg", "IMG_3.jpg"]


def codes(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


def put(index, place, files, seed, **options):
    return add(index, place, files, codes(len(files), seed), **options)._replace(source="")


@pytest.fixture
def index(tmp_path):
    """An index of camera1, as `eigenmap index` makes it."""
    made = CodeIndex(K, where=tmp_path / "an.index")
    made.add(codes(3), FILES)
    made.backend.directory.write_note("sources", Sources().with_source(tmp_path / "camera1")[0].as_json())
    return made


def test_another_folder_keeps_its_images_beside_the_first(index, tmp_path):
    """Of old, 40 photos of two cameras became 20, in silence."""
    files = [*FILES, "IMG_4.jpg"]
    assert put(index, tmp_path / "camera2", files, 1) == Added(added=4, renamed=3)
    assert index.ids == [*FILES, *(f"camera2/{name}" for name in FILES), "IMG_4.jpg"]
    np.testing.assert_array_equal(index.codes(FILES), codes(3))
    np.testing.assert_array_equal(index.codes(index.ids[3:]), codes(4, 1))
    assert index.metadata(["camera2/IMG_1.jpg", "IMG_4.jpg", "IMG_1.jpg"]) == [
        {"source": "camera2", "file": "IMG_1.jpg"},
        {"source": "camera2"},
        {},
    ]
    again = CodeIndex.open(tmp_path / "an.index")
    assert put(again, tmp_path / "camera2", [*files, "IMG_5.jpg"], 2) == Added(added=1, kept=4)
    assert put(again, tmp_path / "camera1", [*FILES, "IMG_4.jpg"], 3) == Added(added=1, renamed=1, kept=3)
    assert again.ids[-2:] == ["IMG_5.jpg", "camera1/IMG_4.jpg"] and len(again) == 9
    assert put(again, tmp_path / "camera1", [*FILES, "IMG_4.jpg"], 3) == Added(kept=4)


def test_images_are_replaced_only_when_asked(index, tmp_path):
    put(index, tmp_path / "camera2", FILES, 1)
    assert put(index, tmp_path / "camera2", FILES, 2, replace=True) == Added(replaced=3)
    np.testing.assert_array_equal(index.codes([f"camera2/{name}" for name in FILES]), codes(3, 2))
    np.testing.assert_array_equal(index.codes(FILES), codes(3))
    assert put(index, tmp_path / "moved" / "camera1", [*FILES, "new.jpg"], 3, replace=True) == Added(1, 0, 3, 0)
    np.testing.assert_array_equal(index.codes([*FILES, "new.jpg"]), codes(4, 3))
    assert len(index) == 7


def test_what_belongs_to_replaced_images_is_stored_after_their_codes(index, tmp_path):
    """So that an image whose new code cannot be written keeps its old picture."""
    stored = []

    def store(ids, rows):
        there = [float(code[0]) for code in index.codes([name for name in ids if name in set(index.ids)])]
        stored.append((ids, rows, there))

    add(index, tmp_path / "camera1", [*FILES[:2], "new.jpg"], codes(3, 5), replace=True, store=store)
    assert stored == [(["new.jpg"], [2], []), (FILES[:2], [0, 1], [float(code[0]) for code in codes(3, 5)[:2]])]
    wrong = np.full((1, K), np.nan, np.float32)
    with pytest.raises(EigenmapError):
        add(index, tmp_path / "camera1", FILES[:1], wrong, replace=True, store=store)
    assert len(stored) == 2


def test_what_is_known_of_items_is_found_without_their_codes(index, tmp_path, monkeypatch):
    """A folder that is added again would else need as much memory as all of its codes."""
    put(index, tmp_path / "camera2", FILES, 1)
    monkeypatch.delattr(Columns, "take")
    assert index.backend.known(["IMG_1.jpg", "none", "camera2/IMG_2.jpg"]) == {
        "IMG_1.jpg": {},
        "camera2/IMG_2.jpg": {"source": "camera2", "file": "IMG_2.jpg"},
    }
    assert put(index, tmp_path / "camera2", FILES, 1) == Added(kept=3)


def test_folders_of_one_name_are_told_apart(index, tmp_path):
    put(index, tmp_path / "a" / "DCIM", FILES, 1)
    put(index, tmp_path / "b" / "DCIM", FILES, 2)
    assert index.ids[3:] == [f"{name}/{file}" for name in ("DCIM", "DCIM-2") for file in FILES]
    assert put(index, tmp_path / "b" / "DCIM", FILES, 2) == Added(kept=3)
    assert put(index, tmp_path / "a" / "DCIM", FILES, 2) == Added(kept=3)


def test_a_name_that_looks_like_another_source_is_not_confused_with_it(index, tmp_path):
    odd = ["IMG_1.jpg", "camera2/IMG_1.jpg"]
    assert put(index, tmp_path / "camera2", odd, 1) == Added(added=2, renamed=1)
    assert index.ids[3:] == ["camera2-2/IMG_1.jpg", "camera2/IMG_1.jpg"]
    assert put(index, tmp_path / "camera2", odd, 1) == put(index, tmp_path / "camera2", odd[::-1], 1) == Added(kept=2)
    assert put(index, tmp_path / "camera1", odd, 1) == Added(added=1, renamed=1, kept=1)
    assert put(index, tmp_path / "camera1", odd, 1) == Added(kept=2)
    assert len(index) == 6


def test_an_index_that_does_not_know_its_first_source_keeps_everything(tmp_path):
    index = CodeIndex(K, where=tmp_path / "old.index")
    index.add(codes(3), FILES)
    assert put(index, tmp_path / "camera2", FILES, 1) == Added(added=3, renamed=3)
    assert put(index, tmp_path / "camera2", FILES, 1) == Added(kept=3)
    assert put(index, tmp_path / "camera2", FILES, 1, replace=True) == Added(replaced=3)
    assert json.loads((tmp_path / "old.index" / "sources.json").read_text())["sources"] == [
        [None, None],
        ["camera2", str(tmp_path / "camera2")],
    ]
    assert add(index, tmp_path / "camera3", FILES, codes(3)).source == "camera3"


@pytest.mark.parametrize("options", [{}, {"precision": "int8"}, {"precision": "signs", "bytes_per_item": 1}])
def test_an_index_that_does_not_know_its_first_source_may_recognise_it(tmp_path, options):
    """So that a command that adds new photos of one folder every night goes on as before."""
    index = CodeIndex(K, where=tmp_path / "old.index", **options)
    files = [f"{n}.jpg" for n in range(40)]
    index.add(codes(40), files)
    more = np.concatenate([codes(40), codes(2, 5)])
    changed = add(index, tmp_path / "camera1", [*files, "new.jpg", "newer.jpg"], more)
    if "bytes_per_item" in options:  # too rough to tell
        assert changed == Added(added=42, renamed=40, source="camera1")
    else:
        assert changed == Added(added=2, kept=40, source="camera1")
        assert index.ids == [*files, "new.jpg", "newer.jpg"]
        assert put(index, tmp_path / "camera2", files, 7) == Added(added=40, renamed=40)


def test_what_was_deleted_comes_back_under_the_id_it_had_or_a_free_one(index, tmp_path):
    put(index, tmp_path / "camera2", FILES, 1)
    index.delete(["IMG_1.jpg"])
    assert put(index, tmp_path / "camera2", FILES, 1) == Added(kept=3)  # no second copy under the free name
    assert put(index, tmp_path / "camera1", FILES, 1) == Added(added=1, kept=2)
    assert sorted(index.ids) == sorted([*FILES, *(f"camera2/{name}" for name in FILES)])


def test_a_place_is_a_folder_or_a_file_of_many_images(tmp_path):
    (tmp_path / "one.jpg").write_text("")
    (tmp_path / "many.npz").write_text("")
    assert place_of(tmp_path / "one.jpg") == place_of(tmp_path) == tmp_path.resolve()
    assert place_of(tmp_path / "many.npz") == tmp_path.resolve() / "many.npz"
    (tmp_path / "link").symlink_to(tmp_path)
    assert place_of(tmp_path / "link" / "." / "x") == tmp_path.resolve() / "x"


def test_a_damaged_note_is_named(index, tmp_path):
    (tmp_path / "an.index" / "sources.json").write_text("[")
    with pytest.raises(EigenmapError, match=r"an\.index/sources\.json.*damaged"):
        put(index, tmp_path / "camera2", FILES, 1)
    assert len(index) == 3
    for note in ({}, {"sources": 3}, {"sources": [[1]]}):
        with pytest.raises(EigenmapError, match=r"sources\.json.*damaged"):
            Sources.from_json(note)
    assert Sources.from_json(Sources().with_source(Path("a"))[0].as_json()) == Sources().with_source(Path("a"))[0]
