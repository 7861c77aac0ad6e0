"""What the PostgreSQL back end does, next to the flat one, which is the reference."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.backend import Approximate
from eigenmap.search.filters import conditions, meets
from tests.database import rows, tables

Floats = NDArray[np.float32]


def metadata(n: int) -> list[dict[str, Any]]:
    kinds = ("cat", "dog", "Äpfel", "Zebra")
    items: list[dict[str, Any]] = []
    for i in range(n):
        item: dict[str, Any] = {"kind": kinds[i % 4], "year": 2000 + i % 30, "ratio": i / 7, "good": i % 3 == 0}
        if i % 5 == 0:
            item = {"year": "unknown", "note": None, "kind": 7}
        items.append(item)
    return items


def pair(
    url: str, codes: Floats, ids: list[Any], metric: str = "cosine", **options: Any
) -> tuple[CodeIndex, CodeIndex]:
    flat = CodeIndex(codes.shape[1], metric, precision=options.get("precision", "float32"))
    table = CodeIndex(codes.shape[1], metric, backend="postgres", where=url, table="photos", **options)
    for index in (flat, table):
        index.add(codes[:200], ids[:200], metadata(200))
        index.add(codes[200:], ids[200:])
    return flat, table


SEARCHES: list[dict[str, Any]] = [
    {},
    {"top": 3, "dim": 2},
    {"dim": 5},
    {"top": 1000},
    {"dim": 8, "shortlist_dim": 3, "shortlist": 20},
    {"funnel": [(2, 100), (4, 50), (12, 7)]},
]


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("metric", ["cosine", "inner"])
def test_exact_search_gives_what_flat_gives(
    database: str, codes: Floats, queries: Floats, ids: list[str], metric: str, precision: str
) -> None:
    flat, table = pair(database, codes, ids, metric, precision=precision)
    for how in SEARCHES:
        expected, found = flat.search(queries, **how), table.search(queries, **how, exact=True)
        assert found.ids == expected.ids
        np.testing.assert_allclose(found.scores, expected.scores, atol=2e-6)
        assert found.scores.dtype == np.float32


FILTERS: list[dict[str, Any]] = [
    {"kind": "cat"},
    {"kind": 7},
    {"kind": ["cat", "Zebra", 7]},
    {"kind": []},
    {"kind": {"<": "a"}},
    {"kind": {"!=": "cat"}},
    {"year": {">=": 2010, "<": 2012.5}},
    {"year": {"!=": 2003}},
    {"ratio": {"<=": 3 / 7}},
    {"good": True},
    {"good": {"<": True}},
    {"good": 1},
    {"note": None},
    {"note": {"!=": None}},
    {"absent": {"!=": 3}},
    {"kind": "dog", "good": False},
    {"quo\"te'; DROP TABLE photos; --": "x'"},
]


@pytest.mark.parametrize("approximate", [None, Approximate(dim=4, shortlist=50)])
def test_filters_mean_what_they_are_defined_to_mean(
    database: str, codes: Floats, queries: Floats, ids: list[str], approximate: Approximate | None
) -> None:
    flat, table = pair(database, codes, ids, approximate=approximate)
    known = dict(zip(ids, [*metadata(200), *[{}] * 100], strict=True))
    ranked = flat.search(queries, top=300).ids
    for where in FILTERS:
        expected = [[name for name in line if meets(known[str(name)], conditions(where))][:10] for line in ranked]
        assert table.search(queries, where=where, exact=True).ids == expected, where
        assert [len(found) for found in table.search(queries, where=where).ids] == list(map(len, expected)), where
    assert "photos" in tables(database)


def test_changes_do_what_they_do_in_flat(database: str, codes: Floats, queries: Floats, ids: list[str]) -> None:
    both = pair(database, codes, ids)
    for index in both:
        index.update(codes[:2], [ids[9], ids[3]])
        index.upsert(codes[2:4], [ids[4], "new"], [{"kind": "cat"}, {"kind": "dog"}])
        index.delete([ids[11], ids[250]])
        index.update(codes[6:7] + codes[7:8], ["new"], [{}])  # equal codes may differ in the last digit of a score
    flat, table = both
    assert table.ids == flat.ids
    assert len(table) == len(flat) == 299
    assert table.search(queries, exact=True).ids == flat.search(queries).ids
    asked = [ids[3], "new", ids[0], ids[4]]
    assert table.metadata(asked) == flat.metadata(asked)
    np.testing.assert_array_equal(table.codes(asked), flat.codes(asked))


def test_a_wrong_change_changes_nothing(database: str, codes: Floats, ids: list[str]) -> None:
    _, table = pair(database, codes, ids)
    wrong = {
        "'photo 3'.*already": lambda: table.add(codes[:2], ["new", ids[3]]),
        "no item.*'gone'": lambda: table.update(codes[:2], [ids[3], "gone"]),
        "no item.*'lost'": lambda: table.delete([ids[3], "lost"]),
        "no item.*'away'": lambda: table.codes(["away"]),
        "strings": lambda: table.upsert(codes[:1], [7]),
    }
    for sentence, change in wrong.items():
        with pytest.raises(EigenmapError, match=sentence):
            change()
        assert table.ids == ids
    np.testing.assert_array_equal(table.codes(ids), codes)


def test_whole_numbers_as_ids(database: str, codes: Floats, queries: Floats) -> None:
    numbers = [2**60 - 7 * i for i in range(len(codes))]
    flat, table = pair(database, codes, numbers)
    assert table.search(queries, exact=True).ids == flat.search(queries).ids
    assert CodeIndex.open(database, table="photos").ids == numbers
    with pytest.raises(EigenmapError, match="strings"):
        table.add(codes[:1], ["seven"])
    query = str(queries[0].tolist())
    assert rows(database, "SELECT id FROM photos_search(%s::vector, 1)", [query]) == [(numbers[5],)]


def test_others_see_a_change_at_once(database: str, codes: Floats, queries: Floats, ids: list[str]) -> None:
    _, table = pair(database, codes, ids)
    with CodeIndex.open(database, table="photos") as reader:
        assert reader.about == table.about
        table.delete([ids[5], ids[17]])
        assert len(reader) == 298
        assert ids[5] not in reader.search(queries[:1], top=300).ids[0]
        reader.upsert(codes[:1], [ids[5]])
    assert table.ids[-1] == ids[5]


def test_everything_in_batches(database: str, codes: Floats, ids: list[str]) -> None:
    _, table = pair(database, codes, ids)
    batches = list(table.batches(70))
    assert [len(batch.ids) for batch in batches] == [70, 70, 70, 70, 20]
    assert [name for batch in batches for name in batch.ids] == ids
    np.testing.assert_array_equal(np.concatenate([batch.codes for batch in batches]), codes)
    known = [item for batch in batches for item in batch.metadata]
    assert known == [*metadata(200), *[{}] * 100]


def test_a_sample(database: str, codes: Floats, ids: list[str]) -> None:
    _, table = pair(database, codes, ids)
    one, same, other = (table.backend.sample(40, seed) for seed in (0, 0, 1))
    assert one.ids == same.ids != other.ids
    assert len(set(one.ids)) == 40
    np.testing.assert_array_equal(one.codes, table.codes(one.ids))
    assert len(table.backend.sample(1000, 0).ids) == 300


def test_the_approximate_index_is_used_and_the_shortlist_is_ranked_exactly(database: str) -> None:
    rng = np.random.default_rng(3)
    codes = (rng.normal(size=(3000, 16)) * 0.7 ** np.arange(16)).astype(np.float32)
    ids = list(range(3000))
    how = Approximate(dim=4, shortlist=100, effort=80)
    table = CodeIndex(16, backend="postgres", where=database, table="photos", approximate=how)
    table.add(codes, ids)
    flat = CodeIndex(16)
    flat.add(codes, ids)
    rows(database, "ANALYZE photos")
    queries = codes[:50]
    found, exact = table.search(queries), flat.search(queries, shortlist_dim=4, shortlist=100)
    # As good as the exact funnel of the same shape, of which HNSW only approximates the first stage.
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.ids, exact.ids, strict=True)])
    assert shared > 0.97
    assert table.recall(queries=50) > 0.8
    plan = _plan(table, queries[:1])
    assert "Index Scan using photos_prefix_idx" in plan and "Seq Scan" not in plan


def _plan(table: CodeIndex, queries: Floats) -> str:
    from eigenmap.search.backend import Stage

    backend: Any = table.backend
    statement, _ = backend.table.search([Stage(4, 100), Stage(16, 10)], [], by_index=True)
    arrays = [[str(row[:dim].tolist()) for row in queries] for dim in (4, 16)]
    explained = backend.connection.execute("EXPLAIN " + statement.as_string(backend.connection), arrays).fetchall()
    return "\n".join(line for (line,) in explained)


@pytest.mark.parametrize("approximate", [None, Approximate(dim=4, shortlist=300)])
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("metric", ["cosine", "inner"])
def test_other_programs_search_with_plain_sql(
    database: str,
    codes: Floats,
    queries: Floats,
    ids: list[str],
    metric: str,
    precision: str,
    approximate: Approximate | None,
) -> None:
    flat, _ = pair(database, codes, ids, metric, precision=precision, approximate=approximate)
    for query in queries:
        expected = flat.search(query, 5, dim=6)
        statement = "SELECT id, score, metadata ->> 'kind' FROM photos_search(%s::vector, 5, dim => 6)"
        found = rows(database, statement, [str(query.tolist())])
        assert [name for name, _, _ in found] == expected.ids[0]
        np.testing.assert_allclose([score for _, score, _ in found], expected.scores[0], atol=2e-6)


def test_the_function_leaves_settings_alone(database: str, codes: Floats, ids: list[str]) -> None:
    pair(database, codes, ids, approximate=Approximate(dim=4))
    query = str(codes[0].tolist())
    after = rows(
        database,
        "WITH found AS MATERIALIZED (SELECT count(*) FROM photos_search(%s::vector, shortlist => 300))"
        " SELECT count, current_setting('hnsw.ef_search') FROM found",
        [query],
    )
    assert after == [(10, "40")]


def test_settings_that_pgvector_lacks(database: str) -> None:
    def refused(match: str, n_components: int = 12, **options: Any) -> None:
        with pytest.raises(EigenmapError, match=match):
            CodeIndex(n_components, backend="postgres", where=database, **options)

    refused("stores codes as float32 or float16, not as int8", precision="int8")
    refused("16,000", n_components=16_001)
    refused(""""hnsw".*'ivf'""", approximate=Approximate("ivf", 4))
    refused("2,000", n_components=4000, approximate=Approximate(dim=2001))
    assert tables(database) == []


def test_large_features_do_not_fit_half_precision(database: str) -> None:
    index = CodeIndex(2, "inner", backend="postgres", where=database, precision="float16")
    with pytest.raises(EigenmapError, match=r"large.*float16"):
        index.add([[1e6, 0]], ["a"])
    assert len(index) == 0


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_cosine_does_not_depend_on_the_length_of_codes_and_queries(
    database: str, codes: Floats, queries: Floats, ids: list[str], precision: str
) -> None:
    """In float32, as pgvector computes, the norm of many of these would be zero or infinite."""
    factors = 10.0 ** np.linspace(-30, 30, len(codes))[:, None]
    flat, table = pair(database, codes * factors, ids, "cosine", precision=precision, approximate=Approximate(dim=4))
    expected = flat.search(queries)
    for length in (1e-30, 1e-6, 1e6, 1e30):
        found = table.search(queries * length, exact=True)
        np.testing.assert_allclose(found.scores, expected.scores, atol=2e-6)  # some codes differ only in their length
        assert table.search(queries * length).scores.shape == expected.scores.shape


def test_an_id_that_postgresql_cannot_store(database: str) -> None:
    index = CodeIndex(2, backend="postgres", where=database)
    for odd in ("a\udcff", "a\0b"):
        with pytest.raises(EigenmapError, match="database reported"):
            index.add([[1, 0]], [odd])
    with pytest.raises(EigenmapError, match="database reported"):
        index.add([[1, 0]], [2**70])
    assert len(index) == 0


def test_long_codes_are_stored_outside_the_row(database: str) -> None:
    codes = np.random.default_rng(0).normal(size=(20, 1500)).astype(np.float32)
    index = CodeIndex(1500, backend="postgres", where=database, approximate=Approximate(dim=8))
    index.add(codes, range(20))
    assert index.search(codes[3], 1).ids == [[3]]
    np.testing.assert_array_equal(index.codes([4]), codes[4:5])


def test_a_directory_of_the_same_codes(database: str, codes: Floats, ids: list[str], tmp_path: Any) -> None:
    _, table = pair(database, codes, ids)
    table.save(tmp_path / "index")
    assert CodeIndex.open(tmp_path / "index").ids == ids


def test_an_index_of_another_model_is_refused(database: str) -> None:
    CodeIndex(2, backend="postgres", where=database, fingerprint="abc" * 10).close()
    CodeIndex.open(database, fingerprint="abc" * 10).close()
    with pytest.raises(EigenmapError, match="model abcabc"):
        CodeIndex.open(database, fingerprint="def" * 10)


def test_notes_stay_with_the_table(database: str, codes: Floats, ids: list[str]) -> None:
    _, table = pair(database, codes, ids)
    backend: Any = table.backend
    assert backend.read_note("advice") is None
    backend.write_note("advice", {"dim": 4, "text": "it's"})
    backend.write_note("other", {})
    with CodeIndex.open(database, table="photos") as again:
        other: Any = again.backend
        assert other.read_note("advice") == {"dim": 4, "text": "it's"}
        assert again.about == table.about


def test_an_empty_table_says_so(database: str) -> None:
    index = CodeIndex(2, backend="postgres", where=database)
    with pytest.raises(EigenmapError, match="empty"):
        index.search([[1, 0]])


def test_searches_from_several_threads(database: str, codes: Floats, queries: Floats, ids: list[str]) -> None:
    flat, table = pair(database, codes, ids, approximate=Approximate(dim=4, shortlist=300))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda query: table.search(query, 5).ids, [*queries] * 10))
    assert found == [flat.search(query, 5).ids for query in [*queries] * 10]
