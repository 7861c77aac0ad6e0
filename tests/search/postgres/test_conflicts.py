"""Writers of the same items at the same time: nobody is refused, and nothing is lost or mixed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import psycopg
import pytest

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.backend import IndexSpec, ItemBatch
from eigenmap.search.postgres import load_table, session
from tests.database import rows

ROUNDS = int(os.environ.get("EIGENMAP_ROUNDS", "200"))
WRITERS = 4


def code(writer: int, items: int) -> list[list[float]]:
    return [[float(writer + 1), 1.0]] * items


def writers(url: str) -> list[CodeIndex]:
    return [CodeIndex.open(url, table="photos") for _ in range(WRITERS)]


def together(pool: ThreadPoolExecutor, works: Sequence[Callable[[], object]]) -> None:
    for future in [pool.submit(work) for work in works]:
        future.result()


def test_overlapping_upserts(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old and new items, each writer in an order of its own: in the end all are of one writer, none began again."""
    monkeypatch.setattr(session, "CONFLICTS", 0)
    CodeIndex(2, "inner", backend="postgres", where=database, table="photos").close()
    rng = random.Random(0)
    indexes = writers(database)
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS):
            names = [f"{number // 2} {item}" for item in range(30)]  # new in one round, old in the next
            orders = [rng.sample(names, len(names)) for _ in indexes]
            together(
                pool,
                [
                    partial(index.upsert, code(writer, len(order)), order)
                    for writer, (index, order) in enumerate(zip(indexes, orders, strict=True))
                ],
            )
            stored = indexes[0].codes(names)[:, 0]
            assert len(set(stored.tolist())) == 1, number
            # Within one call items stay in the order in which they were given, whatever the order of their locks.
            last = orders[int(stored[0]) - 1]
            assert [name for name in indexes[0].ids if name in set(names)] == last, number
    assert len(indexes[0]) == 30 * ((ROUNDS + 1) // 2)
    for index in indexes:
        index.close()


def test_updates_deletes_and_loads_beside_upserts(database: str) -> None:
    CodeIndex(2, "inner", backend="postgres", where=database, table="photos").close()
    rng = random.Random(1)
    indexes = writers(database)
    names = [f"photo {item}" for item in range(30)]
    about = IndexSpec(2, "inner")

    def delete(order: list[str]) -> None:
        try:
            indexes[1].delete(order)
        except EigenmapError as error:
            assert "no item" in str(error)

    def update(order: list[str]) -> None:
        try:
            indexes[2].update(code(2, len(order)), order)
        except EigenmapError as error:
            assert "no item" in str(error)

    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS // 2):
            orders = [rng.sample(names, len(names)) for _ in range(WRITERS)]
            batch = ItemBatch(list(orders[3]), np.array(code(3, 30), np.float32), [{} for _ in names])
            together(
                pool,
                [
                    partial(indexes[0].upsert, code(0, 30), orders[0]),
                    partial(delete, orders[1]),
                    partial(update, orders[2]),
                    partial(load_table, database, "photos", about, [batch]),
                ],
            )
            left = indexes[0].ids
            assert sorted(map(str, left)) in ([], sorted(names)), number
            assert len(set(indexes[0].codes(left)[:, 0].tolist())) <= 1, number
    for index in indexes:
        index.close()


def test_an_id_is_added_by_one_of_those_who_add_it(database: str) -> None:
    CodeIndex(2, "inner", backend="postgres", where=database, table="photos").close()
    indexes = writers(database)
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS // 4):

            def adds(writer: int, number: int = number) -> bool:
                try:
                    indexes[writer].add(code(writer, 1), [f"photo {number}"])
                except EigenmapError as error:
                    assert "already" in str(error) or "already" in str(error)
                    return False
                return True

            added = list(pool.map(adds, range(WRITERS)))
            assert added.count(True) == 1, number
            assert indexes[0].codes([f"photo {number}"])[0, 0] == added.index(True) + 1
    for index in indexes:
        index.close()


def test_the_first_ids_are_settled_once(database: str) -> None:
    """Whole numbers make the column of ids another type, which one writer does."""
    for number in range(10):
        table = f"photos {number}"
        CodeIndex(2, backend="postgres", where=database, table=table).close()
        indexes = [CodeIndex.open(database, table=table) for _ in range(WRITERS)]
        with ThreadPoolExecutor(WRITERS) as pool:
            together(pool, [partial(index.upsert, code(one, 2), [one, 100]) for one, index in enumerate(indexes)])
        assert sorted(map(int, indexes[0].ids)) == [*range(WRITERS), 100]
        for index in indexes:
            index.close()


def test_who_may_not_count_writes_in_the_order_given(database: str) -> None:
    """Insertion needs no permission for the sequence of the column."""
    with CodeIndex(2, backend="postgres", where=database, table="photos") as index:
        index.add(code(0, 2), ["b", "a"])
    rows(database, "CREATE ROLE clerk LOGIN")
    try:
        rows(database, "GRANT SELECT, INSERT, UPDATE ON photos TO clerk")
        with CodeIndex.open(database.replace("postgres:@", "clerk:@"), table="photos") as index:
            index.upsert(code(1, 3), ["c", "a", "d"])
            assert index.ids == ["b", "c", "a", "d"]
        rows(database, "REVOKE UPDATE ON photos FROM clerk")
        rows(database, "GRANT DELETE ON photos TO clerk")
        with CodeIndex.open(database.replace("postgres:@", "clerk:@"), table="photos") as index:
            index.delete(["b"])
            assert index.ids == ["c", "a", "d"]
    finally:
        rows(database, "DROP OWNED BY clerk")
        rows(database, "DROP ROLE clerk")


def is_sent_back(url: str, index: CodeIndex) -> bool:
    """Upsert a and b while another program locks them the other way round; whether the upsert was sent back for it."""
    with psycopg.connect(url) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SET deadlock_timeout = '5s'")  # of two who wait, the one who looks first is sent back
        other.execute("SELECT id FROM photos WHERE id = 'b' FOR UPDATE")
        future = pool.submit(index.upsert, code(0, 2), ["a", "b"])
        while rows(url, "SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]:
            pass
        try:
            other.execute("SELECT id FROM photos WHERE id = 'a' FOR UPDATE")
            goes_on = True
        except psycopg.errors.DeadlockDetected:
            goes_on = False
        other.rollback()
        future.result()
    return goes_on


def test_a_deadlock_with_another_program_is_survived(database: str) -> None:
    """Another program takes locks in its own order; the change that the database sends back is begun again."""
    with CodeIndex(2, "inner", backend="postgres", where=database, table="photos") as index:
        index.add(code(5, 2), ["a", "b"])
        while not is_sent_back(database, index):
            pass
        assert index.codes(["a", "b"])[:, 0].tolist() == [1.0, 1.0]


def test_who_gives_up_says_why(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONFLICTS", 0)
    with CodeIndex(2, "inner", backend="postgres", where=database, table="photos") as index:
        index.add(code(5, 2), ["a", "b"])
        with pytest.raises(EigenmapError, match="deadlock detected"):
            while not is_sent_back(database, index):
                index.upsert(code(5, 2), ["a", "b"])
        assert index.codes(["a", "b"])[:, 0].tolist() == [6.0, 6.0]


def test_other_refusals_are_not_called_a_loss(database: str) -> None:
    with CodeIndex(2, backend="postgres", where=f"{database}&options=-c%20lock_timeout%3D1", table="photos") as index:
        index.add(code(0, 1), ["a"])
        with psycopg.connect(database) as other:
            other.execute("SELECT id FROM photos FOR UPDATE")
            with pytest.raises(EigenmapError, match="lock timeout"):
                index.upsert(code(1, 1), ["a"])
