"""What a newcomer tries first in Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import eigenmap as em
from eigenmap.data import load_images
from tests.end_to_end.photos import pictures, write_photos


@pytest.fixture(scope="module")
def model() -> em.Eigenmap:
    return em.fit_images(pictures(40), 4, steps=2, batch_size=16, hidden=16, device="cpu", progress=False)


def test_files_lists_of_files_and_folders_are_encoded(model: em.Eigenmap, tmp_path: Path) -> None:
    names = write_photos(tmp_path, per_kind=3)
    codes = model.encode(load_images(tmp_path, size=16, channels=3))
    assert np.array_equal(model.encode(tmp_path), codes) and np.array_equal(model.encode(str(tmp_path)), codes)
    some = [names[4], names[0], names[4]]
    assert np.allclose(model.encode([tmp_path / name for name in some]), codes[[4, 0, 4]], atol=1e-6)
    assert np.allclose(model.encode([str(tmp_path / some[0])], 2), model.encode(tmp_path / some[0], 2), atol=1e-6)
    assert model.encode(tmp_path / some[0]).shape == (1, model.n_components)


def test_every_file_must_be_readable(model: em.Eigenmap, tmp_path: Path) -> None:
    names = write_photos(tmp_path, per_kind=1)
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    for given in (tmp_path, [tmp_path / names[0], tmp_path / "broken.jpg"], str(tmp_path / "broken.jpg")):
        with pytest.raises(em.EigenmapError, match=r"broken\.jpg"):
            model.encode(given)
    with pytest.raises(em.EigenmapError, match=r"nowhere\.jpg"):
        model.encode(str(tmp_path / "nowhere.jpg"))


def test_things_say_what_they_are(model: em.Eigenmap, tmp_path: Path) -> None:
    assert repr(model).startswith(f"Eigenmap(images of 16 x 16 x 3, n_components={model.n_components}, codes from ")
    assert repr(model).endswith(", 2 steps)")
    images = load_images(pictures(2))
    assert repr(images) == "ImageSet(2 images, 16 x 16 x 3)"
    index = em.CodeIndex(2, precision="float16", where=tmp_path / "i")
    index.add(np.eye(2)[:1], ["a"])
    assert (
        repr(index)
        == f"CodeIndex(1 item, n_components=2, metric='cosine', precision='float16', where='{tmp_path / 'i'}')"
    )


def test_an_index_takes_its_length_from_the_first_codes(tmp_path: Path) -> None:
    index = em.CodeIndex()
    assert len(index) == 0 and index.ids == [] and "empty" in repr(index)
    for early in (lambda: index.search(np.ones(3)), lambda: index.n_components, lambda: index.update(np.eye(3), "abc")):
        with pytest.raises(em.EigenmapError, match="empty"):
            early()
    index.add(np.eye(3), ["a", "b", "c"])
    assert index.n_components == 3 and index.search(np.eye(3)[1], top=1).ids == [["b"]]
    with pytest.raises(em.EigenmapError, match=r"2 features.*3"):
        index.add(np.eye(2), ["d", "e"])
    with em.CodeIndex(where=tmp_path / "later") as later:
        assert not (tmp_path / "later").exists()
        later.upsert(np.eye(3), [1, 2, 3])
    assert len(em.CodeIndex.open(tmp_path / "later")) == 3
    with pytest.raises(em.EigenmapError, match="metric"):
        em.CodeIndex(metric="taxicab")
    em.CodeIndex().close()


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "eigenmap", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"eigenmap {em.__version__}\n"


def test_things_of_another_kind_are_refused_in_a_sentence(model: em.Eigenmap, tmp_path: Path) -> None:
    for nothing in (None, 5, b"index"):
        with pytest.raises(em.EigenmapError, match="where must be a path"):
            em.CodeIndex.open(nothing)  # type: ignore[arg-type]
    with pytest.raises(em.EigenmapError, match="x must be a tensor, not ndarray; load_graph"):
        em.Graph(np.eye(3))  # type: ignore[arg-type]
    with pytest.raises(em.EigenmapError, match="edge_index must be a tensor, not list; load_graph"):
        em.Graph(torch.eye(3), [[0], [1]])  # type: ignore[arg-type]


def test_a_model_is_not_saved_into_an_index(model: em.Eigenmap, tmp_path: Path) -> None:
    em.CodeIndex(2, where=tmp_path / "index").add(np.eye(2), ["a", "b"])
    before = sorted(path.name for path in (tmp_path / "index").iterdir())
    with pytest.raises(em.EigenmapError, match="is an index"):
        model.save(tmp_path / "index")
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == before
