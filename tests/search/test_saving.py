import errno
import shutil
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap
from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.backend import IndexSpec, ItemBatch
from eigenmap.search.open_folder import OpenFolder
from eigenmap.search.saving import joined
from tests.search.building import build_index

K = 12
MODEL = Path(__file__).parents[1] / "compatibility" / "v0_1" / "graph" / "model"


def batches(sizes):
    rng, start = np.random.default_rng(0), 0
    for size in sizes:
        ids = list(range(start, start + size))
        yield ItemBatch(ids, rng.standard_normal((size, K)).astype(np.float32), [{"n": n} for n in ids])
        start += size


def test_batches_are_joined_until_they_are_large_enough():
    assert [len(batch.ids) for batch in joined(batches([3, 4, 5, 9, 1]), rows=7)] == [7, 14, 1]
    assert [len(batch.ids) for batch in joined(batches([3, 4]), rows=7)] == [7]
    assert list(joined([])) == []


@pytest.mark.parametrize("options", [{}, {"precision": "bits", "bytes_per_item": 4}, {"precision": "int8"}])
def test_a_stream_becomes_what_adding_it_makes(tmp_path, options):
    assert build_index(IndexSpec(K, **options), batches([5, 300, 40]), tmp_path / "a") == 345
    built, added = CodeIndex.open(tmp_path / "a"), CodeIndex(K, **options)
    (whole,) = joined(batches([5, 300, 40]))
    added.add(whole.codes, whole.ids, whole.metadata)
    assert built.ids == added.ids and built.metadata([7]) == [{"n": 7}]
    np.testing.assert_array_equal(built.codes(built.ids), added.codes(added.ids))
    queries = np.random.default_rng(1).standard_normal((4, K))
    assert built.search(queries).ids == added.search(queries).ids


def test_a_stream_that_breaks_off_leaves_nothing(tmp_path):
    def broken():
        yield from batches([60_000])
        raise EigenmapError("gone")

    with pytest.raises(EigenmapError, match="gone"):
        build_index(IndexSpec(K), broken(), tmp_path / "a")
    with pytest.raises(EigenmapError, match="no codes"):
        build_index(IndexSpec(K), [], tmp_path / "a")
    twice = [*batches([3]), *batches([3])]
    with pytest.raises(EigenmapError, match=r"id 0.*twice"):
        build_index(IndexSpec(K), twice, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_told_in_a_sentence(tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device", source, None, target)

    shutil.copytree(MODEL, tmp_path / "model")
    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(EigenmapError, match=r"/a .*No space left"):
        build_index(IndexSpec(K), batches([3]), tmp_path / "a", overwrite=False, model_dir=tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_disk_that_fills_up_is_told_of_the_index_and_not_of_a_hidden_folder(tmp_path, monkeypatch):
    append = OpenFolder.append

    def full(folder, name, *given):
        if name == "ids.bin":
            raise OSError(errno.ENOSPC, "No space left on device", name)
        append(folder, name, *given)

    monkeypatch.setattr(OpenFolder, "append", full)
    with pytest.raises(EigenmapError, match=rf"^{tmp_path}/a/ids\.bin cannot be written: No space left"):
        build_index(IndexSpec(K), batches([3]), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_of_a_run_only_the_model_is_kept(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(MODEL, run)
    (run / "tensorboard").mkdir()
    (run / "checkpoint.pt").write_text("state")
    index = CodeIndex(K)
    index.add(np.ones((1, K)), [0])
    index.save(tmp_path / "a", model_dir=run)
    assert sorted(file.name for file in (tmp_path / "a" / "model").iterdir()) == ["model.json", "model.safetensors"]


def test_a_model_that_did_not_make_the_codes_is_refused(tmp_path):
    """As after a `fit --force` while the images were encoded: codes of one model beside another would find nothing."""
    stream, fingerprint = list(batches([3])), Eigenmap.fingerprint(MODEL)
    build_index(IndexSpec(K, fingerprint=fingerprint), stream, tmp_path / "a", model_dir=MODEL)
    assert Eigenmap.fingerprint(tmp_path / "a" / "model") == fingerprint
    other = CodeIndex(K, fingerprint="0" * 64)
    other.add(np.ones((1, K)), [0])
    for write in (
        lambda: build_index(other.about, stream, tmp_path / "b", model_dir=MODEL),
        lambda: other.save(tmp_path / "b", model_dir=MODEL),
    ):
        with pytest.raises(EigenmapError, match=f"{fingerprint[:12]}.*000000000000"):
            write()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
