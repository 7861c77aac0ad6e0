from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenmap import EigenmapError
from eigenmap.data.vectors.fields import LONGEST_TEXT, describe

ROWS = np.arange(20, dtype=np.float32).reshape(5, 4)
COLUMNS = {
    "id": ["a", "b", "c", "d", "e"],
    "vector": pa.array(ROWS.tolist(), pa.list_(pa.float32())),
    "title": ["one", None, "three", "four", "five"],
    "text": ["x" * (LONGEST_TEXT + 1), "y", "z", "", "w"],
    "year": [2000, 2001, 2002, 2003, 2004],
    "score": [0.5, float("nan"), 1.5, 2.5, 3.5],
    "tags": [["p"], [], [], [], []],
}


@pytest.fixture(params=["docs.parquet", "docs.arrow"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path, table = tmp_path / request.param, pa.table(COLUMNS)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=2)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


def test_titles_and_texts_come_by_themselves(file: Path) -> None:
    found = describe(file)
    assert found.vectors.names() == COLUMNS["id"] and found.columns == ("title", "text")
    rows = list(found.rows())
    assert len(rows) == 5 and rows[2] == {"title": "three", "text": "z"} and rows[1] == {"text": "y"}
    assert len(rows[0]["text"]) == LONGEST_TEXT and str(rows[0]["text"]).endswith("x…")  # type: ignore[arg-type]


def test_columns_and_ids_of_ones_own(file: Path, tmp_path: Path) -> None:
    found = describe(file, ids="year", columns=["score", "title"])
    assert found.vectors.names() == ["2000", "2001", "2002", "2003", "2004"]
    assert [row.get("score") for row in found.rows()] == [0.5, None, 1.5, 2.5, 3.5]
    assert list(describe(file, columns=[]).rows()) == [{}] * 5
    np.save(tmp_path / "x.npy", ROWS)
    (tmp_path / "names.txt").write_text("a\nb\nc\nd\ne\n")
    (tmp_path / "texts.txt").write_text("one\r\n\r\nthree\r\nfour\r\nfive", newline="")
    found = describe(tmp_path / "x.npy", ids=str(tmp_path / "names.txt"), texts=tmp_path / "texts.txt")
    assert found.vectors.names() == ["a", "b", "c", "d", "e"]
    assert [row["text"] for row in found.rows()] == ["one", "", "three", "four", "five"]
    assert describe(tmp_path / "x.npy").vectors.names() == ["0", "1", "2", "3", "4"]


def test_bytes_are_names_but_nothing_is_none(tmp_path: Path) -> None:
    file, vectors = tmp_path / "docs.parquet", COLUMNS["vector"]
    pq.write_table(pa.table({"id": [b"a", "é".encode(), b"\xff", b"d", b"e"], "vector": vectors}), file)
    assert describe(file).vectors.names() == ["a", "é", r"\xff", "d", "e"]
    pq.write_table(pa.table({"id": ["a", None, "c", "d", "e"], "vector": vectors}), file)
    with pytest.raises(EigenmapError, match=r"Row 1 .*no name in .*docs\.parquet\.$"):
        describe(file)


def test_an_infinite_number_is_refused_since_no_index_can_store_it(tmp_path: Path) -> None:
    file = tmp_path / "docs.parquet"
    pq.write_table(pa.table({"vector": COLUMNS["vector"], "score": [1.0, None, float("-inf"), 2.0, 3.0]}), file)
    with pytest.raises(EigenmapError, match=r"Row 2 of .*docs\.parquet .*infinite score"):
        list(describe(file, columns=["score"]).rows())


@pytest.mark.parametrize("name", ["docs.parquet", "docs.feather"])
def test_categories_of_a_data_frame_are_fields(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"label": pd.Categorical(["a", "b", None, "a", "b"]), "vector": ROWS.tolist()})
    frame.to_parquet(tmp_path / name) if name.endswith("t") else frame.to_feather(tmp_path / name)
    found = describe(tmp_path / name)
    assert found.columns == ("label",)
    assert [row.get("label") for row in found.rows()] == ["a", "b", None, "a", "b"]


def test_mistakes(file: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("a\nb\n")
    np.save(tmp_path / "x.npy", ROWS)
    for options, words in [
        ({"columns": ["tags"]}, r"no column tags.*title"),
        ({"ids": "nobody"}, r"no column nobody.*file nobody"),
        ({"ids": "title"}, r"Row 1 .*no name in title"),
        ({"ids": str(tmp_path / "short.txt")}, r"short\.txt has 2 .*5"),
        ({"texts": tmp_path / "short.txt"}, r"short\.txt has 2 texts.*5"),
        ({"texts": tmp_path / "x.npy"}, r"x\.npy cannot be read: it is not text"),
        ({"texts": tmp_path / "no.txt"}, r"no\.txt cannot be read"),
    ]:
        with pytest.raises(EigenmapError, match=words):
            describe(file, **options)  # type: ignore[arg-type]
    with pytest.raises(EigenmapError, match="file nobody does not exist"):
        describe(tmp_path / "x.npy", ids="nobody")
