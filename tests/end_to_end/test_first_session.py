"""What a user does on the first day, each command in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import eigenmap as em
from eigenmap.data import load_images
from tests.end_to_end.photos import KINDS, pictures
from tests.end_to_end.process import eigenmap, finish, start


def test_fit_leaves_a_model_that_python_can_use(fitted: Path) -> None:
    model = em.Eigenmap.load(fitted / "runs" / "mine")
    assert model.training["images"] + model.training["held_out_images"] == 60
    assert model.encode(pictures(5), dim=4).shape == (5, 4)
    assert 1 <= model.suggest_dim(recall=0.95) <= model.n_components


def test_embed(fitted: Path) -> None:
    eigenmap("embed", "runs/mine", "PHOTOS", "--out", "codes.npy", "--dim", 4, cwd=fitted)
    codes, names = np.load(fitted / "codes.npy"), json.loads((fitted / "codes.ids.json").read_text())
    assert codes.shape == (60, 4) and len(names) == 60
    model = em.Eigenmap.load(fitted / "runs" / "mine")
    for name in ("bars/older/0.jpg", "disc/2.jpg", "stripes/1.png"):  # one of them is stored on its side
        images = load_images(fitted / "PHOTOS" / name, size=16)
        np.testing.assert_allclose(codes[names.index(name)], model.encode(images, dim=4)[0], atol=1e-5)


def test_index_and_search(fitted: Path) -> None:
    eigenmap("index", "runs/mine", "PHOTOS", "--out", "photos.index", cwd=fitted)
    (fitted / "runs" / "mine").rename(fitted / "runs" / "away")  # the index needs nothing but itself
    try:
        result = eigenmap("search", "photos.index", "PHOTOS/disc/2.jpg", "--dim", 4, "--top", 3, cwd=fitted)
    finally:
        (fitted / "runs" / "away").rename(fitted / "runs" / "mine")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in result.out.splitlines() if "│" in line]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert rows[0][1:] == ["1.0000", "disc/2.jpg"]
    assert result.err == ""


def write_table(photos: Path, file: Path, words: dict[str, str]) -> None:
    """A CSV file that says in other words which class folder each photo is in."""
    names = sorted(path.relative_to(photos) for path in photos.rglob("*.*g"))
    file.write_text("\n".join(["file,labels", *(f"{name},{words[name.parts[0]]}" for name in names)]) + "\n")


def test_evaluate_with_class_folders_and_with_tables(fitted: Path) -> None:
    """The same labels from folders and from tables give the same scores, better ones than chance."""
    for name in ("PHOTOS", "QUERIES"):
        write_table(fitted / name, fitted / f"{name}.csv", {kind: kind for kind in KINDS})
    evaluate = ("evaluate", "retrieval", "runs/mine", "--gallery", "PHOTOS", "--query", "QUERIES", "--top", 5, 20)
    tables = ("--gallery-labels", "PHOTOS.csv", "--query-labels", "QUERIES.csv")
    processes = [
        start(*evaluate, "--json", "folders.json", cwd=fitted),
        start(*evaluate, *tables, "--json", "tables.json", cwd=fitted),
    ]
    by_folders, by_tables = (finish(process) for process in processes)
    assert (by_folders.code, by_tables.code) == (0, 0), (by_folders, by_tables)
    assert by_folders.out == by_tables.out
    folders, table = (json.loads((fitted / f"{name}.json").read_text()) for name in ("folders", "tables"))
    assert folders["rows"] == table["rows"]
    assert [row["dim"] for row in folders["rows"]] == [2, 4, 8, 16]
    assert all(row["precision@5"] > 0.6 for row in folders["rows"][1:])  # a third by chance
    assert folders["model"]["fingerprint"] == em.Eigenmap.fingerprint(fitted / "runs" / "mine")


def test_evaluate_with_several_labels_an_image(fitted: Path, tmp_path: Path) -> None:
    words = {"bars": "blue lines", "disc": "green", "stripes": "red lines"}
    write_table(fitted / "QUERIES", tmp_path / "labels.csv", words)
    eigenmap(
        *("evaluate", "retrieval", "runs/mine", "--gallery", "QUERIES", "--gallery-labels", tmp_path / "labels.csv"),
        *("--top", 11, "--dims", 4, "--json", tmp_path / "r.json"),
        cwd=fitted,
    )
    (row,) = json.loads((tmp_path / "r.json").read_text())["rows"]
    # Of the 11 others 7 are relevant to each of the 8 with lines, and 3 to each of the 4 discs.
    assert row["precision@11"] == pytest.approx((8 * 7 + 4 * 3) / 12 / 11)


def test_info(fitted: Path) -> None:
    assert "trained on" in eigenmap("info", "runs/mine", cwd=fitted).out


def test_a_reader_that_goes_away_is_no_error(fitted: Path) -> None:
    process = start("objectives", cwd=fitted)
    assert process.stdout is not None
    process.stdout.close()
    process.wait(timeout=60)
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == ""
