from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

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


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a call that is interrupted at its n-th batch; returns how many batches any later call encodes."""
    encode, calls = Eigenmap.encode, 0

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == stop_at:
            raise KeyboardInterrupt
        return encode(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Eigenmap, "encode", counted)
    stop_at = 0

    def until(batch: int, *args: Any, **options: Any) -> Callable[[], int]:
        nonlocal stop_at, calls
        stop_at = batch
        with pytest.raises(KeyboardInterrupt):
            embed_images(*args, **options)
        stop_at = calls = 0
        return lambda: calls

    return until


def replace_picture(path: Path, keep_time: bool) -> None:
    """Another picture of the same name and size, with the same time of writing if asked for."""
    before = path.stat()
    with Image.open(path) as image:
        Image.fromarray(255 - np.asarray(image)).save(path)
    assert path.stat().st_size == before.st_size
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("keep_time", [False, True])
def test_pictures_that_were_replaced_are_encoded_again(
    run: Path, tmp_path: Path, stopped: Any, keep_time: bool
) -> None:
    """Under the same names, between a stop and the same call."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, pixels in enumerate(pictures(12)):
        Image.fromarray(pixels).save(folder / f"{number:02d}.bmp")
    encoded = stopped(4, run, folder, tmp_path / "codes", shard_size=3)
    for number in (1, 5):
        replace_picture(folder / f"{number:02d}.bmp", keep_time)
    made = embed_images(run, folder, tmp_path / "codes", shard_size=3)
    assert made is not None and made.kept == 1 and encoded() == 3
    embed_images(run, folder, tmp_path / "afresh", shard_size=3)
    np.testing.assert_array_equal(gathered(tmp_path / "codes")[1], gathered(tmp_path / "afresh")[1])


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.parquet"])
def test_so_are_those_of_a_file_that_was_replaced(run: Path, tmp_path: Path, stopped: Any, name: str) -> None:
    def write(seed: int) -> None:
        content = pictures(12, seed=seed)
        if name == "a.npy":
            np.save(tmp_path / name, content)
        elif name == "a.npz":
            np.savez(tmp_path / name, images=content)
        else:
            files = [BytesIO() for _ in content]
            for file, pixels in zip(files, content, strict=True):
                Image.fromarray(pixels).save(file, "BMP")
            pq.write_table(pa.table({"image": [file.getvalue() for file in files]}), tmp_path / name)

    write(0)
    before = (tmp_path / name).stat()
    stopped(4, run, tmp_path / name, tmp_path / "codes", shard_size=3)
    write(1)
    os.utime(tmp_path / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    made = embed_images(run, tmp_path / name, tmp_path / "codes", shard_size=3)
    assert made is not None and made.kept == 0
    embed_images(run, tmp_path / name, tmp_path / "afresh", shard_size=3)
    np.testing.assert_array_equal(gathered(tmp_path / "codes")[1], gathered(tmp_path / "afresh")[1])


def at_batch(monkeypatch: pytest.MonkeyPatch, batch: int, change: Callable[[], object]) -> None:
    """Change something while the n-th batch is encoded."""
    encode, calls = Eigenmap.encode, 0

    def changing(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == batch:
            change()
        return encode(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Eigenmap, "encode", changing)


def test_a_picture_that_is_replaced_while_its_shard_is_encoded(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ticks = tmp_path / "photos", []
    folder.mkdir()
    for number, pixels in enumerate(pictures(6)):
        Image.fromarray(pixels).save(folder / f"{number:02d}.bmp")
    at_batch(monkeypatch, 2, lambda: replace_picture(folder / "04.bmp", keep_time=True))
    embed_images(run, folder, tmp_path / "codes", shard_size=3, progress=lambda *at: ticks.append(at))
    assert ticks == [(3, 6), (6, 6), (3, 6), (6, 6)]
    embed_images(run, folder, tmp_path / "afresh", shard_size=3)
    np.testing.assert_array_equal(gathered(tmp_path / "codes")[1], gathered(tmp_path / "afresh")[1])


def test_pictures_that_come_and_go_while_others_are_encoded(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codes are of the pictures that were there; no other moves to another shard."""
    folder = tmp_path / "photos"
    for number, pixels in enumerate(pictures(8)):
        (folder / f"{number}").mkdir(parents=True)
        Image.fromarray(pixels).save(folder / f"{number}" / "photo.bmp")

    def change() -> None:
        Image.new("RGB", (9, 9)).save(folder / "3" / "a new one.bmp")
        Image.new("RGB", (9, 9)).save(folder / "7" / "a new one.bmp")
        (folder / "5" / "photo.bmp").unlink()

    at_batch(monkeypatch, 1, change)
    made = embed_images(run, folder, tmp_path / "codes", shard_size=2)
    assert made is not None and made.skipped == [("5/photo.bmp", "No such file or directory")]
    assert gathered(tmp_path / "codes")[0] == [f"{number}/photo.bmp" for number in range(8) if number != 5]
    assert Codebook.open(tmp_path / "codes").verify()
    assert {path.name for path in tmp_path.iterdir()} == {"codes", "photos"}


def test_an_array_that_is_replaced_while_it_is_read(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", pictures(8))

    def change() -> None:
        np.save(tmp_path / "b.npy", pictures(8, seed=1))
        (tmp_path / "b.npy").replace(tmp_path / "a.npy")

    at_batch(monkeypatch, 2, change)
    with pytest.raises(EigenmapError, match=r"a\.npy.*changed"):
        embed_images(run, tmp_path / "a.npy", tmp_path / "codes", shard_size=2)
    made = embed_images(run, tmp_path / "a.npy", tmp_path / "codes", shard_size=2)
    assert made is not None and made.kept == 0


@pytest.mark.parametrize("out", ["codes.npy", "codes.parquet"])
def test_a_stop_in_the_middle_of_clean_up(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    """A shard is deleted, and the mark that it is finished is not."""
    np.save(tmp_path / "a.npy", pictures(6))

    def interrupted(folder: Path, **_: object) -> None:
        for part in Path(folder).rglob("part-00000.*"):
            part.unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            embed_images(run, tmp_path / "a.npy", tmp_path / out, shard_size=2)
    made = embed_images(run, tmp_path / "a.npy", tmp_path / out, shard_size=2)
    assert made is not None and made.images == 6
    assert not list(tmp_path.glob(".*"))


def test_what_an_old_version_left_half_deleted(run: Path, photos: Path, tmp_path: Path) -> None:
    """A shard is marked as finished and gone: every later call took it for there, and failed."""
    progress = tmp_path / ".codes.parts" / ".progress"
    progress.mkdir(parents=True)
    (progress / "plan.json").write_text("{}")
    (progress / "00000.json").write_text('{"images": 30, "skipped": []}')
    for overwrite in (False, True):
        embed_images(run, photos, tmp_path / "codes", overwrite=overwrite)
        assert [path.name for path in tmp_path.iterdir()] == ["codes"]


def test_a_pipe_behind_a_link_is_left_out(run: Path, tmp_path: Path) -> None:
    """Nobody writes to it: opening it would wait for ever."""
    (tmp_path / "photos").mkdir()
    Image.fromarray(pictures(1)[0]).save(tmp_path / "photos" / "a.bmp")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "photos" / "b.bmp").symlink_to(tmp_path / "pipe")
    (tmp_path / "photos" / "c.bmp").symlink_to("/dev/zero")
    made = embed_images(run, tmp_path / "photos", tmp_path / "codes")
    assert made is not None and made.images == 1
    assert [name for name, _ in made.skipped] == ["b.bmp", "c.bmp"]
    assert all("regular file" in reason for _, reason in made.skipped)


def test_all_that_is_published_is_on_disk(
    run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file and folder was synced after its last change, the name itself at the very end."""
    synced: dict[int, int] = {}
    fsync, order = os.fsync, count()

    def recorded(descriptor: int) -> None:
        fsync(descriptor)
        synced[os.fstat(descriptor).st_ino] = next(order)

    monkeypatch.setattr(os, "fsync", recorded)
    for out in (tmp_path / "new" / "codes", tmp_path / "new" / "codes.npy"):
        synced.clear()
        embed_images(run, photos, out, shard_size=8)
        for path in (out, *(out.iterdir() if out.is_dir() else [out.with_suffix(".ids.json")])):
            assert synced[path.stat().st_ino] < synced[out.parent.stat().st_ino], path


def test_what_a_strict_run_finished_is_kept(run: Path, photos: Path, tmp_path: Path) -> None:
    def strict(shard_size: int) -> None:
        with pytest.raises(EigenmapError, match=r"disc/broken\.jpg.*read"):
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
    with pytest.raises(EigenmapError, match=r"2 images.*b\.jpg.*empty"):
        embed_images(run, tmp_path / "photos", tmp_path / "codes.npy")
    with pytest.raises(EigenmapError, match=r"a\.jpg.*empty"):
        embed_images(run, tmp_path / "photos" / "a.jpg", tmp_path / "codes.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_bad_settings(run: Path, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"dim.*1.*8"):
        embed_images(run, photos, tmp_path / "codes", 9)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run": None}, "run.*path"),
        ({"source": 3}, "source.*path"),
        ({"source": ""}, "source.*''"),
        ({"out": ""}, "out.*''"),
        ({"shard_size": 1.5}, "shard_size"),
        ({"batch_size": "many"}, "batch_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"files": "csv"}, "files .*parquet, npy.*'csv'"),
        ({"engine": "spark"}, "engine .*local, ray.*'spark'"),
        ({"device": "gpu"}, "device 'gpu'"),
        ({"device": "gpu", "engine": "ray"}, "device .*cpu, cuda.*'gpu'"),
        ({"shard_size": 0}, "shard_size.*1.*0"),
        ({"engine": "ray", "actors": 0}, "actors.*1.*0"),
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
    with pytest.raises(EigenmapError, match=r"photos exists.*folder"):
        embed_images(run, mine, mine)
    with pytest.raises(EigenmapError, match=r"codes\.npy.*folder"):
        (tmp_path / "codes.npy").mkdir()
        embed_images(run, mine, tmp_path / "codes.npy")
    with pytest.raises(EigenmapError, match=r"codes\.csv.*\.npy.*\.npz.*\.parquet"):
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
