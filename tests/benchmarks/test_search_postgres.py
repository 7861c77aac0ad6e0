from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import search_postgres
from search_postgres import Setting
from tests.database import tables


def test_every_setting_is_measured_against_exact_search(database: str) -> None:
    codes, queries = search_postgres.codes_and_queries(None, items=400, queries=20, dim=16, seed=0)
    truth = search_postgres.exact(codes, queries, 10)
    scores = queries @ codes.T
    assert (np.take_along_axis(scores, truth, 1)[:, 0] == scores.max(axis=1)).all()
    asked = search_postgres.settings(16, [4], [50, 400])
    rows = search_postgres.pgvector_rows(codes, queries, truth, database, asked, single_queries=5)
    assert [row["method"] for row in rows][-3:] == [
        "pgvector HNSW on a prefix + rerank",
        "pgvector HNSW on the full vector",
        "pgvector, every item compared",
    ]
    by = {(row["precision"], row["prefix"], row["shortlist"]): row for row in rows}
    assert by["float32", None, 0]["recall@10"] == 1
    # A shortlist of everything is exact, whatever the prefix.
    assert by["float32", 4, 400]["recall@10"] == 1
    assert by["float32", 4, 50]["recall@10"] < 1
    assert by["float16", 4, 50]["table_bytes_per_item"] < by["float32", 4, 50]["table_bytes_per_item"]
    assert all(row["items"] == 400 and row["queries_per_second_batch"] > 0 for row in rows)
    assert tables(database) == []


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_codes_of_your_own(suffix: str, tmp_path: Path) -> None:
    rows = np.arange(40, dtype=np.float16).reshape(10, 4)
    file = tmp_path / f"codes.{suffix}"
    if suffix == "npy":
        np.save(file, rows)
    else:
        np.savez(file, gallery=rows[:7], queries=rows[7:])
    codes, queries = search_postgres.codes_and_queries(file, items=7, queries=3, dim=0, seed=0)
    assert codes.dtype == queries.dtype == np.float32
    np.testing.assert_array_equal(np.concatenate([codes, queries]), rows)


def test_names_of_methods() -> None:
    assert Setting("float32", None, 0, 8).method == "pgvector, every item compared"
