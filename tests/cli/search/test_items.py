from __future__ import annotations

import shutil
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap
from eigenmap.cli.search.items import AnyItems, CodeItems, ImageItems, Items, open_items
from eigenmap.core.errors import EigenmapError
from eigenmap.data import load_images
from eigenmap.embedding import embed_images
from eigenmap.embedding.blocks import Encoding
from eigenmap.service.thumbnails import encode


def items_of(model_dir: Path, source: Path, dim: int = 8, pictures: bool = False, strict: bool = False) -> AnyItems:
    how = Encoding(dim, batch_size=4, strict=strict)
    return open_items(Eigenmap.load(model_dir), source, how, pictures=pictures, quiet=True)


def together(items: AnyItems) -> Items:
    ids, codes, metadata, pictures = zip(*items, strict=True)
    return Items([*chain(*ids)], np.concatenate(codes), [*chain(*metadata)], [*chain(*pictures)])


def test_images_and_their_stored_codes_are_the_same_items(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    fresh = items_of(model_dir, photos, pictures=True)
    assert isinstance(fresh, ImageItems)
    found, loaded = together(fresh), load_images(photos, 16, 3)
    assert found.ids == loaded.ids
    np.testing.assert_allclose(found.codes, Eigenmap.load(model_dir).encode(loaded), atol=1e-6)
    assert found.metadata == [{"label": name.split("/")[0]} for name in loaded.ids]
    assert found.pictures == [encode(pixels) for pixels in loaded.pixels.numpy()]
    assert (fresh.count, fresh.skipped, fresh.several_labels) == (15, loaded.skipped, False)
    for out in ("codes", "codes.npy", "codes.npz", "codes.parquet"):
        embed_images(model_dir, photos, tmp_path / out)
        stored = items_of(model_dir, tmp_path / out, dim=3, pictures=True)
        assert isinstance(stored, CodeItems)
        again = together(stored)
        assert (again.ids, again.metadata, again.pictures) == (found.ids, [{}] * 15, [])
        cut = found.codes[:, :3]
        np.testing.assert_allclose(again.codes, cut / np.linalg.norm(cut, axis=1, keepdims=True), atol=1e-6)


def test_nothing_is_left_out_where_that_is_forbidden(model_dir: Path, photos: Path) -> None:
    with pytest.raises(EigenmapError, match=r"disc/broken\.jpg"):
        list(items_of(model_dir, photos, strict=True))


def test_folders_that_cannot_be_opened_are_said(model_dir: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    scandir = os.scandir

    def guarded(path: Path | int) -> object:
        if not isinstance(path, int) and Path(path).name == "bars":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    items = items_of(model_dir, photos)
    assert isinstance(items, ImageItems) and len(together(items).ids) == items.count == 10
    assert ("bars", "Permission denied") in items.skipped
    with pytest.raises(EigenmapError, match=r"bars.*Permission denied"):
        list(items_of(model_dir, photos, strict=True))


def test_images_that_come_and_go_meanwhile(
    model_dir: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigenmap.embedding.job.SHARD_SIZE", 4)
    source = shutil.copytree(photos, tmp_path / "photos")
    names = load_images(source, 16, 3).ids
    items = items_of(model_dir, source)
    assert isinstance(items, ImageItems)
    parts = iter(items)
    found = [next(parts)]
    shutil.copy(source / names[0], source / "zzz.png")
    (source / names[-1]).unlink()
    found += parts
    assert [name for part in found for name in part.ids] == names[:-1]
    assert all(
        known["label"] == name.split("/")[0]
        for part in found
        for name, known in zip(part.ids, part.metadata, strict=True)
    )
    assert (names[-1], "No such file or directory") in items.skipped
