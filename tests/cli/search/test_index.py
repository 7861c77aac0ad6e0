from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from eigenmap import Eigenmap
from eigenmap.cli.search import indexing
from eigenmap.cli.search.items import Items
from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex, codecs
from eigenmap.service.thumbnails import StoredPictures, encode
from tests.cli.run import refused, succeed
from tests.end_to_end.photos import pictures


def test_an_index_holds_codes_and_the_model_but_not_the_run(index_dir: Path, model_dir: Path) -> None:
    assert sorted(path.name for path in index_dir.iterdir()) == [
        *("codec.json", "features-0-8.bin", "ids.bin", "ids.ends", "ids.hash", "index.json", "log"),
        *("metadata.bin", "metadata.ends", "model", "parts.json", "sources.json", "thumbnails.sqlite"),
    ]
    assert sorted(path.name for path in (index_dir / "model").iterdir()) == ["model.json", "model.safetensors"]
    index = CodeIndex.load(index_dir)
    assert (len(index), index.n_components, index.fingerprint) == (15, 8, Eigenmap.fingerprint(model_dir))


def test_a_search_needs_nothing_but_the_index(index_dir: Path, photos: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(index_dir, tmp_path / "moved")
    result = succeed("search", moved, photos / "bars" / "1.png", "--top", 2, "--dim", 5)
    assert result.err == ""
    lines = [line for line in result.out.splitlines() if "│" in line]
    assert len(lines) == 2
    assert [cell.strip() for cell in lines[0].strip("│").split("│")] == ["1", "1.0000", "bars/1.png"]


def test_every_photo_finds_itself_first_at_every_length(index_dir: Path, photos: Path, tmp_path: Path) -> None:
    for dim in (3, 8):
        file = tmp_path / f"{dim}.json"
        succeed("search", index_dir, photos, "--dim", dim, "--top", 1, "--json", file)
        found = json.loads(file.read_text())
        assert found["dim"] == dim and len(found["results"]) == 15
        for result in found["results"]:
            (best,) = result["found"]
            assert best["score"] == pytest.approx(1, abs=1e-4)
            assert best["id"] == result["query"]


def test_several_images_get_a_table_each(index_dir: Path, photos: Path) -> None:
    queries = [photos / "bars" / "1.png", photos / "disc" / "1.png"]
    result = succeed("search", index_dir, *queries, photos / "disc" / "broken.jpg")
    assert result.out.count("rank") == 2
    assert str(queries[0]) in result.out and str(queries[1]) in result.out
    assert f"{photos / 'disc' / 'broken.jpg'}: " in result.err  # left out, and said so


def test_codes_that_were_embedded_before(model_dir: Path, photos: Path, index_dir: Path, tmp_path: Path) -> None:
    codes, made = tmp_path / "codes", tmp_path / "made.index"
    succeed("embed", model_dir, photos, "--out", codes, "--shard-size", 4)
    assert re.search(r"codes contains codes of a model.*eigenmap index RUN", refused("index", codes, "--out", made))
    result = succeed("index", model_dir, codes, "--out", made)
    assert re.fullmatch(rf"{made}: 15 items.*8 features.*\n", result.err)
    index, other = CodeIndex.open(made), CodeIndex.open(index_dir)
    assert index.ids == other.ids
    np.testing.assert_allclose(index.codes(index.ids), other.codes(other.ids), atol=1e-6)
    assert "bars/1.png" in succeed("search", made, photos / "bars" / "1.png", "--top", 1).out
    succeed("index", model_dir, codes, "--out", made, "--add", "--quiet")
    assert len(CodeIndex.open(made)) == 15
    assert "exists" in refused("index", model_dir, codes, "--out", made)
    succeed("index", model_dir, codes, "--out", made, "--force", "--dim", 4, "--bytes-per-item", 3, "--quiet")
    assert CodeIndex.open(made).about.bytes_per_item == 3
    succeed("search", made, photos / "bars" / "1.png", "--json", tmp_path / "found.json")
    assert "estimated" in json.loads((tmp_path / "found.json").read_text())["similarity"]
    succeed("search", made, photos / "bars" / "1.png", "--rank-by", "cosine", "--json", tmp_path / "cosine.json")
    assert json.loads((tmp_path / "cosine.json").read_text())["similarity"].endswith("features, estimated")
    assert re.search("--dim .*5", refused("index", model_dir, codes, "--out", made, "--add", "--dim", 5))
    succeed("embed", model_dir, photos, "--out", tmp_path / "short", "--dim", 3)
    assert "--dim 3" in refused("index", model_dir, tmp_path / "short", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["codes.npy", "codes.npz", "codes.parquet"])
def test_codes_in_one_file(name: str, model_dir: Path, photos: Path, index_dir: Path, tmp_path: Path) -> None:
    codes, made = tmp_path / name, tmp_path / "made.index"
    succeed("embed", model_dir, photos, "--out", codes)
    assert succeed("index", model_dir, codes, "--out", made).err == f"{made}: 15 items, 8 features each.\n"
    with CodeIndex.open(made) as index, CodeIndex.open(index_dir) as other:
        assert index.ids == other.ids
        np.testing.assert_allclose(index.codes(index.ids), other.codes(other.ids), atol=1e-6)
    kept = "8 features each; 0 added, 15 were already there (--replace replaces them)."
    assert succeed("index", model_dir, codes, "--out", made, "--add").err == f"{made}: 15 items, {kept}\n"
    assert "bars/1.png" in succeed("search", made, photos / "bars" / "1.png", "--top", 1).out


def test_one_item_is_counted_in_the_singular(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones((1, 4)))
    index = ("index", tmp_path / "one.npy", "--out", tmp_path / "one.index")
    succeed(*index)
    assert "0 added, 1 was already there (--replace replaces it)." in succeed(*index, "--add").err
    assert "too few items, 1, for advice on 10 results" in refused("advise", tmp_path / "one.index")


def test_any_matrix_of_floats_is_codes(model_dir: Path, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(9, 8))
    np.save(tmp_path / "mine.npy", rows)
    succeed("index", model_dir, tmp_path / "mine.npy", "--out", tmp_path / "an.index", "--dim", 3)
    index = CodeIndex.open(tmp_path / "an.index")
    assert index.ids == [str(i) for i in range(9)]
    cut = rows[:, :3]
    expected = cut / np.linalg.norm(cut, axis=1, keepdims=True)
    np.testing.assert_allclose(index.codes(index.ids), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (np.zeros((9, 7)), r"mine\.npy.*7 features.*--dim 7"),
        (np.zeros((9, 9)), r"mine\.npy.*9 features.*RUN.*8"),
        (np.full((9, 8), np.nan), "NaN.*row 0"),
        (np.zeros((9, 8), int), r"mine\.npy.*\(9, 8\)"),
        (np.zeros((0, 8)), r"mine\.npy.*\(0, 8\)"),
    ],
    ids=["short", "long", "nan", "integers", "empty"],
)
def test_matrices_that_are_no_codes(model_dir: Path, tmp_path: Path, rows: np.ndarray, sentence: str) -> None:
    np.save(tmp_path / "mine.npy", rows)
    assert re.search(sentence, refused("index", model_dir, tmp_path / "mine.npy", "--out", tmp_path / "an.index"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.npy"]


def test_labels_of_every_kind_of_source(model_dir: Path, tmp_path: Path) -> None:
    shown = pictures(3, 16)
    files = []
    for picture in shown:
        Image.fromarray(picture).save(buffer := BytesIO(), "PNG")
        files.append(buffer.getvalue())
    table = {"id": ["a", "b", "c"], "png": [files[0], b"damaged", files[2]], "label": [["y", "x"], ["y"], []]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", images=shown, labels=np.array([7, -1, 5]))
    expected = {
        "a.parquet": {"a": {"label": "x y"}, "c": {}},
        "a.npz": {"0": {"label": "7"}, "1": {}, "2": {"label": "5"}},
    }
    for name, known in expected.items():
        out = tmp_path / f"{name}.index"
        succeed("index", model_dir, tmp_path / name, "--out", out)
        index = CodeIndex.open(out)
        assert dict(zip(index.ids, index.metadata(index.ids), strict=True)) == known
        assert (out / "several_labels.json").exists() == (name == "a.parquet")


def test_compact_codes_are_learned_from_all_images(
    model_dir: Path, array_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    train = codecs.train_codec
    monkeypatch.setattr(codecs, "train_codec", lambda about, codes: seen.append(len(codes)) or train(about, codes))
    words = ("--batch-size", 5, "--bytes-per-item", 4, "--quiet")
    succeed("index", model_dir, array_file, "--out", tmp_path / "an.index", *words)
    assert seen[0] == 12


def test_several_conditions_on_one_label(index_dir: Path, photos: Path) -> None:
    query = photos / "bars" / "1.png"
    neither = ["--where", "label!=bars", "--where", "label!=disc"]
    out = succeed("search", index_dir, query, *neither).out
    assert "stripes/" in out and "bars/" not in out.partition("\n")[2] and "disc/" not in out
    none = succeed("search", index_dir, query, *neither, "--where", "label!=stripes")
    assert re.fullmatch(r".*--where.*\n", none.out)


def test_an_index_of_short_codes(model_dir: Path, array_file: Path, tmp_path: Path) -> None:
    result = succeed("index", model_dir, array_file, "--out", tmp_path / "small.index", "--dim", 2)
    assert re.fullmatch(rf"{tmp_path / 'small.index'}: 12 images.*2 features.*\n", result.err)
    assert CodeIndex.open(tmp_path / "small.index").codes(["0", "1"]).shape == (2, 2)
    succeed("search", tmp_path / "small.index", array_file)
    assert re.search("dim .*1 to 2.*3", refused("search", tmp_path / "small.index", array_file, "--dim", 3))


def test_an_index_is_replaced_only_by_force(model_dir: Path, array_file: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "an.index"
    succeed("index", model_dir, array_file, "--out", out)
    assert re.search("exists.*--force", refused("index", model_dir, photos, "--out", out))
    assert len(CodeIndex.load(out)) == 12
    succeed("index", model_dir, photos, "--out", out, "--force")
    assert len(CodeIndex.load(out)) == 15
    assert [path.name for path in tmp_path.iterdir()] == ["an.index"]


def test_mistakes_in_making_an_index(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("")
    for force in ([], ["--force"]):
        assert re.search("exists.*index", refused("index", model_dir, photos, "--out", tmp_path / "mine", *force))
    assert "written" in refused("index", model_dir, photos, "--out", tmp_path / "mine" / "precious" / "index")
    assert re.search("1 to 8.*0", refused("index", model_dir, photos, "--out", tmp_path / "an.index", "--dim", 0))
    assert re.search(
        r"broken\.jpg.*read", refused("index", model_dir, photos, "--out", tmp_path / "an.index", "--strict")
    )
    told = refused("index", photos, "--out", tmp_path / "an.index")
    assert "is not a model" in told and f"eigenmap index RUN {photos}" in told
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "precious"]


def test_mistakes_in_searching(index_dir: Path, model_dir: Path, photos: Path, tmp_path: Path) -> None:
    photo = photos / "bars" / "1.png"
    assert "it is a model" in refused("search", model_dir, photo)
    assert re.search("gone.*directory", refused("search", tmp_path / "gone", photo))
    assert re.search(r"gone\.jpg.*exist", refused("search", index_dir, tmp_path / "gone.jpg"))
    assert re.search(r"broken\.jpg.*read", refused("search", index_dir, photos / "disc" / "broken.jpg"))
    assert re.search("dim.*1.*8.*9", refused("search", index_dir, photo, "--dim", 9))
    assert re.search("top.*1.*0", refused("search", index_dir, photo, "--top", 0))
    (tmp_path / "found.json").write_text("mine")
    assert "exists" in refused("search", index_dir, photo, "--json", tmp_path / "found.json")
    assert (tmp_path / "found.json").read_text() == "mine"


def test_an_index_without_its_model(index_dir: Path, photos: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(index_dir, tmp_path / "moved")
    shutil.rmtree(moved / "model")
    assert "model directory" in refused("search", moved, photos / "bars" / "1.png")


def test_a_search_by_stages_and_conditions(index_dir: Path, photos: Path, tmp_path: Path) -> None:
    photo, file = photos / "bars" / "1.png", tmp_path / "found.json"
    result = succeed("search", index_dir, photo, "--funnel", "2:12,8:3", "--where", "label=bars", "--json", file)
    assert "search" in result.err or json.loads(file.read_text())["recall"] == 1
    (found,) = json.loads(file.read_text())["results"]
    names = [one["id"] for one in found["found"]]
    assert len(names) == 3 and names[0] == "bars/1.png" and all(name.startswith("bars/") for name in names)
    succeed("search", index_dir, photo, "--shortlist-dim", 2, "--shortlist", 15, "--json", file, "--force")
    assert json.loads(file.read_text())["recall"] == 1  # the shortlist is everything
    plain = succeed("search", index_dir, photo, "--top", 4).out
    assert succeed("search", index_dir, photo, "--dim", "auto", "--top", 4).out == plain


def test_mistakes_in_stages_and_conditions(index_dir: Path, photos: Path) -> None:
    photo = photos / "bars" / "1.png"
    assert "funnel" in refused("search", index_dir, photo, "--funnel", "8")
    assert re.search("dim.*'all'", refused("search", index_dir, photo, "--dim", "all"))
    assert re.search("'bars'.*condition", refused("search", index_dir, photo, "--where", "bars"))
    assert "--shortlist-dim" in refused("search", index_dir, photo, "--shortlist", 5)
    assert re.search("funnel.*stages", refused("search", index_dir, photo, "--funnel", "2:9,8:3", "--dim", 4))


def test_images_are_added_to_an_index(model_dir: Path, array_file: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "an.index"
    succeed("index", model_dir, photos, "--out", out)
    result = succeed("index", model_dir, array_file, "--out", out, "--add")
    assert re.fullmatch(rf"{out}: 27 images.*8 features.*12 added.*\n", result.err)
    succeed("index", model_dir, array_file, "--out", out, "--add", "--quiet")
    index = CodeIndex.open(out)
    assert len(index) == 27
    assert index.metadata(["bars/1.png"]) == [{"label": "bars"}]
    assert "--force" in refused("index", model_dir, photos, "--out", out, "--add", "--force")
    assert "directory" in refused("index", model_dir, photos, "--out", tmp_path / "no", "--add")


def test_an_index_of_another_model_is_refused(index_dir: Path, photos: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(index_dir, tmp_path / "moved")
    about = json.loads((moved / "index.json").read_text())
    (moved / "index.json").write_text(json.dumps(about | {"fingerprint": "0123456789abcdef"}))
    message = "codes of the model 0123456789ab"
    assert message in refused("search", moved, photos / "bars" / "1.png")
    assert message in refused("index", index_dir / "model", photos, "--out", moved, "--add")


def test_compact_indexes(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    photo = photos / "bars" / "1.png"
    for words in (["--precision", "int8"], ["--bytes-per-item", 4], ["--precision", "signs", "--bytes-per-item", 1]):
        out = tmp_path / "small.index"
        succeed("index", model_dir, photos, "--out", out, "--force", *words)
        assert "photos" not in succeed("search", out, photo, "--top", 3).err
        stored = sum(file.stat().st_size for file in out.glob("features-*.bin"))
        assert stored == 15 * (8 if "int8" in words else words[-1])
    assert re.search(
        "--bytes-per-item.*precision",
        refused("index", model_dir, photos, "--out", tmp_path / "x", "--precision", "bits"),
    )
    succeed("index", model_dir, photos, "--out", tmp_path / "fast.index", "--backend", "faiss")
    assert CodeIndex.open(tmp_path / "fast.index").about.approximate is not None


def test_rankings_that_are_not_there(index_dir: Path, photos: Path) -> None:
    query = photos / "bars" / "1.png"
    assert "--bytes-per-item" in refused("search", index_dir, query, "--rank-by", "relevance")
    assert succeed("search", index_dir, query, "--rank-by", "cosine") == succeed("search", index_dir, query)


def test_an_advised_length_is_the_one_that_is_written(tmp_path: Path, index_dir: Path, photos: Path) -> None:
    """With too few items to advise on that is the full length; see the search tests for more."""
    succeed("search", index_dir, photos / "bars" / "1.png", "--dim", "auto", "--json", tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["dim"] == CodeIndex.open(index_dir).n_components


def test_what_an_index_is_cannot_be_changed_by_adding(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    index = ("index", model_dir, photos, "--out", tmp_path / "an.index", "--quiet")
    succeed(*index)
    for words in (("--precision", "int8"), ("--bytes-per-item", 4), ("--backend", "faiss")):
        sentence = refused(*index, "--add", *words)
        assert re.search("--precision.*--bytes-per-item.*--backend", sentence)
    assert re.search("--dim .*3", refused(*index, "--add", "--dim", 3))


def test_options_of_a_database_go_with_one(index_dir: Path, model_dir: Path, photos: Path, tmp_path: Path) -> None:
    for words in (("--table", "photos"), ("--prefix", 8)):
        sentence = refused("index", model_dir, photos, "--out", tmp_path / "an.index", *words)
        assert re.search("--table.*--prefix.*--to", sentence)
    assert not list(tmp_path.iterdir())
    sentence = refused("search", index_dir, photos / "disc" / "1.png", "--table", "photos")
    assert re.search("--table.*database", sentence)


def test_photos_of_two_cameras_with_the_same_names_are_all_kept(model_dir: Path, tmp_path: Path) -> None:
    """Of old, 40 photos became 20, in silence."""
    out = tmp_path / "an.index"
    for camera, seed in (("camera1", 0), ("camera2", 1)):
        (tmp_path / camera).mkdir()
        for number, picture in enumerate(pictures(20, 16, seed)):
            Image.fromarray(picture).save(tmp_path / camera / f"IMG_{number:04d}.png")
    add = ("index", model_dir, tmp_path / "camera2", "--out", out, "--add")
    succeed("index", model_dir, tmp_path / "camera1", "--out", out)
    assert re.fullmatch(rf"{out}: 40 images.*20 added .*20 .*camera2/.*\n", succeed(*add).err)
    assert re.fullmatch(rf"{out}: 40 images.*0 added, 20 .*already.*--replace.*\n", succeed(*add).err)
    assert re.fullmatch(rf"{out}: 40 images.*8 features.*20 replaced.*\n", succeed(*add, "--replace").err)
    index = CodeIndex.open(out)
    assert "camera2/IMG_0003.png" in index.ids and "IMG_0003.png" in index.ids and len(index) == 40
    for camera, name in (("camera1", "IMG_0003.png"), ("camera2", "camera2/IMG_0003.png")):
        found = succeed("search", out, tmp_path / camera / "IMG_0003.png", "--top", 1).out
        assert f" {name} " in found
        assert StoredPictures(out).read(name) == encode(
            np.asarray(Image.open(tmp_path / camera / "IMG_0003.png")).transpose(2, 0, 1)
        )
    assert "thumbnails.sqlite: 40 pictures" in index.verify()
    assert (
        succeed("search", out, tmp_path / "camera1" / "IMG_0003.png", "--where", "source=camera2").out.count("camera2/")
        >= 10
    )
    assert re.search("--replace.*--add", refused("index", model_dir, tmp_path / "camera2", "--out", out, "--replace"))


def test_an_index_that_fails_at_its_pictures_leaves_nothing(
    model_dir: Path, array_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise EigenmapError("the thumbnails cannot be written: database or disk is full")

    out = tmp_path / "an.index"
    monkeypatch.setattr("eigenmap.service.thumbnails.store_encoded", fail)
    assert "disk is full" in refused("index", model_dir, array_file, "--out", out)
    assert list(tmp_path.iterdir()) == []
    succeed("index", model_dir, array_file, "--out", out, "--no-thumbnails")
    before = CodeIndex.open(out).ids
    assert "disk is full" in refused("index", model_dir, array_file, "--out", out, "--force")
    (tmp_path / "more").mkdir()
    Image.fromarray(pictures(1, 16, 3)[0]).save(tmp_path / "more" / "1.png")
    assert "disk is full" in refused("index", model_dir, tmp_path / "more", "--out", out, "--add")
    assert CodeIndex.open(out).ids == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["an.index", "more"]


class OneBatch:
    """Items that are there at once."""

    noun, several_labels = "images", False

    def __init__(self, items: Items) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Items]:
        yield self.items


def test_of_two_threads_that_write_one_index_one_succeeds(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command does, many times."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # it takes most of the time
    shown = [[encode(picture) for picture in pictures(2, 16, seed).transpose(0, 3, 1, 2)] for seed in (0, 1)]
    for number in range(24):
        out, start = tmp_path / f"{number}.index", threading.Barrier(2)
        ended: list[str] = []

        def make(which: int, out: Path = out, start: threading.Barrier = start, ended: list[str] = ended) -> None:
            items = Items(["a", "b"], np.full((2, 8), which + 1, np.float32), [{}, {}], shown[which])
            start.wait()
            with contextlib.suppress(EigenmapError):
                indexing.make_index(CodeIndex(8).about, tmp_path, OneBatch(items), out, model_dir, False)
                ended.append(str(which))

        threads = [threading.Thread(target=make, args=(which,)) for which in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = ended
        assert CodeIndex.open(out).codes(["a"])[0, 0] == int(winner) + 1
        assert StoredPictures(out).read("b") == shown[int(winner)][1]
        assert [path.name for path in tmp_path.iterdir()] == [out.name]
        shutil.rmtree(out)


def test_of_two_processes_that_write_one_index_one_succeeds(
    model_dir: Path, array_file: Path, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "an.index"
    program = [sys.executable, "-c", "from eigenmap.cli import main; main()", "index", str(model_dir)]
    both = [
        subprocess.Popen([*program, source, "--out", out, "--quiet"], stderr=subprocess.PIPE, text=True)
        for source in (array_file, photos)
    ]
    errors = [process.communicate(timeout=100)[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 2], errors
    assert errors[codes.index(0)] == ""
    sentence = errors[codes.index(2)]
    assert sentence.startswith("Error: ") and "exists" in sentence and sentence.count("\n") == 1
    assert len(CodeIndex.open(out)) == (12, 15)[codes.index(0)]
    CodeIndex.open(out).verify()
    assert [path.name for path in tmp_path.iterdir()] == ["an.index"]


def test_pictures_whose_writer_was_killed_can_be_read(index_dir: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(index_dir, tmp_path / "moved")
    program = (
        "import os, signal, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1])\n"
        "connection.execute('PRAGMA cache_size = 5')\n"
        "for n in range(500):\n"
        "    connection.execute('INSERT INTO thumbnails VALUES (?, ?)', (str(n), os.urandom(2000)))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    expected = StoredPictures(index_dir).read("bars/1.png")
    subprocess.run([sys.executable, "-c", program, moved / "thumbnails.sqlite"], check=False)
    assert (moved / "thumbnails.sqlite-journal").exists()
    assert expected is not None and StoredPictures(moved).read("bars/1.png") == expected
    assert "thumbnails.sqlite: 15 pictures" in CodeIndex.open(moved).verify()


def replace_when_loaded(run: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the run get another model as soon as its model is loaded, as by `fit --force`."""
    load = Eigenmap.load

    def replaced_after(directory: Path) -> Eigenmap:
        model = load(directory)
        shutil.copytree(to, run, dirs_exist_ok=True)
        return model

    monkeypatch.setattr(Eigenmap, "load", replaced_after)


@pytest.fixture
def other_dir(model_dir: Path, tmp_path: Path) -> Path:
    """A model of the same shape and other weights."""
    other = Eigenmap.load(model_dir)
    for layer in other.network.projector.parameters():
        torch.nn.init.normal_(layer)
    return other.save(tmp_path / "other")


def test_codes_of_one_model_are_not_stored_as_those_of_another(
    model_dir: Path, other_dir: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = shutil.copytree(model_dir, tmp_path / "run"), tmp_path / "new.index"
    replace_when_loaded(run, other_dir, monkeypatch)
    message = refused("index", run, photos, "--out", out, "--quiet")
    first = Eigenmap.fingerprint(model_dir)
    assert f"model {first[:12]}" in " ".join(message.split())
    assert not out.exists()


def test_codes_of_one_model_are_not_added_to_those_of_another(
    model_dir: Path, other_dir: Path, index_dir: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = shutil.copytree(other_dir, tmp_path / "run"), shutil.copytree(index_dir, tmp_path / "an.index")
    replace_when_loaded(run, model_dir, monkeypatch)
    message = refused("index", run, photos, "--out", out, "--add", "--quiet")
    assert "codes of the model" in " ".join(message.split())


def test_a_search_compares_the_model_that_it_loaded(
    model_dir: Path, other_dir: Path, index_dir: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its folder holds by now does not matter."""
    run = shutil.copytree(model_dir, tmp_path / "run")
    replace_when_loaded(run, other_dir, monkeypatch)
    arguments = ("search", index_dir, photos / "bars" / "1.png", "--model", run, "--top", 1)
    assert "bars/1.png" in succeed(*arguments).out
    assert "codes of the model" in " ".join(refused(*arguments).split())


def test_a_model_that_is_a_link_is_not_followed(index_dir: Path, photos: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(index_dir, tmp_path / "copy.index")
    shutil.rmtree(copy / "model")
    (copy / "model").symlink_to(index_dir / "model")
    query = photos / "bars" / "1.png"
    for verb in (["search", copy, query], ["verify", copy]):
        assert re.search("model.*symbolic link", refused(*verb))
    assert "bars/1.png" in succeed("search", copy, query, "--model", index_dir / "model").out
