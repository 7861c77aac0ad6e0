import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap
from eigenmap.core import folders
from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.directory import Directory
from eigenmap.search.log import read_log
from eigenmap.search.open_folder import OpenFolder

K = 20
MODEL = Path(__file__).parents[1] / "compatibility" / "v0_1" / "graph" / "model"


def codes(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


@pytest.fixture
def saved(tmp_path):
    """An index of 20 items on disk, written in two changes."""
    index = CodeIndex(K, "inner", fingerprint="abc", where=tmp_path / "photos.index")
    index.add(codes(20)[:12], [f"{i}.jpg" for i in range(12)])
    index.add(codes(20)[12:], [f"{i}.jpg" for i in range(12, 20)])
    return tmp_path / "photos.index"


def change(path, **entries):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | entries))


def test_the_directory_holds_what_is_documented_and_nothing_hidden_is_left(saved):
    assert {file.name for file in saved.iterdir()} == {
        *("index.json", "codec.json", "log", "ids.bin", "ids.ends", "ids.hash", "metadata.bin", "metadata.ends"),
        *("features-0-8.bin", "features-8-16.bin", "features-16-20.bin"),
    }
    assert [file.name for file in saved.parent.iterdir()] == ["photos.index"]
    stored = np.fromfile(saved / "features-8-16.bin", "<f4").reshape(20, 8)
    np.testing.assert_array_equal(stored, codes(20)[:, 8:16])
    assert (saved / "ids.bin").read_bytes().startswith(b"0.jpg1.jpg2.jpg")
    assert np.fromfile(saved / "ids.ends", "<i8")[:3].tolist() == [5, 10, 15]


def test_an_index_is_read_back(saved):
    index = CodeIndex.open(saved)
    assert (index.n_components, index.metric, index.fingerprint, len(index)) == (K, "inner", "abc", 20)
    assert index.ids == [f"{i}.jpg" for i in range(20)]
    np.testing.assert_array_equal(index.codes(index.ids), codes(20))
    index.backend.verify()


def test_a_loaded_index_grows_and_is_saved_over_itself(saved):
    index = CodeIndex.load(saved)
    index.add(codes(3, seed=1), ["x", "y", "z"])
    index.delete(["3.jpg"])
    index.save(saved, overwrite=True)
    again = CodeIndex.load(saved)
    assert again.ids == index.ids and len(again) == 22
    assert not (saved / "deleted.bin").exists()  # what is gone is not copied
    queries = codes(4, seed=2)
    assert again.search(queries, 22).ids == index.search(queries, 22).ids
    index.add(codes(1, seed=3), ["new"])  # the same object goes on with the new directory
    assert "new" in CodeIndex.open(saved).ids
    with pytest.raises(EigenmapError, match=r"'7\.jpg'.*already"):
        again.add(codes(1), ["7.jpg"])
    assert [file.name for file in saved.parent.iterdir()] == ["photos.index"]


def test_two_processes_read_one_index(saved):
    program = (
        "import sys, json, numpy as np\n"
        "from eigenmap.search import CodeIndex\n"
        "assert 'faiss' not in sys.modules\n"
        "index = CodeIndex.open(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "queries = np.array(json.loads(sys.stdin.readline()), dtype=np.float32)\n"
        "print(json.dumps([index.search(queries, 5, dim=3).ids, len(index)]))\n"
    )
    readers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program, str(saved)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert [reader.stdout.readline() for reader in readers] == ["ready\n"] * 2  # both have it open now
    queries = codes(4, seed=1)
    writer = CodeIndex.open(saved)
    writer.add(queries, list("abcd"))  # and see what is added meanwhile
    expected = [writer.search(queries, 5, dim=3).ids, 24]
    answers = [reader.communicate(json.dumps(queries.tolist()) + "\n", timeout=60)[0] for reader in readers]
    assert [json.loads(answer) for answer in answers] == [expected] * 2


def test_two_objects_take_turns_in_changing_an_index(saved):
    one, two = CodeIndex.open(saved), CodeIndex.open(saved)
    one.add(codes(1, seed=1), ["one"])
    two.add(codes(1, seed=2), ["two"])
    one.delete(["two"])
    with pytest.raises(EigenmapError, match=r"no item.*'two'"):
        two.update(codes(1), ["two"])
    assert one.ids == two.ids == [*(f"{i}.jpg" for i in range(20)), "one"]


def test_a_model_is_copied_inside_and_other_files_do_not_disturb(tmp_path):
    shutil.copytree(MODEL, tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    index = CodeIndex(K)
    index.add(codes(2), [1, 2])
    path = tmp_path / "new" / "parents" / "index"
    with pytest.raises(EigenmapError, match=r"run.*model\.safetensors"):
        index.save(path, model_dir=tmp_path / "run")
    assert not path.exists()
    shutil.copy(MODEL / "model.safetensors", tmp_path / "run")
    index.save(path, model_dir=tmp_path / "run")
    assert Eigenmap.fingerprint(path / "model") == Eigenmap.fingerprint(MODEL)
    (path / "notes.txt").write_text("mine")
    assert CodeIndex.open(path).ids == [1, 2]


def test_an_existing_index_is_replaced_only_when_asked(saved):
    index = CodeIndex(K)
    index.add(codes(1), ["new"])
    with pytest.raises(EigenmapError, match=r"photos\.index exists"):
        index.save(saved)
    with pytest.raises(EigenmapError, match=r"photos\.index exists"):
        CodeIndex(K, where=saved)
    assert len(CodeIndex.open(saved)) == 20
    index.save(saved, overwrite=True)
    assert CodeIndex.open(saved).ids == ["new"]


def test_what_is_not_an_index_is_never_overwritten(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("a cat")
    (tmp_path / "file").write_text("text")
    index = CodeIndex(K)
    index.add(codes(1), ["new"])
    for name in ("photos", "file"):
        with pytest.raises(EigenmapError, match=r"exists.*index"):
            index.save(tmp_path / name, overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "a cat"
    assert (tmp_path / "file").read_text() == "text"


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("text")
    index = CodeIndex(K)
    index.add(codes(1), ["new"])
    with pytest.raises(EigenmapError, match=r"file/index.*(Not a directory|File exists)"):
        index.save(tmp_path / "file" / "index")


@pytest.mark.parametrize("step", ["append", "replace", "exchange"])
def test_a_failure_to_save_leaves_the_old_index_and_nothing_else(saved, monkeypatch, step):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    index = CodeIndex(K)
    index.add(codes(1), ["new"])
    monkeypatch.setattr(folders if step == "exchange" else OpenFolder, step, fail)
    with pytest.raises(EigenmapError, match="No space left on device"):
        index.save(saved, overwrite=True)
    assert len(CodeIndex.open(saved)) == 20
    assert [file.name for file in saved.parent.iterdir()] == ["photos.index"]


def test_an_index_without_hashes_gets_them_with_the_next_change(saved):
    """As versions before them wrote it."""
    log = read_log((saved / "log").read_bytes())
    for entries in (log.state.sizes, log.state.crc32):
        del entries["ids.hash"]
    (saved / "log").write_bytes(log.compacted()[0])
    (saved / "ids.hash").unlink()
    index = CodeIndex.open(saved)
    with pytest.raises(EigenmapError, match=r"'3\.jpg'.*already"):
        index.add(codes(1), ["3.jpg"])
    index.upsert(codes(2, seed=5), ["3.jpg", "new"])
    assert (saved / "ids.hash").stat().st_size == 8 * 22
    again = CodeIndex.open(saved)
    again.backend.verify()
    np.testing.assert_array_equal(again.codes(["3.jpg", "new", "0.jpg"])[:2], codes(2, seed=5))


@pytest.mark.parametrize("fails_at", range(8))
def test_a_full_disk_leaves_the_index_as_it_was(saved, monkeypatch, fails_at):
    calls, real = [], OpenFolder.append

    def fail(folder, name, size, content, durable):
        calls.append(name)
        real(folder, name, size, content, durable)
        if len(calls) == fails_at + 1:
            raise OSError(28, "No space left on device")

    index = CodeIndex.open(saved)
    monkeypatch.setattr(OpenFolder, "append", fail)
    with pytest.raises(EigenmapError, match="No space left"):
        index.add(codes(2, seed=5), ["a", "b"])
    assert (calls[-1] == "log") == (fails_at == 7)  # the log is the last
    monkeypatch.setattr(OpenFolder, "append", real)
    for each in (index, CodeIndex.open(saved)):
        assert len(each) == 20 and "a" not in each.ids
    index.add(codes(2, seed=5), ["a", "b"])
    again = CodeIndex.open(saved)
    again.backend.verify()
    np.testing.assert_array_equal(again.codes(["a", "b"]), codes(2, seed=5))


@pytest.mark.parametrize("lost", [2, 5, 60, "half"])
def test_bytes_that_no_whole_line_of_the_log_counts_are_not_read(saved, lost):
    log = (saved / "log").read_bytes()
    last = log.splitlines(keepends=True)[-1]
    cut = len(last) // 2 if lost == "half" else lost
    (saved / "log").write_bytes(log[:-cut])
    index = CodeIndex.open(saved)
    assert index.ids == [f"{i}.jpg" for i in range(12)]
    index.add(codes(1, seed=1), ["next"])
    again = CodeIndex.open(saved)
    again.backend.verify()
    assert again.ids == [*(f"{i}.jpg" for i in range(12)), "next"]
    np.testing.assert_array_equal(again.codes(["next"]), codes(1, seed=1))


def test_a_place_without_an_index_is_named(tmp_path):
    with pytest.raises(EigenmapError, match=r"nowhere.*directory"):
        CodeIndex.open(tmp_path / "nowhere")
    with pytest.raises(EigenmapError, match=r"index\.json"):
        CodeIndex.open(tmp_path)
    (tmp_path / "file").write_text("text")
    with pytest.raises(EigenmapError, match=r"file.*not an index"):
        CodeIndex.open(tmp_path / "file")


def test_another_format_version_is_refused(saved):
    change(saved / "index.json", format_version=1)
    with pytest.raises(EigenmapError, match=r"version 1.*version 3"):
        CodeIndex.open(saved)


def test_an_index_json_of_something_else_is_refused(saved):
    change(saved / "index.json", format="cookbook")
    with pytest.raises(EigenmapError, match="something else"):
        CodeIndex.open(saved)
    (saved / "index.json").write_text("[1, 2")
    with pytest.raises(EigenmapError, match=r"index\.json.*damaged"):
        CodeIndex.open(saved)


@pytest.mark.parametrize(
    "entries",
    [{"metric": "l2"}, {"n_components": "six"}, {"precision": "int3"}, {"surprise": 1}, {"approximate": {"x": 1}}],
)
def test_a_description_that_makes_no_sense_is_refused(saved, entries):
    change(saved / "index.json", **entries)
    with pytest.raises(EigenmapError, match=r"index\.json.*damaged"):
        CodeIndex.open(saved)


FILES = ["features-0-8.bin", "features-16-20.bin", "ids.bin", "ids.ends", "ids.hash", "metadata.ends"]


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_or_missing_file_is_named(saved, name):
    file = saved / name
    size = file.stat().st_size
    os.truncate(file, size - 1)
    with pytest.raises(EigenmapError, match=f"{name}.*truncated.*{size - 1:,} of {size:,}"):
        CodeIndex.open(saved)
    file.unlink()
    with pytest.raises(EigenmapError, match=rf"{name} is missing"):
        CodeIndex.open(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_byte_is_found_by_checking(saved, name):
    content = bytearray((saved / name).read_bytes())
    content[7] ^= 64
    (saved / name).write_bytes(content)
    with pytest.raises(EigenmapError, match=f"{name}.*checksum"):
        CodeIndex.open(saved).backend.verify()


@pytest.mark.parametrize("name", ["log", "codec.json"])
@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b"{"), lambda file: file.unlink()])
def test_a_damaged_log_or_codec_is_named(saved, name, damage):
    damage(saved / name)
    with pytest.raises(EigenmapError, match=f"{name}.*(missing|damaged)"):
        CodeIndex.open(saved)


def test_an_index_is_found_after_a_change_of_the_working_folder(saved, monkeypatch, tmp_path):
    monkeypatch.chdir(saved.parent)
    index = CodeIndex.open("photos.index")
    monkeypatch.chdir("/")
    CodeIndex.open(saved).add(codes(1, seed=5), ["new"])
    assert len(index) == 21
    index.add(codes(1, seed=6), ["newer"])
    assert len(CodeIndex.open(saved)) == 22


def test_notes_are_kept_and_damage_to_them_is_harmless(saved, tmp_path):
    place = Directory.open(saved)
    assert place.read_note("advice") is None
    place.write_note("advice", {"a": 1})
    assert Directory.open(saved).read_note("advice") == {"a": 1}
    (saved / "advice.json").write_text("[")
    assert place.read_note("advice") is None
    assert not list(saved.glob(".*"))


def test_notes_of_a_directory_that_cannot_be_written_are_lost_without_harm(saved, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    index = CodeIndex.open(saved)
    monkeypatch.setattr(os, "unlink", refuse)
    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(EigenmapError, match=r"advice\.json.*Read-only file system"):
        Directory.open(saved).write_note("advice", {"a": 1})
    index.backend.write_note("advice", {"a": 1})
    assert Directory.open(saved).read_note("advice") is None
