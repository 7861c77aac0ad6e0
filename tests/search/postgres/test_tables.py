from __future__ import annotations

import pytest

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.backend import IndexSpec
from eigenmap.search.postgres import load_table
from tests.database import rows


def refused(url: str, table: str, match: str) -> None:
    with pytest.raises(EigenmapError, match=match):
        CodeIndex.open(url, table=table)


def test_no_table(database: str) -> None:
    refused(database, "photos", "table photos.*does not exist")


def test_a_table_of_something_else(database: str) -> None:
    rows(database, "CREATE TABLE photos (name text, price numeric)")
    refused(database, "photos", "columns: name text, price numeric")
    with pytest.raises(EigenmapError, match="already"):
        CodeIndex(2, backend="postgres", where=database, table="photos")
    rows(database, "COMMENT ON TABLE photos IS 'our photos'")
    refused(database, "photos", "table of codes")
    rows(database, "INSERT INTO photos VALUES ('a', 1)")
    # Not even a replacement touches a table that is not ours.
    for replace in (False, True):
        with pytest.raises(EigenmapError, match="table of codes"):
            load_table(database, "photos", IndexSpec(2), [], replace=replace)
    assert rows(database, "SELECT name FROM photos") == [("a",)]


@pytest.mark.parametrize(
    "change", ["DROP COLUMN metadata", "RENAME id TO name", "ALTER COLUMN code TYPE vector(3) USING '[1,2,3]'"]
)
def test_a_table_with_other_columns(database: str, change: str) -> None:
    CodeIndex(2, backend="postgres", where=database, table="photos").close()
    rows(database, f"ALTER TABLE photos {change}")
    refused(database, "photos", "columns of the table photos have changed")


def test_columns_of_your_own_are_no_harm(database: str) -> None:
    with CodeIndex(2, backend="postgres", where=database, table="photos") as index:
        rows(database, "ALTER TABLE photos ADD COLUMN price numeric")
        index.add([[1, 0]], ["a"])
    with CodeIndex.open(database, table="photos") as index:
        assert index.ids == ["a"]
