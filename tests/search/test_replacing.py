"""One index in the place of another: no moment without an index, no acknowledged change lost, and readers notice."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from eigenmap.core import folders, renames
from eigenmap.core.errors import EigenmapError, ReplacedError
from eigenmap.search import Approximate, CodeIndex, saving
from eigenmap.search.backend import IndexSpec, ItemBatch
from tests.search.building import build_index

K = 8
MODEL = Path(__file__).parents[1] / "compatibility" / "v0_1" / "graph" / "model"
ROUNDS = int(os.environ.get("EIGENMAP_RACES", "1"))
"""Times as many rounds as in the quick form."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing here is about power cuts, and waiting for the disk takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def codes(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


def made(path, names, overwrite=False, seed=0, **options):
    index = CodeIndex(K, **options)
    index.add(codes(len(names), seed), names)
    index.save(path, overwrite=overwrite)


def together(*tasks):
    """Run tasks at the same time: what each returned, or the error that it raised."""
    start, results = threading.Barrier(len(tasks)), [None] * len(tasks)

    def run(number, task):
        start.wait()
        try:
            results[number] = task()
        except EigenmapError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("way", ["create", "save", "build"])
def test_of_two_that_make_an_index_at_once_exactly_one_succeeds(tmp_path, way):
    """Of old both could end well, and one of the two was gone."""
    for n in range(100 * ROUNDS):
        path = tmp_path / f"{n}.index"

        def make(name, path=path):
            if way == "create":
                CodeIndex(K, where=path, fingerprint=name)
            elif way == "save":
                index = CodeIndex(K, fingerprint=name)
                index.add(codes(1), [name])
                index.save(path)
            else:
                about = IndexSpec(K, fingerprint=name)
                build_index(about, [ItemBatch([name], codes(1), [{}])], path)
            return name

        results = together(lambda: make("one"), lambda: make("two"))
        (winner,) = [result for result in results if isinstance(result, str)]
        (refused,) = [result for result in results if isinstance(result, EigenmapError)]
        assert "exists" in str(refused)
        index = CodeIndex.open(path)
        assert index.fingerprint == winner and index.ids == ([] if way == "create" else [winner])
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        shutil.rmtree(path)


def test_a_folder_that_appears_meanwhile_is_kept(tmp_path):
    def batches():
        yield ItemBatch(["a"], codes(1), [{}])
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "cat.jpg").write_text("a cat")

    with pytest.raises(EigenmapError, match="exists"):
        build_index(IndexSpec(K), batches(), tmp_path / "out")
    assert (tmp_path / "out" / "cat.jpg").read_text() == "a cat"
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "index.json").write_text("{}")

    def more():
        yield ItemBatch(["a"], codes(1), [{}])
        (tmp_path / "there" / "index.json").unlink()
        (tmp_path / "there" / "cat.jpg").write_text("a cat")

    with pytest.raises(EigenmapError, match="not an index"):
        build_index(IndexSpec(K), more(), tmp_path / "there", overwrite=True)
    assert (tmp_path / "there" / "cat.jpg").read_text() == "a cat"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "there"]


@pytest.mark.parametrize("plain", [False, True])
def test_a_save_over_itself_loses_no_change_of_others(tmp_path, plain, monkeypatch):
    """Of old 2 indexes of 25 were damaged by this, and acknowledged items were lost."""
    if plain:
        monkeypatch.setattr(renames, "renameat2", lambda *_: False)
    path = tmp_path / "an.index"
    for n in range(8 * ROUNDS):
        made(path, ["first"])

        def add(name, path=path):
            index = CodeIndex.open(path)
            for i in range(15):
                index.add(codes(1, i), [f"{name}{i}"])
                assert f"{name}{i}" in index.ids

        def save(path=path):
            index = CodeIndex.open(path)  # which others replace meanwhile
            for _ in range(5):
                index.save(path, overwrite=True)

        results = together(lambda: add("a"), lambda: add("b"), save, save)
        assert results == [None] * 4, n
        index = CodeIndex.open(path)
        assert set(index.ids) == {"first", *(f"{name}{i}" for name in "ab" for i in range(15))}
        index.verify()
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        shutil.rmtree(path)


def test_an_index_whose_name_is_missing_for_a_moment_is_locked_while_it_is_saved_over_itself(tmp_path, monkeypatch):
    """Without an atomic exchange, an index that another process replaces is gone between two renames."""
    path = tmp_path / "an.index"
    made(path, ["first"])
    index, locked = CodeIndex.open(path), []

    def still(backend):
        with pytest.raises(folders.BusyFolderError), folders.folder_lock(path, blocking=False):
            pass
        locked.append(True)
        return backend.snapshot()

    monkeypatch.setattr(saving, "still", still)
    path.rename(folders.aside(path, "old"))
    index.save(path, overwrite=True)
    assert locked == [True] and CodeIndex.open(path).ids == ["first"]


def test_two_processes_save_and_add(tmp_path):
    path = tmp_path / "an.index"
    made(path, ["first"])
    program = (
        "import sys, numpy as np\n"
        "from eigenmap.search import CodeIndex\n"
        "index = CodeIndex.open(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "for i in range(25):\n"
        "    index.add(np.full((1, 8), i + 1, np.float32), [f'{sys.argv[2]}{i}'])\n"
        "    if sys.argv[2] == 'saving':\n"
        "        index.save(sys.argv[1], overwrite=True)\n"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", program, path, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in ("saving", "adding")
    ]
    for worker in workers:
        worker.stdout.readline()
    for worker in workers:
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    assert [worker.wait(60) for worker in workers] == [0, 0]
    for worker in workers:
        worker.communicate()
    index = CodeIndex.open(path)
    assert set(index.ids) == {"first", *(f"{name}{i}" for name in ("saving", "adding") for i in range(25))}
    index.verify()


@pytest.mark.parametrize("plain", [False, True])
def test_there_is_an_index_at_every_moment(tmp_path, plain, monkeypatch):
    if plain:
        monkeypatch.setattr(renames, "renameat2", lambda *_: False)
    path = tmp_path / "an.index"
    made(path, ["0"])
    done = threading.Event()

    def replace():
        try:
            for n in range(1, 60 * ROUNDS):
                made(path, [str(n)], overwrite=True)
        finally:
            done.set()

    def read():
        held, seen = CodeIndex.open(path), 0
        while not done.is_set():
            (name,) = CodeIndex.open(path).ids
            (also,) = held.ids
            # Between two plain renames those who have the index open go on with what they have.
            assert int(name) >= seen and int(also) >= (seen if plain else int(name)), (seen, name, also)
            seen = int(also)
            assert held.search(codes(1), 1).ids[0][0].isdigit()
        return seen

    results = together(replace, read, read)
    assert results[0] is None and all(isinstance(seen, int) for seen in results[1:]), results
    assert CodeIndex.open(path).ids == [str(60 * ROUNDS - 1)]


def test_an_open_index_goes_over_to_the_one_that_took_its_place(tmp_path):
    path = tmp_path / "an.index"
    made(path, ["a", "b"], fingerprint="m")
    index = CodeIndex.open(path)
    index._measured[()] = 0.5
    assert index.search(codes(1), 1).ids == [["a"]]
    made(path, ["x", "y", "z"], overwrite=True, seed=1, fingerprint="m", precision="float16")
    assert index.ids == ["x", "y", "z"] and index.about.precision == "float16"
    assert index.search(codes(1, 1), 1).ids == [["x"]]
    assert index._measured == {}  # it was measured on other items
    index.add(codes(1, 5), ["new"])
    assert CodeIndex.open(path).ids == index.ids == ["x", "y", "z", "new"]
    index.verify()


@pytest.mark.parametrize(
    "other",
    [
        {"fingerprint": "other"},
        {"fingerprint": "m", "metric": "inner"},
        {"fingerprint": "m", "backend": "faiss", "approximate": Approximate("sq8", dim=4)},
        {"fingerprint": "m", "ids": [1, 2]},
        {"fingerprint": "m", "k": 6},
    ],
)
def test_an_index_of_another_model_or_shape_is_not_searched_by_the_old_one(tmp_path, other):
    """Of old, queries of one model were ranked against the codes of another, in silence."""
    path = tmp_path / "an.index"
    made(path, ["a", "b"], fingerprint="m")
    index = CodeIndex.open(path)
    ids, k = other.pop("ids", ["x", "y"]), other.pop("k", K)
    new = CodeIndex(k, **other)
    new.add(codes(2)[:, :k], ids)
    new.save(path, overwrite=True)
    for attempt in (
        lambda: index.search(codes(1), 1),
        lambda: len(index),
        lambda: index.add(codes(1), ["c"]),
        lambda: index.delete(["a"]),
        lambda: index.verify(),
    ):
        with pytest.raises(ReplacedError, match="replaced"):
            attempt()
    assert CodeIndex.open(path).ids == ids


def test_an_index_that_was_removed_can_be_read_but_not_changed(tmp_path):
    path = tmp_path / "an.index"
    made(path, ["a", "b"])
    index = CodeIndex.open(path)
    path.rename(tmp_path / "moved")
    assert index.ids == ["a", "b"] and index.search(codes(1), 1).ids == [["a"]]
    shutil.rmtree(tmp_path / "moved")
    assert index.ids == ["a", "b"] and index.search(codes(1), 1).ids == [["a"]]
    for attempt in (lambda: index.add(codes(1), ["c"]), lambda: index.delete(["a"])):
        with pytest.raises(EigenmapError, match="removed"):
            attempt()
    assert list(tmp_path.iterdir()) == []
    index.save(path)  # it can be rescued, too
    index.add(codes(1, 1), ["c"])
    assert CodeIndex.open(path).ids == ["a", "b", "c"]


def test_a_swap_that_was_cut_off_is_put_right_when_the_index_is_opened(tmp_path):
    path = tmp_path / "an.index"
    made(path, ["a"])
    path.rename(tmp_path / f".an.index.{'0' * 32}.old")
    assert CodeIndex.open(path).ids == ["a"]
    leftover = folders.aside(path, "new")
    shutil.copytree(path, leftover)
    CodeIndex.open(path).add(codes(1, 1), ["b"])
    assert [file.name for file in tmp_path.iterdir()] == ["an.index"]


def test_a_save_over_itself_keeps_what_lies_beside_the_codes(tmp_path):
    path = tmp_path / "an.index"
    index = CodeIndex(K)
    index.add(codes(3), ["a", "b", "c"])
    index.save(path, model_dir=MODEL)
    (path / "notes.txt").write_text("mine")
    (path / "thumbnails.sqlite").write_bytes(b"pictures")
    opened = CodeIndex.open(path)
    opened.backend.write_note("advice", {"a": 1})
    opened.delete(["b"])
    opened.save(path, overwrite=True)
    assert opened.ids == ["a", "c"] and opened.backend.read_note("advice") == {"a": 1}
    assert (path / "model" / "model.json").read_bytes() == (MODEL / "model.json").read_bytes()
    assert (path / "notes.txt").read_text() == "mine" and (path / "thumbnails.sqlite").read_bytes() == b"pictures"
    assert not (path / "deleted.bin").exists()


def test_a_link_to_an_index_may_be_set_to_another(tmp_path):
    made(tmp_path / "one", ["a"])
    made(tmp_path / "two", ["b"])
    link = tmp_path / "current"
    link.symlink_to("one")
    index = CodeIndex.open(link)
    assert index.ids == ["a"]
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(link)
    assert index.ids == ["b"]
    index.add(codes(1, 2), ["c"])
    assert CodeIndex.open(tmp_path / "two").ids == ["b", "c"] and CodeIndex.open(Path(tmp_path / "one")).ids == ["a"]


def test_an_index_with_links_and_fifos_is_saved_over_itself(tmp_path):
    path = tmp_path / "an.index"
    made(path, ["a"])
    (path / "notes.txt").write_text("mine")
    (path / "link").symlink_to("notes.txt")
    os.mkfifo(path / "fifo")
    (path / "more").mkdir()
    os.mkfifo(path / "more" / "fifo")
    CodeIndex.open(path).save(path, overwrite=True)
    assert (path / "link").readlink().name == "notes.txt" and (path / "fifo").is_fifo()
    assert (path / "more" / "fifo").is_fifo() and CodeIndex.open(path).ids == ["a"]


def test_an_index_may_be_made_in_an_empty_folder(tmp_path):
    for overwrite in (False, True):
        path = tmp_path / str(overwrite)
        path.mkdir()
        index = CodeIndex(4)
        index.add(codes(1, 0)[:, :4], ["a"])
        index.save(path, overwrite=overwrite)
        assert CodeIndex.open(path).ids == ["a"]
