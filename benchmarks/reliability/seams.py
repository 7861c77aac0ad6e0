"""Attack scripts: each tries to lose data or gain access at one weak point, and raises AssertionError on success."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

K = 8


class Said(NamedTuple):
    """Output and exit code of a command."""

    code: int
    text: str


def command(*words: object) -> Said:
    """Run a command in this process; anything but an exit is an internal error, and raises."""
    from eigenmap.cli import app

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            app([str(word) for word in words], prog_name="eigenmap")
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    return Said(code, out.getvalue())


def refused(*words: object) -> str:
    said = command(*words)
    assert said.code == 2 and said.text.count("\n") == 1 and said.text.startswith("Error: "), said
    return said.text


def codes(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(count, K)).astype(np.float32)


def together(*tasks: Callable[[], object]) -> list[Any]:
    """Run tasks in threads that start at the same moment; return their results or errors."""
    start, results = threading.Barrier(len(tasks)), [None] * len(tasks)

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = tasks[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def threads_that_search_a_new_approximate_index(folder: Path, seed: int) -> None:
    from eigenmap import CodeIndex

    index = CodeIndex(K, backend="faiss")
    index.add(codes(400, seed), range(400))
    queries = codes(5, seed + 1)
    results = together(*[lambda: index.search(queries, 5).ids for _ in range(8)])
    assert all(found == results[0] for found in results) and isinstance(results[0], list), results


def readers_beside_a_writer(folder: Path, seed: int) -> None:
    from eigenmap import CodeIndex

    index = CodeIndex(K, where=folder / "an.index")
    index.add(codes(50, seed), range(50))

    def write() -> None:
        for n in range(50, 90):
            index.add(codes(1, n), [n])
            index.delete([n - 50])

    def read() -> None:
        for _ in range(30):
            assert len(index.search(codes(2, seed), 5).ids) == 2

    assert together(write, *[read] * 4) == [None] * 5
    index.verify()
    assert sorted(index.ids) == list(range(40, 90))


def two_that_make_one_index(folder: Path, seed: int) -> None:
    from eigenmap import CodeIndex, EigenmapError

    def make(name: str) -> str:
        index = CodeIndex(K)
        index.add(codes(2, seed), [name, "both"])
        index.save(folder / "an.index")
        return name

    results = together(*[lambda name=name: make(name) for name in ("one", "two")])  # type: ignore[misc]
    winners = [result for result in results if isinstance(result, str)]
    assert len(winners) == 1 and sum(isinstance(result, EigenmapError) for result in results) == 1, results
    assert set(CodeIndex.open(folder / "an.index").ids) == {winners[0], "both"}


def a_folder_that_is_not_ours(folder: Path, seed: int) -> None:
    (folder / "photos").mkdir()
    (folder / "photos" / "precious.jpg").write_text("mine")
    from eigenmap import CodeIndex, EigenmapError

    index = CodeIndex(K)
    index.add(codes(2, seed), ["a", "b"])
    for overwrite in (False, True):
        try:
            index.save(folder / "photos", overwrite=overwrite)
        except EigenmapError:
            continue
        raise AssertionError("a folder of photos was replaced")
    assert (folder / "photos" / "precious.jpg").read_text() == "mine"


def any_flipped_bit_of_an_index(folder: Path, seed: int) -> None:
    from eigenmap import CodeIndex, EigenmapError

    index = CodeIndex(K, where=folder / "an.index")
    for n in range(3):
        index.add(codes(20, n), [f"{n}-{i}" for i in range(20)])
    chance = random.Random(seed)
    for file in sorted((folder / "an.index").iterdir()):
        good = bytearray(file.read_bytes())
        if not good:
            continue
        place = chance.randrange(len(good))
        bad = bytearray(good)
        bad[place] ^= 1 << chance.randrange(8)
        file.write_bytes(bad)
        try:
            CodeIndex.open(folder / "an.index").verify()
        except EigenmapError:
            pass
        else:
            raise AssertionError(f"byte {place} of {file.name} was changed, and verify passes")
        file.write_bytes(good)
    assert len(CodeIndex.open(folder / "an.index")) == 60


def a_link_in_an_index(folder: Path, seed: int) -> None:
    from eigenmap import CodeIndex, EigenmapError

    (folder / "outside").write_text("precious")
    index = CodeIndex(K, where=folder / "an.index")
    index.add(codes(4, seed), range(4))
    (folder / "an.index" / "deleted.bin").symlink_to(folder / "outside")
    with suppress(EigenmapError, OSError):
        CodeIndex.open(folder / "an.index").delete([1])
    assert (folder / "outside").read_text() == "precious"


def pictures_that_are_not_in_the_index(folder: Path, seed: int) -> None:
    from fastapi.testclient import TestClient
    from PIL import Image

    from eigenmap import CodeIndex
    from eigenmap.service.app import create_app
    from eigenmap.service.explorer import Explorer, key_of

    photos = folder / "photos"
    photos.mkdir()
    for name in ("shown.png", "private.png"):
        Image.new("RGB", (8, 8), (seed % 255, 0, 0)).save(photos / name)
    Image.new("RGB", (8, 8)).save(folder / "outside.png")
    (photos / "link.png").symlink_to(folder / "outside.png")
    os.mkfifo(photos / "fifo.png")
    index = CodeIndex(K, where=folder / "an.index")
    index.add(codes(3, seed), ["shown.png", "link.png", "fifo.png"])
    with TestClient(create_app(Explorer.open(folder / "an.index", photos)), base_url="http://localhost") as client:
        names = ("private.png", "link.png", "fifo.png", "../outside.png", str(folder / "outside.png"), "./shown.png")
        for name in names:
            assert client.get(f"/api/images/{key_of(name)}").status_code in (404, 422), name


def filters_that_never_end(folder: Path, seed: int) -> None:
    from fastapi.testclient import TestClient

    from eigenmap import CodeIndex
    from eigenmap.service.app import create_app
    from eigenmap.service.explorer import Explorer

    index = CodeIndex(K)
    index.add(codes(5, seed), range(5), [{"n": n} for n in range(5)])
    deep: Any = 1
    for _ in range(60):
        deep = {"n": deep}
    with TestClient(create_app(Explorer(index, None, "x", None)), base_url="http://localhost") as client:  # type: ignore[arg-type]
        for where in ({"n": list(range(120_000))}, {"n": {"!=": list(range(120_000))}}, deep):
            status = client.post("/api/search", json={"id": 0, "where": where}).status_code
            assert status in (400, 413, 422), status


def passwords_in_addresses(folder: Path, seed: int) -> None:
    for address in (
        "postgresql://me:hunter2@nowhere.invalid/x",
        "postgres://me:hunter2@nowhere.invalid/x",
        "postgresql://nowhere.invalid/x?password=hunter2",
        "PostgreSQL://me:hunter2@nowhere.invalid/x",
    ):
        said = command("search", address, folder / "x.png", "--table", "photos")
        assert said.code != 0 and "hunter2" not in said.text, said


def names_with_escape_bytes(folder: Path, seed: int) -> None:
    (folder / "photos").mkdir()
    (folder / "photos" / "\x1b[31mred.png").write_bytes(b"no picture")
    said = refused("fit", "images", folder / "photos", "--out", folder / "run", "--quiet")
    assert "\x1b" not in said


def pickles_in_place_of_weights(folder: Path, seed: int) -> None:
    """A pickle that would run code."""
    import pickle

    mark = folder / "run by a pickle"

    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(mark),)

    (folder / "weights.pt").write_bytes(pickle.dumps(Trap()))
    (folder / "run").mkdir()
    (folder / "run" / "checkpoint.pt").write_bytes(pickle.dumps(Trap()))
    np.save(folder / "p.npy", np.zeros((40, 8, 8, 3), np.uint8))
    np.save(folder / "o.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    small = ("--steps", 2, "--device", "cpu", "--quiet")
    refused(
        "fit", "images", folder / "p.npy", "--out", folder / "a", "--encoder-weights", folder / "weights.pt", *small
    )
    refused("fit", "images", folder / "p.npy", "--out", folder / "run", "--resume", *small)
    refused("fit", "images", folder / "o.npy", "--out", folder / "b", *small)
    assert not mark.exists()


def a_description_with_impossible_values(folder: Path, seed: int) -> None:
    from eigenmap import Eigenmap, EigenmapError
    from tests.test_model import make_model

    make_model().save(folder / "run")
    good = json.loads((folder / "run" / "model.json").read_text())
    for change in ({"t": float("nan")}, {"n_components": -1}, {"source": "elsewhere"}, {"extra": "[" * 5000}):
        (folder / "run" / "model.json").write_text(json.dumps({**good, **change}))
        try:
            Eigenmap.load(folder / "run")
        except EigenmapError:
            continue
        raise AssertionError(f"{list(change)} was accepted")


def two_cameras_with_the_same_names(folder: Path, seed: int) -> None:
    from eigenmap import CodeIndex
    from tests.end_to_end.photos import write_photos
    from tests.test_model import make_model

    make_model().save(folder / "run")
    for number, camera in enumerate(("one", "two")):
        write_photos(folder / camera, per_kind=2, seed=seed + number)
    index = ("index", folder / "run")
    out = ("--out", folder / "an.index", "--quiet", "--device", "cpu")
    assert command(*index, folder / "one", *out).code == 0
    assert command(*index, folder / "two", *out, "--add").code == 0
    assert len(CodeIndex.open(folder / "an.index")) == 12
    shutil.rmtree(folder / "one")


SEAMS: tuple[Callable[[Path, int], None], ...] = (
    threads_that_search_a_new_approximate_index,
    readers_beside_a_writer,
    two_that_make_one_index,
    a_folder_that_is_not_ours,
    any_flipped_bit_of_an_index,
    a_link_in_an_index,
    pictures_that_are_not_in_the_index,
    filters_that_never_end,
    passwords_in_addresses,
    names_with_escape_bytes,
    pickles_in_place_of_weights,
    a_description_with_impossible_values,
    two_cameras_with_the_same_names,
)
