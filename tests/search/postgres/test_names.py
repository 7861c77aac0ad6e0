"""Any name that PostgreSQL allows a table: every statement is run with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from psycopg import sql

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.backend import Approximate, IndexSpec, ItemBatch
from eigenmap.search.postgres import LoadReport, load_table
from eigenmap.search.postgres.statements import Table
from tests.database import rows, tables

Floats = NDArray[np.float32]

NAMES = [
    "Photos of 2024",
    'a"b',
    "a'b\\c",
    "select",
    "täglich",
    "mine.photos",
    "my 100%.50%",
    "100%",
    "%s",
    "%%",
    "%(x)s",
    "{}",
    "x" * 48,
    "x" * 49,
    "x" * 57,
    "x" * 63,
    "%" * 63,
    "ä" * 31 + "x",
]


@pytest.fixture
def place(database: str) -> str:
    for schema in ("mine", "my 100%"):
        rows(database, f'CREATE SCHEMA "{schema}"')
    return database


def called(name: str) -> Any:
    """A search by the function of a table."""
    function = Table(name, IndexSpec(12)).beside("_search")
    return sql.SQL("SELECT id FROM {}({}::vector, 1)").format(function, sql.Literal(str([1.0] + [0.0] * 11)))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_that_is_made_and_changed(place: str, codes: Floats, queries: Floats, name: str) -> None:
    with CodeIndex(12, backend="postgres", where=place, table=name, approximate=Approximate(dim=4)) as made:
        made.add(codes[:100], range(100), [{"share": "50%"}] * 100)
        made.upsert(codes[90:200], range(90, 200))
        made.update(codes[:3], range(3))
        made.delete([7])
    with CodeIndex.open(place, table=name) as index:
        assert index.search(queries[0], 1).ids == index.search(queries[0], 1, exact=True).ids == [[5]]
        assert index.search(queries[0], 1, where={"share": "50%"}).ids == [[5]]
        assert len(index) == len(index.ids) == sum(len(batch.ids) for batch in index.batches(50)) == 199
        np.testing.assert_array_equal(index.codes([5, 199]), codes[[5, 199]])
        backend: Any = index.backend
        assert len(backend.sample(5, 0).ids) == 5
        backend.write_note("advice", {"share": "50%"})
        assert backend.read_note("advice") == {"share": "50%"}
    assert len(rows(place, called(name))) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_table_that_is_loaded(place: str, codes: Floats, queries: Floats, name: str) -> None:
    about = IndexSpec(12, approximate=Approximate(dim=4))

    def batch(stop: int) -> list[ItemBatch]:
        return [ItemBatch(list(range(stop)), codes[:stop], [{"share": "50%"} for _ in range(stop)])]

    assert load_table(place, name, about, batch(100)) == LoadReport(100, 100, 0)
    assert load_table(place, name, about, batch(200)) == LoadReport(200, 100, 0)
    with CodeIndex.open(place, table=name) as index:
        assert index.search(queries[0], 1).ids == [[5]]
        index.add(codes[200:], range(200, 300))
    assert load_table(place, name, about, batch(50), replace=True) == LoadReport(50, 50, 0)
    with CodeIndex.open(place, table=name) as index:
        index.add(codes[50:], range(50, 300))
        assert index.search(queries[0], 1).ids == [[5]]
    assert len(rows(place, called(name))) == 1


def test_names_beside_long_ones_differ() -> None:
    suffixes = ("_pkey", "_metadata_idx", "_search", "__loading", "__loading_metadata_idx")
    names = ["x" * 62 + end for end in "ab"]
    made = [Table(name, IndexSpec(2)).bare(suffix).as_string(None) for name in names for suffix in suffixes]
    assert len(set(made)) == len(made) and all(len(name.encode()) <= 65 for name in made)


@pytest.mark.parametrize("name", ["", "a.b.c", ".a", "x" * 64, "ä" * 32, f"{'s' * 64}.a", "a\0b", "a\udcff"])
def test_names_that_no_table_has(database: str, name: str) -> None:
    with pytest.raises(EigenmapError, match="table name"):
        CodeIndex(12, backend="postgres", where=database, table=name)
    assert tables(database) == []
