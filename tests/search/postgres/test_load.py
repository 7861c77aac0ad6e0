from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.backend import Approximate, IndexSpec, ItemBatch
from eigenmap.search.postgres import LoadReport, load_table
from tests.database import crash, rows, running_server, tables

Floats = NDArray[np.float32]

ABOUT = IndexSpec(12, fingerprint="abc", approximate=Approximate(dim=4))


def batch(codes: Floats, ids: Sequence[str | int]) -> ItemBatch:
    return ItemBatch(list(ids), codes, [{} for _ in ids])


def blocks(codes: Floats, ids: Sequence[str], size: int = 90) -> Iterator[ItemBatch]:
    for start in range(0, len(ids), size):
        yield batch(codes[start : start + size], ids[start : start + size])
        yield batch(codes[:0], [])


def test_a_load_makes_what_adding_makes(database: str, codes: Floats, queries: Floats, ids: list[str]) -> None:
    assert load_table(database, "photos", ABOUT, blocks(codes, ids)) == LoadReport(300, 300, 0)
    with CodeIndex.open(database, table="photos", fingerprint="abc") as index:
        flat = CodeIndex(12)
        flat.add(codes, ids)
        assert index.about == ABOUT
        assert index.ids == ids
        assert index.search(queries, exact=True).ids == flat.search(queries).ids
        index.add(codes[:1], ["one more"])
    names = "SELECT relname FROM pg_class WHERE relname LIKE 'photos%' OR relname LIKE '%loading%' ORDER BY 1"
    expected = ["photos", "photos_added_seq", "photos_metadata_idx", "photos_pkey", "photos_prefix_idx"]
    assert [name for (name,) in rows(database, names)] == expected


def test_the_same_load_again_changes_nothing(database: str, codes: Floats, ids: list[str]) -> None:
    load_table(database, "photos", ABOUT, blocks(codes, ids))
    everything = "SELECT xmin::text, ctid::text, id, code::text, added FROM photos ORDER BY added"
    before = rows(database, everything)
    assert load_table(database, "photos", ABOUT, blocks(codes, ids)) == LoadReport(300, 0, 0)
    assert rows(database, everything) == before
    rounded = (codes * (1 + 1e-6)).astype(np.float32)
    assert load_table(database, "photos", ABOUT, blocks(rounded, ids)) == LoadReport(300, 0, 0)


def test_a_later_load_adds_and_changes(database: str, codes: Floats, ids: list[str]) -> None:
    load_table(database, "photos", ABOUT, blocks(codes[:200], ids[:200]))
    with CodeIndex.open(database, table="photos") as index:
        index.upsert(codes[150:151], [ids[150]], [{"kind": "cat"}])
    changed = codes.copy()
    changed[150] = codes[0]
    assert load_table(database, "photos", ABOUT, blocks(changed[100:], ids[100:])) == LoadReport(300, 100, 1)
    with CodeIndex.open(database, table="photos") as index:
        np.testing.assert_array_equal(index.codes(ids), changed)
        assert index.metadata([ids[150]]) == [{"kind": "cat"}]
    labelled = [ItemBatch([ids[150], ids[151]], changed[150:152], [{"label": "a"}, {"label": "b"}])]
    assert load_table(database, "photos", ABOUT, labelled) == LoadReport(300, 0, 2)
    assert load_table(database, "photos", ABOUT, labelled) == LoadReport(300, 0, 0)
    with CodeIndex.open(database, table="photos") as index:
        assert index.metadata(ids[150:152]) == [{"kind": "cat", "label": "a"}, {"label": "b"}]


def test_a_replacement_is_complete_before_the_old_table_goes(database: str, codes: Floats, ids: list[str]) -> None:
    load_table(database, "photos", ABOUT, blocks(codes, ids))

    def watched() -> Iterator[ItemBatch]:
        yield batch(codes[:2], ids[:2])
        assert rows(database, "SELECT count(*) FROM photos") == [(300,)]
        yield batch(codes[2:5], ids[2:5])

    other = IndexSpec(12, fingerprint="def", precision="float16")
    assert load_table(database, "photos", other, watched(), replace=True) == LoadReport(5, 5, 0)
    with CodeIndex.open(database, table="photos", fingerprint="def") as index:
        assert index.ids == ids[:5]
    assert load_table(database, "photos", IndexSpec(3), [batch(codes[:2, :3], [7, 8])], replace=True).items == 2
    query = "SELECT id FROM photos_search('[1,0,0]', 1)"
    assert rows(database, query)[0][0] in (7, 8)


def test_an_open_index_notices_that_its_table_was_replaced(database: str, codes: Floats, ids: list[str]) -> None:
    """Queries of one model are not ranked against codes of another, and codes of two models are not mixed."""
    load_table(database, "photos", ABOUT, blocks(codes, ids))
    with CodeIndex.open(database, table="photos") as index:
        load_table(database, "photos", ABOUT, blocks(codes[:100], ids[:100]), replace=True)
        assert index.search(codes[5], 1).ids == [[ids[5]]]
        index.upsert(codes[100:], ids[100:])
        load_table(database, "photos", IndexSpec(12, fingerprint="def"), blocks(codes[:9], ids[:9]), replace=True)
        for use in (
            lambda: index.codes(ids[:2]),
            lambda: index.metadata(ids[50:60]),
            lambda: index.ids,
            lambda: len(index),
            lambda: index.backend.sample(5, seed=0),
            lambda: list(index.backend.batches(4)),
            lambda: index.delete(ids[:1]),
            lambda: index.delete(ids[50:51]),
        ):
            with pytest.raises(EigenmapError, match=r"photos.*replaced"):
                use()
        for use in (lambda: index.search(codes[5], 1), lambda: index.upsert(codes, ids), lambda: index.add(codes, ids)):
            with pytest.raises(EigenmapError, match=r"photos.*replaced|already"):
                use()
        assert rows(database, "SELECT count(*) FROM photos") == [(9,)]


def test_several_make_the_same_table(database: str) -> None:
    """None of them finds the extension, which one of them makes."""

    def make(_: int) -> str:
        try:
            CodeIndex(2, backend="postgres", where=database, table="photos").close()
        except EigenmapError as error:
            return str(error)
        return "made"

    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(make, range(4)))
        assert said.count("made") == 1
        refused = ("already", "has just created")
        assert all(any(reason in one for reason in refused) for one in said if one != "made"), said
        rows(database, "DROP TABLE photos")
        rows(database, "DROP EXTENSION vector CASCADE")


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        (IndexSpec(12, fingerprint="def"), "another model"),
        (IndexSpec(12), "another model"),
        (
            IndexSpec(11, fingerprint="abc"),
            "float32.*12 features.*float32.*11",
        ),
        (IndexSpec(12, "inner", fingerprint="abc"), "cosine"),
        (IndexSpec(12, fingerprint="abc", precision="float16"), "float16"),
    ],
)
def test_codes_of_another_kind_are_refused(
    database: str, codes: Floats, ids: list[str], about: IndexSpec, sentence: str
) -> None:
    load_table(database, "photos", ABOUT, blocks(codes, ids))
    with pytest.raises(EigenmapError, match=f"{sentence}.*replace=True$"):
        load_table(database, "photos", about, blocks(codes[:, : about.n_components], ids))
    assert rows(database, "SELECT count(*) FROM photos") == [(300,)]


def test_wrong_ids(database: str, codes: Floats, ids: list[str]) -> None:
    with pytest.raises(EigenmapError, match=r"id.*photo 0"):
        load_table(database, "photos", ABOUT, blocks(codes[:4], [*ids[:3], ids[0]]))
    with pytest.raises(EigenmapError, match="no codes"):
        load_table(database, "photos", ABOUT, [])
    assert tables(database) == []
    load_table(database, "photos", ABOUT, blocks(codes, ids))
    with pytest.raises(EigenmapError, match=r"photos.*text.*7"):
        load_table(database, "photos", ABOUT, [batch(codes[:1], [7])])


def test_a_connection_lost_in_the_middle_leaves_nothing(database: str, codes: Floats, ids: list[str]) -> None:
    def interrupted() -> Iterator[ItemBatch]:
        yield batch(codes[:100], ids[:100])
        assert tables(database) == []
        rows(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        for _ in range(1000):  # enough to fill what is buffered on the way
            yield batch(codes[100:], ids[100:])

    with pytest.raises(EigenmapError, match=r"lost.*nothing"):
        load_table(database, "photos", ABOUT, interrupted())
    assert tables(database) == []
    assert load_table(database, "photos", ABOUT, blocks(codes, ids)) == LoadReport(300, 300, 0)


def test_a_server_that_crashes_in_the_middle_leaves_nothing(codes: Floats, ids: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "data"

        def crashing() -> Iterator[ItemBatch]:
            yield batch(codes[:100], ids[:100])
            crash(data)
            for _ in range(1000):
                yield batch(codes[100:], ids[100:])

        with running_server(data) as url:
            load_table(url, "older", ABOUT, blocks(codes, ids))
            with pytest.raises(EigenmapError, match="lost"):
                load_table(url, "photos", ABOUT, crashing())
        with running_server(data) as url:
            assert tables(url) == ["older"]
            assert load_table(url, "photos", ABOUT, blocks(codes, ids)) == LoadReport(300, 300, 0)
            assert rows(url, "SELECT count(*) FROM older") == [(300,)]


def test_two_loads_of_one_table_take_turns(database: str, codes: Floats, ids: list[str]) -> None:
    rows(database, "CREATE EXTENSION vector")
    done: list[LoadReport] = []
    threads = [
        threading.Thread(target=lambda: done.append(load_table(database, "photos", ABOUT, blocks(codes, ids))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [LoadReport(300, 0, 0), LoadReport(300, 0, 0), LoadReport(300, 300, 0)]
