from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenmap import Eigenmap, EigenmapError
from eigenmap.data import load_images
from eigenmap.embedding import embed_images
from eigenmap.embedding.shards import Codebook
from tests.end_to_end.photos import pictures


def gathered(folder: Path) -> tuple[list[str], np.ndarray]:
    shards = list(Codebook.open(folder))
    return [name for ids, _ in shards for name in ids], np.concatenate([codes for _, codes in shards])


def test_a_folder_of_shards(run: Path, model: Eigenmap, photos: Path, tmp_path: Path) -> None:
    ticks: list[tuple[int, int]] = []
    made = embed_images(
        run, photos, tmp_path / "codes", 5, shard_size=8, batch_size=3, progress=lambda *at: ticks.append(at)
    )
    assert made is not None
    assert (made.images, made.dim, made.kept) == (30, 5, 0)
    assert [name for name, _ in made.skipped] == ["disc/broken.jpg"]
    ids, codes = gathered(tmp_path / "codes")
    images = load_images(photos, size=16, channels=3)
    assert ids == images.ids
    np.testing.assert_allclose(codes, model.encode(images, 5), atol=1e-5)
    assert ticks[-1] == (31, 31) and ticks == sorted(ticks)
    assert len(list((tmp_path / "codes").glob("part-*.parquet"))) == 4


def test_finished_shards_are_not_computed_again(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", pictures(20))
    encode, calls = Eigenmap.encode, 0

    def twice(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return encode(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Eigenmap, "encode", twice)
    with pytest.raises(KeyboardInterrupt):
        embed_images(run, tmp_path / "a.npy", tmp_path / "codes", shard_size=5)
    assert not (tmp_path / "codes").exists()
    calls = 10
    made = embed_images(run, tmp_path / "a.npy", tmp_path / "codes", shard_size=5)
    assert made is not None and made.kept == 2 and made.images == 20
    assert calls == 12
    monkeypatch.undo()
    embed_images(run, tmp_path / "a.npy", tmp_path / "whole.npy")
    np.testing.assert_allclose(gathered(tmp_path / "codes")[1], np.load(tmp_path / "whole.npy"), atol=1e-6)
    assert not list(tmp_path.glob(".*"))


def test_what_a_strict_run_finished_is_kept(run: Path, photos: Path, tmp_path: Path) -> None:
    def strict(shard_size: int) -> None:
        with pytest.raises(EigenmapError, match=r"disc/broken\.jpg cannot be read"):
            embed_images(run, photos, tmp_path / "codes.npy", shard_size=shard_size, strict=True)

    strict(100)
    assert not list(tmp_path.iterdir())
    strict(8)
    made = embed_images(run, photos, tmp_path / "codes.npy", shard_size=8)
    assert made is not None and made.kept >= 1 and made.images == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes.ids.json", "codes.npy"]


def test_nothing_that_can_be_read(run: Path, tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / "photos").mkdir(exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(b"")
    with pytest.raises(EigenmapError, match=r"none of the 2 images can be read, for example b\.jpg: empty file"):
        embed_images(run, tmp_path / "photos", tmp_path / "codes.npy")
    with pytest.raises(EigenmapError, match=r"a\.jpg cannot be read: empty file"):
        embed_images(run, tmp_path / "photos" / "a.jpg", tmp_path / "codes.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_bad_settings(run: Path, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="dim must be a whole number from 1 to 8"):
        embed_images(run, photos, tmp_path / "codes", 9)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run": None}, "run must be a path"),
        ({"source": 3}, "source must be a path"),
        ({"source": ""}, "source must be a path, not ''"),
        ({"out": ""}, "out must be a path, not ''"),
        ({"shard_size": 1.5}, "shard_size must be a whole number"),
        ({"batch_size": "many"}, "batch_size must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"files": "csv"}, "files must be one of parquet, npy, not 'csv'"),
        ({"engine": "spark"}, "engine must be one of local, ray, not 'spark'"),
        ({"device": "gpu"}, "device 'gpu' is not one that torch can use here"),
        ({"device": "gpu", "engine": "ray"}, "device must be one of cpu, cuda, not 'gpu'"),
        ({"shard_size": 0}, "shard_size must be a whole number of at least 1, not 0"),
        ({"engine": "ray", "actors": 0}, "actors must be a whole number of at least 1, not 0"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_before_anything_is_written(
    options: dict[str, Any], message: str, run: Path, photos: Path, tmp_path: Path
) -> None:
    given = {"run": run, "source": photos, "out": tmp_path / "new" / "codes", **options}
    with pytest.raises(EigenmapError, match=message):
        embed_images(**given)
    assert not (tmp_path / "new").exists()


def test_what_is_no_output_of_ours_is_never_replaced(run: Path, photos: Path, tmp_path: Path) -> None:
    """Not even the folder of the photos themselves, named by mistake."""
    mine = tmp_path / "photos"
    shutil.copytree(photos, mine)
    before = sorted(mine.rglob("*"))
    with pytest.raises(EigenmapError, match="photos exists and is not a folder of codes; choose another name"):
        embed_images(run, mine, mine)
    with pytest.raises(EigenmapError, match=r"codes\.npy is a folder; name a file for the codes"):
        (tmp_path / "codes.npy").mkdir()
        embed_images(run, mine, tmp_path / "codes.npy")
    with pytest.raises(EigenmapError, match=r"codes\.csv must end in \.npy, \.npz or \.parquet, or name a folder"):
        embed_images(run, mine, tmp_path / "codes.csv")
    assert sorted(mine.rglob("*")) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes.npy", "photos"]


def test_a_stop_before_the_first_shard_leaves_nothing(
    run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Eigenmap, "encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embed_images(run, photos, tmp_path / "codes")
    assert not list(tmp_path.iterdir())
