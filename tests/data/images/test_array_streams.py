from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from eigenmap import EigenmapError
from eigenmap.data import ImageSet, load_images
from eigenmap.data.images import array_streams
from eigenmap.data.images.rows import decoded
from eigenmap.data.images.stream import open_stream
from tests.data.images.streams import assert_same_as_loaded
from tests.end_to_end.photos import pictures


@pytest.mark.parametrize("size", [5, 100])
def test_arrays(tmp_path: Path, size: int) -> None:
    np.save(tmp_path / "a.npy", pictures(12, size=20).transpose(0, 3, 1, 2))
    np.savez(tmp_path / "a.npz", images=pictures(12, size=20))
    assert_same_as_loaded(tmp_path / "a.npy", size)
    assert_same_as_loaded(tmp_path / "a.npz", size)


def test_images_in_memory() -> None:
    array = pictures(7, size=20)
    for source in (array, torch.from_numpy(array), [Image.fromarray(image) for image in array], list(array)):
        assert_same_as_loaded(source, 3)
    assert_same_as_loaded(load_images(array[..., :1]), 2)
    named = ImageSet(load_images(array).pixels, list("abcdefg"), skipped=[("h", "empty file")])
    assert open_stream(named).survey().skipped == named.skipped
    assert_same_as_loaded(named, 3)


def test_what_is_wrong_with_an_array_names_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", 2.0 * pictures(3))
    (shard,) = open_stream(tmp_path / "a.npy").shards(5)
    with pytest.raises(EigenmapError, match=r"a\.npy: float images.*in \[0, 1\]"):
        list(decoded(shard.rows, 8, 3, workers=1))
    np.save(tmp_path / "a.npy", np.zeros((3, 7)))
    with pytest.raises(EigenmapError, match=r"a\.npy.*\(3, 7\)"):
        open_stream(tmp_path / "a.npy").survey()


def test_large_arrays_are_converted_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", pictures(7, size=20))
    whole = load_images(tmp_path / "a.npy", size=9).pixels
    monkeypatch.setattr("eigenmap.data.images.array_streams._BLOCK_BYTES", 2 * 20 * 20 * 3)
    seen: list[int] = []
    convert = array_streams.to_pixels
    monkeypatch.setattr(array_streams, "to_pixels", lambda x, *shape: seen.append(len(x)) or convert(x, *shape))
    assert torch.equal(load_images(tmp_path / "a.npy", size=9).pixels, whole)
    assert seen == [2, 2, 2, 1]


def test_so_has_a_changed_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", pictures(4))
    before = open_stream(tmp_path / "a.npy").survey()
    np.save(tmp_path / "a.npy", pictures(4, seed=1))
    after = open_stream(tmp_path / "a.npy").survey()
    assert after.count == before.count and after.digest != before.digest
