from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile, copytree

import numpy as np
import pytest

from eigenmap.cli.outputs import atomic_output, check_file, check_index, write_json_output
from eigenmap.core.errors import EigenmapError
from eigenmap.embedding.files import write_matrix
from tests.cli.run import refused, succeed
from tests.linear.planted import planted


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_file_may_be_written_anywhere_and_checking_creates_nothing(tmp_path: Path) -> None:
    check_file(tmp_path / "a" / "b" / "codes.npy", force=False)
    check_index(tmp_path / "a" / "photos.index", force=False)
    assert not list(tmp_path.iterdir())


def test_a_relative_name_is_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_file(Path("codes.npy"), force=False)
    write_json_output(Path("codes.json"), [1])
    assert (tmp_path / "codes.json").exists()


def test_what_exists_is_refused_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "codes.npy"
    file.write_text("")
    with pytest.raises(EigenmapError, match=r"exists.*--force"):
        check_file(file, force=False)
    check_file(file, force=True)
    with pytest.raises(EigenmapError, match="is a folder"):
        check_file(tmp_path, force=True)


def test_no_command_replaces_what_it_reads(index_dir: Path, array_file: Path, model_dir: Path, tmp_path: Path) -> None:
    vectors, queries = tmp_path / "x.npy", tmp_path / "queries.npy"
    x, y = planted(400)
    np.save(vectors, x)
    np.save(tmp_path / "y.npy", y)
    np.save(queries, np.ones((2, 8), np.float32))
    run, index, pictures = tmp_path / "run", tmp_path / "photos.index", tmp_path / "pictures.npz"
    succeed("fit", "vectors", vectors, "--pairs", tmp_path / "y.npy", "--out", run)
    copytree(index_dir, index)
    copyfile(array_file, pictures)
    (tmp_path / "link.npy").symlink_to(vectors)
    before = content(tmp_path)
    for words in (
        ("embed", run, vectors, "--out", vectors),
        ("embed", run, vectors, "--out", tmp_path / "link.npy"),
        ("embed", model_dir, pictures, "--out", pictures),
        ("export", run, "--to", run / "model.safetensors"),
        ("search", index, queries, "--json", queries),
        ("search", index, queries, "--json", index / "index.json"),
        ("search", index, queries, "--json", index / "log"),
        ("advise", vectors, "--json", vectors),
        ("advise", run, "--json", run / "model.json"),
        ("duplicates", vectors, "--json", vectors),
        ("report", run, "--out", run / "model.json"),
        ("report", vectors, "--json", vectors),
        ("evaluate", "retrieval", model_dir, "--gallery", pictures, "--json", pictures),
        ("evaluate", "classes", model_dir, "--train", pictures, "--test", queries, "--json", pictures),
        ("evaluate", "nodes", run, vectors, "--json", vectors),
        ("fit", "vectors", vectors, "--pairs", tmp_path / "y.npy", "--out", tmp_path / "new", "--json", vectors),
        ("fit", "vectors", vectors, "--pairs", queries, "--out", tmp_path / "new", "--json", queries),
    ):
        assert "an input of this command" in refused(*words, "--force")
        assert content(tmp_path) == before
    for _ in range(2):  # other files in the folder of a run may be replaced
        succeed("export", run, "--to", run / "codes.npy", "--force")


def test_only_an_index_is_replaced_by_an_index(tmp_path: Path) -> None:
    check_index(tmp_path, force=False)  # an empty folder is nothing
    (tmp_path / "file").touch()
    for force in (False, True):
        with pytest.raises(EigenmapError, match=r"exists.*index"):
            check_index(tmp_path, force)
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(EigenmapError, match="use --force"):
        check_index(tmp_path, force=False)
    check_index(tmp_path, force=True)


@pytest.mark.parametrize("place", ["file/codes.npy", "file/deeper/codes.npy"])
def test_a_place_below_a_file_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for check in (check_file, check_index):
        with pytest.raises(EigenmapError, match=r"written.*Not a directory"):
            check(tmp_path / place, False)


def test_a_place_where_nothing_can_be_made_is_refused_whoever_asks() -> None:
    with pytest.raises(EigenmapError, match=r"/proc/codes\.npy.*written"):
        check_file(Path("/proc/codes.npy"), force=False)


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    with pytest.raises(RuntimeError), atomic_output(file) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert not list(file.parent.iterdir())
    with atomic_output(file) as stream:
        stream.write(b"whole")
        assert not file.exists()
    assert file.read_bytes() == b"whole" and list(file.parent.iterdir()) == [file]


def test_the_old_file_survives_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with pytest.raises(EigenmapError, match=r"file .*No space left"), atomic_output(file) as stream:
        stream.write(b"new")
        raise OSError(28, "No space left on device")
    assert file.read_bytes() == b"old" and list(tmp_path.iterdir()) == [file]


def test_json_keeps_names_that_are_no_text(tmp_path: Path) -> None:
    write_json_output(tmp_path / "names.json", ["caf\udce9.jpg", "é"])
    assert json.loads((tmp_path / "names.json").read_bytes()) == ["caf\udce9.jpg", "é"]


@pytest.mark.parametrize("n", [0, 5])
def test_a_matrix_written_in_blocks_is_the_file_of_the_whole(tmp_path: Path, n: int) -> None:
    whole = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    np.save(tmp_path / "whole.npy", whole)
    with atomic_output(tmp_path / "blocks.npy") as file:
        write_matrix(file, (n, 3), (whole[start : start + 2] for start in range(0, n, 2)))
    assert (tmp_path / "blocks.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
