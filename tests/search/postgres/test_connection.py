from __future__ import annotations

import importlib
import sys

import pytest

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.postgres.connection import address
from tests.database import rows


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(EigenmapError, match=r"127\.0\.0\.1/pictures.*reached") as error:
        CodeIndex.open("postgresql://me:secret@127.0.0.1:1/pictures", table="photos")
    assert "secret" not in str(error.value)


def test_an_address_that_is_none() -> None:
    with pytest.raises(EigenmapError, match="postgresql://user"):
        CodeIndex.open("postgresql://[", table="photos")


def test_passwords_are_not_shown() -> None:
    assert address("postgresql://me:secret@host:5/db?sslmode=require") == "host/db"
    assert address("postgresql:///db") == "localhost/db"


@pytest.mark.parametrize("place", ["se@cret@host/db", "se/cret@host/db", "se%cret@host/db", "secret@[::1/db"])
def test_no_part_of_a_password_with_odd_characters_is_shown(place: str) -> None:
    """PostgreSQL's own complaints quote the address, or what it takes for the host, and that is half a password."""
    url = f"postgresql://me:{place}"
    assert address(url) == "this address"
    with pytest.raises(EigenmapError, match="%40 %2F %3A or %25") as error:
        CodeIndex.open(url, table="photos")
    assert "cret" not in str(error.value)


def test_a_connection_that_ends_is_made_anew(database: str) -> None:
    index = CodeIndex(2, backend="postgres", where=database)
    index.add([[1, 0]], ["a"])
    rows(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert index.search([[1, 0]]).ids == [["a"]]
    index.close()
    with pytest.raises(EigenmapError, match="closed"):
        index.search([[1, 0]])


def test_a_user_who_may_not_add_the_extension(database: str) -> None:
    rows(database, "CREATE ROLE guest LOGIN")
    rows(database, "GRANT CREATE ON SCHEMA public TO guest")
    guest = database.replace("postgres:@", "guest:@")
    try:
        with pytest.raises(EigenmapError, match="CREATE EXTENSION vector"):
            CodeIndex(2, backend="postgres", where=guest)
        rows(database, "CREATE EXTENSION vector")
        with CodeIndex(2, backend="postgres", where=guest) as index:
            index.add([[1, 0]], ["a"])
            assert index.search([[1, 0]]).ids == [["a"]]
    finally:
        rows(database, "DROP OWNED BY guest")
        rows(database, "DROP ROLE guest")


def test_psycopg_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "eigenmap.search.postgres.connection")
    with pytest.raises(EigenmapError, match=r'pip install "eigenmap\[postgres\]"'):
        importlib.import_module("eigenmap.search.postgres.connection")
