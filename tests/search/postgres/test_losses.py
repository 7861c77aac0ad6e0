"""Connections that are lost at every point of a change: what is said of it afterwards is true."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.backend import IndexSpec, ItemBatch
from eigenmap.search.postgres import load_table, transactions
from eigenmap.search.postgres.transactions import Ticket, outcome
from tests.database import rows
from tests.search.postgres.proxy import Cut, Proxy, proxied

Floats = NDArray[np.float32]
Change = Callable[[CodeIndex, int], None]

OLD, NEW = [[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [0.8, 0.6]]
TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'test' AND pid <> pg_backend_pid()"


@pytest.fixture
def proxy(database: str) -> Iterator[tuple[str, Proxy]]:
    with proxied(database, lambda: rows(database, TERMINATE)) as both:
        CodeIndex(2, backend="postgres", where=both[0], table="photos").close()
        yield both


def add(index: CodeIndex, turn: int) -> None:
    index.add(NEW, [f"{turn} a", f"{turn} b"])


def upsert(index: CodeIndex, turn: int) -> None:
    index.upsert(NEW, [f"{turn} a", "old"])


def delete(index: CodeIndex, turn: int) -> None:
    index.delete([f"{turn} old", "old"])


def content(url: str) -> dict[str, list[float]]:
    found = rows(url, "SELECT id, code::text FROM photos")
    return {name: [round(x, 3) for x in json.loads(code)] for name, code in found}


def prepare(url: str, turn: int) -> dict[str, list[float]]:
    """Two items that are there before a change."""
    rows(url, "DELETE FROM photos")
    rows(url, "INSERT INTO photos (id, code) VALUES (%s, '[1,0]'), ('old', '[0,1]')", [f"{turn} old"])
    return content(url)


def expected(change: Change, turn: int) -> dict[str, list[float]]:
    flat = CodeIndex(2)
    flat.add(OLD, [f"{turn} old", "old"])
    change(flat, turn)
    codes = flat.codes(flat.ids).tolist() if len(flat) else []
    return {str(name): [round(x, 3) for x in code] for name, code in zip(flat.ids, codes, strict=True)}


@pytest.mark.parametrize("cut", ["before", "sent", "answered", "terminated"])
@pytest.mark.parametrize("change", [add, upsert, delete])
def test_a_change_is_made_wherever_the_connection_is_lost(
    database: str, proxy: tuple[str, Proxy], change: Change, cut: Cut
) -> None:
    """The server is there again at once, so that every change is made in the end, and made once."""
    url, between = proxy
    with CodeIndex.open(url, table="photos") as index:
        for number in range(1, 1000):
            prepare(database, number)
            between.plan(cut, number=number)
            change(index, number)
            assert content(database) == expected(change, number), number
            if not between.done:
                break
    assert number > 6


@pytest.mark.parametrize("cut", ["before", "sent", "answered", "terminated"])
@pytest.mark.parametrize("change", [add, upsert, delete])
def test_what_is_said_is_true_when_the_server_stays_away(
    database: str, proxy: tuple[str, Proxy], change: Change, cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "OUTCOME_TIMEOUT", 0.0)
    monkeypatch.setattr("eigenmap.search.postgres.session._PAUSES", (0.0,))
    url, between = proxy
    said = []
    for number in range(1, 1000):
        before = prepare(database, number)
        between.plan("before", number=-1)
        with CodeIndex.open(url, table="photos") as index:
            between.plan(cut, number=number, blackout=True)
            try:
                change(index, number)
            except EigenmapError as error:
                said.append(str(error))
            else:
                assert not between.done
                break
        if "is unknown" in said[-1]:
            status = said[-1].split("SELECT pg_xact_status(")[1].split(")")[0]
            told = _settled(database, status)
            assert content(database) == (expected(change, number) if told == "committed" else before)
        else:
            assert "nothing was changed" in said[-1] or "reached" in said[-1]
            _settled(database, None)
            assert content(database) == before, said[-1]
    assert ["is unknown" in sentence for sentence in said] == [False] * (len(said) - 1) + [True]


def _settled(url: str, number: str | None) -> str:
    """What became of a transaction, once no session of the index is left that may still be at it."""
    others = "datname = 'test' AND pid <> pg_backend_pid() AND state <> 'idle'"
    while rows(url, f"SELECT count(*) FROM pg_stat_activity WHERE {others}") != [(0,)]:
        pass
    return str(rows(url, f"SELECT pg_xact_status({number})")[0][0]) if number else ""


def test_a_session_that_does_not_know_is_ended(database: str, proxy: tuple[str, Proxy]) -> None:
    """COMMIT never arrives, and the server holds the locks of who is gone."""
    url, between = proxy
    with CodeIndex.open(url, table="photos") as index:
        index.add(OLD, ["a", "old"])
        between.plan("silent")
        upsert(index, 1)
    assert sorted(content(database)) == ["1 a", "a", "old"]


def test_the_number_of_another_server_says_nothing(database: str) -> None:
    CodeIndex(2, backend="postgres", where=database, table="photos").close()
    number, started = rows(
        database, "SELECT pg_current_xact_id()::text, extract(epoch FROM pg_postmaster_start_time())::text"
    )[0]
    assert outcome(database, Ticket(number, started)) is True
    assert outcome(database, Ticket(number, "0")) is None


def batches() -> list[ItemBatch]:
    return [ItemBatch(["a", "b"], np.array(NEW, np.float32), [{}, {}])]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(("cut", "made"), [("before", False), ("answered", True)])
def test_a_load_that_is_lost_at_its_commit(
    database: str, proxy: tuple[str, Proxy], cut: Cut, made: bool, there: bool
) -> None:
    url, between = proxy
    if not there:
        rows(database, "DROP TABLE photos")
    between.plan(cut)
    if made:
        assert load_table(url, "photos", IndexSpec(2), batches()).items == 2
    else:
        with pytest.raises(EigenmapError, match=r"lost.*nothing"):
            load_table(url, "photos", IndexSpec(2), batches())
    assert between.done
    found: Sequence[str] = sorted(content(database)) if made or there else []
    assert found == (["a", "b"] if made else [])


@pytest.mark.parametrize("cut", ["before", "sent", "answered", "terminated"])
def test_reads_are_repeated(database: str, proxy: tuple[str, Proxy], cut: Cut) -> None:
    url, between = proxy
    reads: list[Callable[[CodeIndex], object]] = [
        lambda index: index.search([[1, 0]]).ids,
        lambda index: index.ids,
        len,
        lambda index: index.metadata(["a"]),
        lambda index: index.backend.sample(1, 0).ids,
    ]
    with CodeIndex.open(url, table="photos") as index:
        index.add([[1, 0]], ["a"])
        for read, result in zip(reads, [[["a"]], ["a"], 1, [{}], ["a"]], strict=True):
            for number in range(1, 100):
                between.plan(cut, number=number)
                assert read(index) == result
                if not between.done:
                    break
            assert number > 1
