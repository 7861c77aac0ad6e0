import json
import subprocess
import sys

import numpy as np
import pytest

from eigenmap.errors import EigenmapError
from eigenmap.search import CodeIndex, directory

K = 6


def codes(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


@pytest.fixture
def saved(tmp_path):
    """An index of 20 items on disk."""
    index = CodeIndex(K, "inner", fingerprint="abc")
    index.add(codes(20), [f"{i}.jpg" for i in range(20)])
    index.save(tmp_path / "photos.index")
    return tmp_path / "photos.index"


def change_header(path, **entries):
    header = json.loads((path / "index.json").read_text())
    (path / "index.json").write_text(json.dumps(header | entries))


def test_a_saved_index_is_read_back_memory_mapped(saved):
    index = CodeIndex.load(saved)
    assert (index.n_components, index.metric, index.fingerprint, len(index)) == (K, "inner", "abc", 20)
    (part,) = index._store.parts
    assert isinstance(part, np.memmap) and not part.flags.writeable
    np.testing.assert_array_equal(part, codes(20))


def test_the_directory_holds_what_is_documented_and_nothing_hidden_is_left(saved):
    assert {file.name for file in saved.iterdir()} == {"index.json", "codes.npy", "ids.json"}
    assert [file.name for file in saved.parent.iterdir()] == ["photos.index"]
    assert json.loads((saved / "index.json").read_text()) == {
        "format": "eigenmap-index",
        "format_version": 1,
        "n_components": K,
        "metric": "inner",
        "count": 20,
        "id_type": "str",
        "fingerprint": "abc",
    }


def test_a_loaded_index_grows_and_is_saved_over_itself(saved):
    index = CodeIndex.load(saved)
    index.add(codes(3, seed=1), ["x", "y", "z"])
    assert index.search(codes(3, seed=1), 1).ids != [] and len(index) == 23
    index.save(saved, overwrite=True)
    again = CodeIndex.load(saved)
    assert again.ids == index.ids
    queries = codes(4, seed=2)
    assert again.search(queries, 23).ids == index.search(queries, 23).ids
    with pytest.raises(EigenmapError, match=r"the id '7\.jpg' is there already"):
        again.add(codes(1), ["7.jpg"])
    assert [file.name for file in saved.parent.iterdir()] == ["photos.index"]


def test_two_processes_read_one_index(saved):
    program = (
        "import sys, json, numpy as np\n"
        "from eigenmap.search import CodeIndex\n"
        "assert 'faiss' not in sys.modules\n"
        "index = CodeIndex.load(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "queries = np.array(json.loads(sys.stdin.readline()), dtype=np.float32)\n"
        "print(json.dumps(index.search(queries, 5, dim=3).ids))\n"
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
    answers = [reader.communicate(json.dumps(queries.tolist()) + "\n", timeout=60)[0] for reader in readers]
    expected = CodeIndex.load(saved).search(queries, 5, dim=3).ids
    assert [json.loads(answer) for answer in answers] == [expected] * 2


def test_a_model_is_copied_inside_and_other_files_do_not_disturb(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.json").write_text("{}")
    index = CodeIndex(K)
    index.add(codes(2), [1, 2])
    index.save(tmp_path / "new" / "parents" / "index", model_dir=tmp_path / "run")
    path = tmp_path / "new" / "parents" / "index"
    assert (path / "model" / "model.json").read_text() == "{}"
    (path / "notes.txt").write_text("mine")
    assert CodeIndex.load(path).ids == [1, 2]


def test_an_existing_index_is_replaced_only_when_asked(saved):
    index = CodeIndex(K)
    index.add(codes(1), ["new"])
    with pytest.raises(EigenmapError, match=r"photos\.index exists already"):
        index.save(saved)
    assert len(CodeIndex.load(saved)) == 20
    index.save(saved, overwrite=True)
    assert CodeIndex.load(saved).ids == ["new"]


def test_what_is_not_an_index_is_never_overwritten(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("a cat")
    (tmp_path / "file").write_text("text")
    index = CodeIndex(K)
    index.add(codes(1), ["new"])
    for name in ("photos", "file"):
        with pytest.raises(EigenmapError, match="exists and is not an index, so it is not overwritten"):
            index.save(tmp_path / name, overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "a cat"
    assert (tmp_path / "file").read_text() == "text"


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("text")
    index = CodeIndex(K)
    index.add(codes(1), ["new"])
    with pytest.raises(EigenmapError, match=r"cannot write the index .*file/index: Not a directory"):
        index.save(tmp_path / "file" / "index")


@pytest.mark.parametrize("step", ["_write_codes", "_write_json", "_swap"])
def test_a_failure_leaves_the_old_index_and_nothing_else(saved, monkeypatch, step):
    def fail(*_):
        raise OSError(28, "No space left on device")

    index = CodeIndex(K)
    index.add(codes(1), ["new"])
    monkeypatch.setattr(directory, step, fail)
    with pytest.raises(EigenmapError, match="No space left on device"):
        index.save(saved, overwrite=True)
    assert len(CodeIndex.load(saved)) == 20
    assert [file.name for file in saved.parent.iterdir()] == ["photos.index"]


def test_the_old_index_comes_back_if_the_new_one_cannot_take_its_place(saved):
    with pytest.raises(FileNotFoundError):
        directory._swap(saved.parent / ".not-there", saved)
    assert len(CodeIndex.load(saved)) == 20
    assert [file.name for file in saved.parent.iterdir()] == ["photos.index"]


def test_a_place_without_an_index_is_named(tmp_path):
    with pytest.raises(EigenmapError, match=r"nowhere is not an index \(there is no such directory\)"):
        CodeIndex.load(tmp_path / "nowhere")
    with pytest.raises(EigenmapError, match=r"is not an index \(it has no index\.json\); make one with"):
        CodeIndex.load(tmp_path)


def test_another_format_version_is_refused(saved):
    change_header(saved, format_version=2)
    with pytest.raises(EigenmapError, match="has index format version 2, but this eigenmap reads version 1"):
        CodeIndex.load(saved)


def test_an_index_json_of_something_else_is_refused(saved):
    change_header(saved, format="cookbook")
    with pytest.raises(EigenmapError, match="describes something else"):
        CodeIndex.load(saved)
    (saved / "index.json").write_text("[1, 2")
    with pytest.raises(EigenmapError, match=r"index\.json is missing, truncated or damaged"):
        CodeIndex.load(saved)


@pytest.mark.parametrize(
    "entries", [{"metric": "l2"}, {"count": -1}, {"n_components": "six"}, {"id_type": "list"}, {"surprise": 1}]
)
def test_a_header_that_makes_no_sense_is_refused(saved, entries):
    change_header(saved, **entries)
    with pytest.raises(EigenmapError, match=r"index\.json is damaged"):
        CodeIndex.load(saved)


@pytest.mark.parametrize("length", [0, 5, 100, -1, -4 * K * 10])
def test_a_truncated_codes_file_is_named(saved, length):
    content = (saved / "codes.npy").read_bytes()
    (saved / "codes.npy").write_bytes(content[:length])
    with pytest.raises(EigenmapError, match=r"codes\.npy is missing, truncated or damaged \(it should hold 20"):
        CodeIndex.load(saved)


def test_a_codes_file_of_other_content_is_named(saved):
    np.save(saved / "codes.npy", codes(20).astype(np.float64))
    with pytest.raises(EigenmapError, match=r"codes\.npy holds a float64 matrix of shape \(20, 6\)"):
        CodeIndex.load(saved)
    np.save(saved / "codes.npy", codes(19))
    with pytest.raises(EigenmapError, match=r"shape \(19, 6\), but index\.json says float32 \(20, 6\)"):
        CodeIndex.load(saved)
    np.save(saved / "codes.npy", np.array([{"a": "pickle"}]), allow_pickle=True)
    with pytest.raises(EigenmapError, match=r"codes\.npy is missing, truncated or damaged"):
        CodeIndex.load(saved)
    (saved / "codes.npy").unlink()
    with pytest.raises(EigenmapError, match=r"codes\.npy is missing"):
        CodeIndex.load(saved)


def test_damaged_ids_are_named(saved):
    (saved / "ids.json").write_text('["a", "b"]')
    with pytest.raises(EigenmapError, match=r"ids\.json is damaged: it should list 20 ids of type str"):
        CodeIndex.load(saved)
    (saved / "ids.json").write_text(json.dumps(list(range(20))))
    with pytest.raises(EigenmapError, match=r"ids\.json is damaged"):
        CodeIndex.load(saved)
    (saved / "ids.json").write_text('["a", ')
    with pytest.raises(EigenmapError, match=r"ids\.json is missing, truncated or damaged"):
        CodeIndex.load(saved)
