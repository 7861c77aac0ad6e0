import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search import index as index_module
from eigenmap.search.backend import still

K = 12


def codes(n, k=K, seed=0):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


def index_of(n=50, metric="cosine", **options):
    index = CodeIndex(K, metric, **options)
    index.add(codes(n), [f"item {i}" for i in range(n)])
    return index


def brute_force(queries, gallery, top, dim, metric):
    """Rows and scores from the whole float64 score matrix."""
    q, g = queries[:, :dim].astype(np.float64), gallery[:, :dim].astype(np.float64)
    if metric == "cosine":
        q, g = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, g))
    scores = q @ g.T
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return rows, np.take_along_axis(scores, rows, axis=1)


@pytest.mark.parametrize("memory_bytes", [1, 600, 2**28])
@pytest.mark.parametrize("metric", ["cosine", "inner"])
@pytest.mark.parametrize("dim", [*range(1, K + 1), None])
def test_search_is_brute_force_at_every_length(metric, dim, memory_bytes):
    gallery, queries = codes(50), codes(30, seed=1)
    # One feature has only a sign, so that all cosines tie: let everything fit.
    top = 50 if dim == 1 and metric == "cosine" else 7
    index = index_of(metric=metric, memory_bytes=memory_bytes)
    rows, scores = brute_force(queries, gallery, top, dim or K, metric)
    for batch in (queries, queries[:2]):  # faiss computes large and small batches in different ways
        found = index.search(batch, top, dim)
        assert found.ids == [[f"item {row}" for row in line] for line in rows[: len(batch)].tolist()]
        np.testing.assert_allclose(found.scores, scores[: len(batch)], atol=1e-5)
        assert found.scores.dtype == np.float32


def test_additions_are_searched_together_and_the_kept_prefix_is_renewed():
    gallery, queries = codes(40), codes(3, seed=1)
    index = CodeIndex(K)
    for start in range(0, 40, 9):
        index.add(gallery[start : start + 9], range(start, min(start + 9, 40)))
        seen = gallery[: start + 9]
        assert index.search(queries, 5, dim=4).ids == brute_force(queries, seen, 5, 4, "cosine")[0].tolist()
    assert len(index) == 40
    assert index.ids == list(range(40))


def test_equal_scores_come_in_the_order_of_addition():
    index = CodeIndex(2)
    index.add(np.tile([[3.0, 4.0], [1.0, 0.0]], (5, 1)), list("jihgfedcba"))
    assert index.search([[3.0, 4.0]], 10).ids == [list("jhfdbigeca")]


def test_zero_codes_have_cosine_zero():
    index = CodeIndex(2)
    index.add([[0.0, 0.0], [1.0, 1.0], [-1.0, 0.0]], [0, 1, 2])
    found = index.search([[1.0, 0.0]], 3)
    assert found.ids == [[1, 0, 2]]
    np.testing.assert_allclose(found.scores, [[0.5**0.5, 0.0, -1.0]], rtol=1e-6)
    assert index.search([[0.0, 0.0]], 3).scores.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("metric", ["cosine", "inner"])
@pytest.mark.parametrize("memory_bytes", [1, 2**28])
def test_the_funnel_ranks_the_shortlist_by_more_features(metric, memory_bytes):
    gallery, queries = codes(50), codes(9, seed=1)
    index = index_of(metric=metric, memory_bytes=memory_bytes)
    found = index.search(queries, top=4, dim=8, shortlist_dim=3, shortlist=15)
    for query, ids, scores in zip(queries, found.ids, found.scores, strict=True):
        shortlist = np.sort(brute_force(query[None], gallery, 15, 3, metric)[0][0])
        rows, expected = brute_force(query[None], gallery[shortlist], 4, 8, metric)
        assert ids == [f"item {row}" for row in shortlist[rows[0]]]
        np.testing.assert_allclose(scores, expected[0], atol=1e-5)


def test_a_shortlist_of_everything_is_the_exact_search():
    index, queries = index_of(), codes(5, seed=1)
    exact, funnel = index.search(queries, 6), index.search(queries, 6, shortlist_dim=1, shortlist=1000)
    assert funnel.ids == exact.ids
    np.testing.assert_allclose(funnel.scores, exact.scores, atol=1e-6)


def test_more_results_than_items_returns_what_there_is():
    found = index_of(3).search(codes(2, seed=1), top=10)
    assert found.scores.shape == (2, 3)
    assert [sorted(ids) for ids in found.ids] == [["item 0", "item 1", "item 2"]] * 2


def test_one_query_no_query_and_queries_already_cut():
    index, queries = index_of(), codes(2, seed=1)
    assert index.search(queries[0], 3).ids == index.search(queries[:1], 3).ids
    none = index.search(queries[:0], 3)
    assert none.ids == [] and none.scores.shape == (0, 3)
    assert index.search(queries[:, :5], 3, dim=5).ids == index.search(queries, 3, dim=5).ids


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.astype(np.float16),
        lambda x: x.astype(np.float64),
        lambda x: np.asfortranarray(x),
        lambda x: torch.from_numpy(x),
        lambda x: torch.from_numpy(x).double().requires_grad_(),
        lambda x: torch.from_numpy(x).bfloat16(),
        lambda x: x.tolist(),
    ],
)
def test_codes_of_any_float_type(convert):
    gallery = convert(codes(20))
    index = CodeIndex(K)
    index.add(gallery, range(20))
    found = index.search(gallery, top=1, dim=6)
    assert [ids[0] for ids in found.ids] == list(range(20))
    np.testing.assert_allclose(found.scores, 1.0, atol=1e-6)


def test_the_caller_may_change_the_array_afterwards():
    gallery = codes(4)
    index = CodeIndex(K)
    index.add(gallery, range(4))
    gallery[:] = 0
    assert index.search(codes(4), 1).ids == [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["a", "b/ü.jpg", "猫 \U0001f408", "bad \udcff name", ""], None),
        ([0, -5, 2**40, 2**80, 7], None),
        (np.array([3, 1, 4, 5, 9], dtype=np.uint8), [3, 1, 4, 5, 9]),
        (torch.tensor([3, 1, 4, 5, 9]), [3, 1, 4, 5, 9]),
        (np.array(["p", "q", "r", "s", "t"]), ["p", "q", "r", "s", "t"]),
        ((np.int64(i) for i in range(5)), [0, 1, 2, 3, 4]),
    ],
)
def test_ids_are_kept_as_they_were_given(ids, kept, tmp_path):
    kept = list(ids) if kept is None else kept
    index = CodeIndex(K)
    index.add(codes(5), ids)
    index.save(tmp_path / "index")
    for each in (index, CodeIndex.load(tmp_path / "index")):
        found = [line[0] for line in each.search(codes(5), 1).ids]
        assert found == each.ids == kept
        assert {type(i) for i in found} == {type(kept[0])}


@pytest.mark.parametrize("dim", [0, K + 1, -1, "x", 2.5, True])
def test_a_dim_out_of_range_says_what_is_allowed(dim):
    with pytest.raises(EigenmapError, match=f"^dim .*1 to {K}"):
        index_of().search(codes(1), dim=dim)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top": 0}, "top.*1.*0"),
        ({"top": "x"}, "top"),
        ({"queries": codes(2, 5)}, f"5 features.*{K}"),
        ({"queries": codes(2, 5), "dim": 4}, f"{K}.*dim = 4"),
        ({"queries": np.full((2, K), np.inf)}, "queries.*NaN.*row 0"),
        ({"queries": np.zeros((2, 2, K))}, "queries.*matrix"),
        ({"queries": [["a"] * K]}, "queries.*numbers"),
        ({"shortlist": 20}, "shortlist_dim.*shortlist"),
        ({"shortlist_dim": 4}, "shortlist_dim.*shortlist"),
        ({"shortlist_dim": 6, "shortlist": 20, "dim": 5}, "shortlist_dim.*1.*5.*6"),
        ({"shortlist_dim": 2, "shortlist": 5, "top": 6}, "shortlist.*6.*5"),
    ],
)
def test_a_search_that_cannot_be_made_says_why(arguments, message):
    with pytest.raises(EigenmapError, match=message):
        index_of().search(**({"queries": codes(1)} | arguments))


@pytest.mark.parametrize(
    ("added", "ids", "message"),
    [
        (codes(2, 5), ["a", "b"], f"codes.*5 features.*{K}"),
        (np.where(np.arange(3)[:, None] == 1, np.nan, codes(3)), list("abc"), "codes.*NaN.*row 1"),
        (np.full((1, K), 1e300), ["a"], "infinite"),
        (codes(K)[0], ["a"], "codes.*matrix"),
        (codes(2), ["a"], "2 codes.*1 ids"),
        (codes(2) * 1j, ["a", "b"], "codes.*numbers"),
        (codes(2), "ab", "not .ab."),
        (codes(2), None, "ids.*None"),
        (codes(2), ["a", "a"], "'a'.*twice"),
        (codes(2), ["a", "item 3"], "'item 3'.*already"),
        (codes(2), ["a", 1], "strings"),
        (codes(2), [1, 2], "strings.*'item 0' and 1"),
        (codes(1), [1.5], "string.*1.5"),
        (codes(1), [True], "string.*True"),
    ],
)
def test_codes_that_cannot_be_added_say_why_and_change_nothing(added, ids, message):
    index = index_of()
    with pytest.raises(EigenmapError, match=message):
        index.add(added, ids)
    assert len(index) == 50 and "a" not in index.ids
    index.add(codes(1), ["a"])


@pytest.mark.parametrize(("added", "ids"), [(codes(2, K - 1), ["a"]), (codes(1, K - 1), [1.5]), (codes(0, K - 1), [])])
def test_only_codes_that_are_added_determine_the_length(added, ids):
    index = CodeIndex()
    with suppress(EigenmapError):
        index.add(added, ids)
    index.add(codes(2), ["a", "b"])
    assert index.n_components == K


def test_a_recall_of_earlier_items_is_not_reported(monkeypatch):
    index, stages = index_of(), {"funnel": [(2, 8), (K, 5)]}
    index.recall(**stages)
    assert index.search(codes(1), **stages).recall is not None

    def changed_meanwhile(backend):
        items = still(backend)
        index.add(codes(1), [f"later {len(items)}"])
        return items

    monkeypatch.setattr(index_module, "still", changed_meanwhile)
    index.recall(**stages)
    monkeypatch.undo()
    assert index.search(codes(1), **stages).recall is None


def test_no_queries_and_no_rows_are_no_numbers():
    with pytest.raises(EigenmapError, match=r"queries.*1.*0"):
        index_of().recall(queries=0)
    with pytest.raises(EigenmapError, match=r"rows.*1.*0"):
        index_of().batches(0)


def test_an_empty_index_cannot_be_searched_or_saved(tmp_path):
    empty = CodeIndex(K)
    empty.add(np.zeros((0, K)), [])
    with pytest.raises(EigenmapError, match=r"empty.*search"):
        empty.search(codes(1))
    with pytest.raises(EigenmapError, match=r"empty.*sav"):
        empty.save(tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "n_components.*1"),
        (("x",), "n_components"),
        ((4, "l2"), "metric.*'l2'"),
    ],
)
def test_an_index_that_cannot_be_made_says_why(arguments, message):
    with pytest.raises(EigenmapError, match=message):
        CodeIndex(*arguments)


def test_a_budget_of_bits_ranks_by_relevance_or_by_cosine():
    """Against products and cosines of what is stored; by cosine more of the true neighbours are found."""
    rows, queries = (codes(n, seed=n) * np.arange(1, K + 1) ** -0.7 for n in (3000, 40))
    index, exact = CodeIndex(K, precision="bits", bytes_per_item=4), CodeIndex(K)
    index.add(rows, range(3000))
    exact.add(rows, range(3000))
    stored = index.codes(range(3000)).astype(np.float64)
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    truth, found = exact.search(queries).ids, {}
    for ranking, norm in (("relevance", 1), ("cosine", np.linalg.norm(stored, axis=1)), ("relevance", 1)):
        index.rank_by(ranking)
        results = index.search(queries)
        scores = unit @ stored.T / norm
        np.testing.assert_allclose(results.scores, -np.sort(-scores, axis=1)[:, :10], atol=1e-5)
        found[ranking] = np.mean([len(set(a) & set(b)) for a, b in zip(results.ids, truth, strict=True)])
    assert found["cosine"] > found["relevance"]
    with pytest.raises(EigenmapError, match=r"ranking.*relevance, cosine.*'l2'"):
        index.rank_by("l2")
    exact.rank_by("cosine")
    assert exact.search(queries).ids == truth


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_precision_and_any_rows_rank_as_their_stored_codes(data):
    """Equal, zero and whole-number rows, a single item, a single feature, more results than items."""
    k, n, n_queries = (data.draw(st.integers(1, most)) for most in (20, 40, 12))
    metric = data.draw(st.sampled_from(["cosine", "inner"]))
    precision = data.draw(st.sampled_from(["float32", "float16", "int8", "bits", "signs"]))
    compact = precision in ("bits", "signs")
    n_bytes = data.draw(st.integers(1, k)) if precision == "bits" else -(-k // 8) if compact else None
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows = rng.integers(-2, 3, (n, k)) if data.draw(st.booleans()) else codes(n, k, n)[rng.integers(n, size=n)]
    queries = np.vstack([rng.standard_normal((n_queries, k)), rows[:1], np.zeros((1, k))])
    index = CodeIndex(k, metric, precision=precision, bytes_per_item=n_bytes)
    index.add(rows, range(n))
    ranking = data.draw(st.sampled_from(["relevance", "cosine"]))
    index.rank_by(ranking)
    dim, top = data.draw(st.integers(1, k)), data.draw(st.integers(1, n + 5))

    def unit(x):
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)

    q, stored = queries[:, :dim], index.codes(range(n))[:, :dim].astype(np.float64)
    if metric == "cosine":
        q = unit(q)
        stored = stored if compact and dim == k and ranking == "relevance" else unit(stored)
    truth = q @ stored.T
    best = -np.sort(-truth, axis=1)[:, :top]
    for some in (slice(None), slice(0, 1)):
        for options in ({}, {"shortlist_dim": 1, "shortlist": n + 5}):
            found = index.search(queries[some], top, dim, **options)
            assert all(len(set(ids)) == min(top, n) for ids in found.ids)
            np.testing.assert_allclose(found.scores, best[some], atol=1e-4)
            np.testing.assert_allclose(np.take_along_axis(truth[some], np.array(found.ids), 1), best[some], atol=1e-4)


def test_levels_that_were_learned_from_few_codes_do_not_describe_many(tmp_path):
    index = CodeIndex(K, where=tmp_path / "few", precision="bits", bytes_per_item=4)
    index.add(codes(5), range(5))
    index.upsert(codes(10, seed=1), range(10))  # twice as many
    with pytest.raises(EigenmapError, match=r"5 codes.*11"):
        index.add(codes(1), [10])
    again = CodeIndex.open(tmp_path / "few")
    with pytest.raises(EigenmapError, match="thousand"):
        again.add(codes(1), [10])
    assert len(again) == 10
    index = CodeIndex(K, precision="bits", bytes_per_item=4)
    index.add(codes(300), range(300))
    index.add(codes(2700), range(300, 3000))
    with pytest.raises(EigenmapError, match="3,001"):
        index.add(codes(1), [3000])


def test_an_index_needs_no_torch():
    program = """
import sys
import numpy as np
from eigenmap.search import CodeIndex
from eigenmap.search import index as index_module
from eigenmap.search.backend import still
index = CodeIndex(4)
index.add(np.eye(4), range(4))
print(index.search(np.eye(4)[2], top=1).ids, "torch" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[[2]] False\n"
