"""Vectors without a model, and codes of vectors: index, search, advise, duplicates, export, embed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenmap import CodeIndex, Eigenmap
from tests.cli.run import refused, succeed
from tests.formats.models import FEATURES, LENGTH, vector_model

COUNT = 40


def unit_rows(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("plain")
    x = np.random.default_rng(0).normal(1.0, 2.0, size=(COUNT, LENGTH)).astype(np.float32)
    x[33] = 3 * x[4]  # a duplicate by direction
    np.save(place / "x.npy", x)
    np.save(place / "queries.npy", x[[7, 9]] + 0.01)
    (place / "names.txt").write_text("".join(f"n{row}\n" for row in range(COUNT)))
    (place / "texts.txt").write_text("".join(f"Text {row}\n" for row in range(COUNT)))
    columns = {
        "id": [f"d{row}" for row in range(COUNT)],
        "vector": pa.array(x.tolist(), pa.list_(pa.float32())),
        "title": [f"Title {row}" for row in range(COUNT)],
        "year": list(range(2000, 2000 + COUNT)),
    }
    pq.write_table(pa.table(columns), place / "docs.parquet")
    vector_model(True).save(place / "run")
    succeed("index", place / "x.npy", "--out", place / "plain.index", "--quiet")
    return place


def found(folder: Path, *args: object) -> list[list[str]]:
    """Ids of the results of both queries."""
    succeed("search", *args, "--json", folder / "found.json", "--force", "--quiet")
    results = json.loads((folder / "found.json").read_text())["results"]
    return [[hit["id"] for hit in each["found"]] for each in results]


def expected(folder: Path, dim: int, top: int) -> list[list[str]]:
    x, queries = (unit_rows(np.load(folder / name)[:, :dim].astype(np.float64)) for name in ("x.npy", "queries.npy"))
    return [[str(row) for row in order[:top]] for order in np.argsort(-queries @ x.T, axis=1, kind="stable")]


@pytest.mark.parametrize("form", ["npy", "npz", "parquet"])
def test_codes_that_embed_wrote_keep_their_names_without_the_model(form: str, folder: Path, tmp_path: Path) -> None:
    codes, names = tmp_path / f"codes.{form}", [f"d{row}" for row in range(COUNT)]
    succeed("embed", folder / "run", folder / "docs.parquet", "--out", codes, "--quiet")
    succeed("index", codes, "--out", tmp_path / "index", "--quiet")
    assert list(CodeIndex.open(tmp_path / "index").ids) == names
    numbers = folder / "names.txt"  # names that are given come first
    succeed("index", codes, "--ids", numbers, "--out", tmp_path / "index", "--force", "--quiet")
    assert list(CodeIndex.open(tmp_path / "index").ids) == numbers.read_text().split()


@pytest.mark.parametrize("dim", [3, LENGTH])
def test_vectors_alone_are_indexed_and_searched(folder: Path, dim: int) -> None:
    wanted = expected(folder, dim, 5)
    assert found(folder, folder / "plain.index", folder / "queries.npy", "--dim", dim, "--top", 5) == wanted
    assert found(folder, folder / "x.npy", folder / "queries.npy", "--dim", dim, "--top", 5) == wanted
    with CodeIndex.open(folder / "plain.index") as index:
        assert index.fingerprint is None and not (folder / "plain.index" / "model").exists()


def test_names_texts_and_columns(folder: Path, tmp_path: Path) -> None:
    options = ("--ids", folder / "names.txt", "--texts", folder / "texts.txt")
    succeed("index", folder / "x.npy", *options, "--out", tmp_path / "a.index", "--bytes-per-item", 12)
    with CodeIndex.open(tmp_path / "a.index") as index:
        assert index.ids[:2] == ["n0", "n1"] and index.metadata(["n7"]) == [{"text": "Text 7"}]
    said = succeed("search", tmp_path / "a.index", folder / "queries.npy", "--top", 1).out
    assert "n7" in said and "Text 7" in said and "title" in said
    succeed("index", folder / "run", folder / "docs.parquet", "--fields", "year", "--out", tmp_path / "b.index")
    assert found(tmp_path, tmp_path / "b.index", folder / "queries.npy", "--where", "year=2009") == [["d9"], ["d9"]]
    succeed("index", folder / "docs.parquet", "--ids", "title", "--out", tmp_path / "c.index")
    assert found(tmp_path, tmp_path / "c.index", folder / "queries.npy", "--top", 1) == [["Title 7"], ["Title 9"]]


def test_more_vectors_are_added(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "more.npy", 5 - np.load(folder / "x.npy")[:3])
    succeed("index", folder / "x.npy", "--out", tmp_path / "a.index", "--dim", 5, "--quiet")
    said = succeed("index", tmp_path / "more.npy", "--out", tmp_path / "a.index", "--add").err
    assert "43 vectors" in said and "3 added" in said
    assert "from 12 to 5 numbers" in succeed("search", tmp_path / "a.index", folder / "queries.npy").err


def test_measurements_on_a_file_of_vectors(folder: Path, tmp_path: Path) -> None:
    assert re.search(r"1\.0000 +4 +33", succeed("duplicates", folder / "x.npy", "--threshold", 0.999).out)
    assert "Recommended" in succeed("advise", folder / "x.npy", "--queries", 5, "--quiet").out
    assert "40 codes" in succeed("export", folder / "docs.parquet", "--to", tmp_path / "x.faiss").err


@pytest.mark.parametrize("name", ["codes.npy", "codes.npz", "codes.parquet"])
def test_codes_of_vectors_are_embedded_and_indexed(folder: Path, tmp_path: Path, name: str) -> None:
    succeed("embed", folder / "run", folder / "docs.parquet", "--out", tmp_path / name, "--dim", 5)
    more = ("--codes",) if name == "codes.npy" else ()
    succeed("index", folder / "run", tmp_path / name, *more, "--out", tmp_path / "a.index", "--dim", 5)
    with CodeIndex.open(tmp_path / "a.index") as index:
        assert index.ids == [f"d{row}" for row in range(COUNT)]
        codes = Eigenmap.load(folder / "run").encode(np.load(folder / "x.npy"), 5)
        np.testing.assert_allclose(index.codes(index.ids), codes, atol=1e-6)
    assert found(tmp_path, tmp_path / "a.index", folder / "queries.npy", "--top", 1) == [["d7"], ["d9"]]


@pytest.mark.slow
def test_a_table_of_a_database(folder: Path, tmp_path: Path, database: str) -> None:
    source = ("--to", database, "--table")
    said = succeed("index", folder / "docs.parquet", *source, "plain", "--prefix", 0).err
    assert "40 items of 12 features" in said
    wanted = [[f"d{name}" for name in names] for names in expected(folder, 4, 5)]
    table = (database, folder / "queries.npy", "--table")
    assert found(tmp_path, *table, "plain", "--dim", 4, "--top", 5) == wanted
    succeed("index", folder / "run", folder / "docs.parquet", *source, "codes", "--fields", "title,year")
    assert found(tmp_path, *table, "codes", "--top", 1) == [["d7"], ["d9"]]
    assert found(tmp_path, *table, "codes", "--where", "year>=2039") == [["d39"], ["d39"]]
    assert "Title 7" in succeed("search", *table, "codes", "--top", 1).out
    assert re.search(r"d4 +d33", succeed("duplicates", database, "--table", "plain", "--threshold", 0.999).out)


def test_mistakes(folder: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "a.index")
    np.save(tmp_path / "short.npy", np.ones((2, 5), np.float32))
    succeed("index", folder / "run", folder / "x.npy", "--out", tmp_path / "model.index", "--quiet")
    for args, words in [
        ((folder / "x.npy", folder / "queries.npy", *out), r"x\.npy is a file of vectors.*RUN"),
        ((folder / "run", *out), r"SOURCE is missing.*run"),
        ((tmp_path / "none.npy", *out), r"none\.npy does not exist"),
        ((folder / "x.npy", "--side", "left", *out), r"--side.*model"),
        ((folder / "x.npy", "--codes", *out), r"--codes.*model"),
        ((folder / "x.npy", "--dim", 13, *out), r"dim.*1 to 12.*13"),
        ((folder / "x.npy", "--add", "--out", tmp_path / "model.index"), r"model\.index contains codes of a model"),
        ((folder / "run", tmp_path / "short.npy", *out), r"12 numbers.*5; .*--codes"),
        ((folder / "run", tmp_path / "short.npy", "--codes", "--ids", "x", *out), r"--ids.*codes"),
        ((folder / "run", tmp_path / "short.npy", "--codes", *out), r"5 features; use --dim 5"),
    ]:
        assert re.search(words, refused("index", *args)), words
    assert re.search(r"12 numbers.*fewer", refused("search", folder / "x.npy", tmp_path / "short.npy"))
    assert re.search(r"--side.*model", refused("search", folder / "x.npy", folder / "queries.npy", "--side", "left"))
    assert "no known model" in refused("search", folder / "x.npy", folder / "queries.npy", "--model", folder / "run")
    assert not (tmp_path / "a.index").exists() and FEATURES == 7
