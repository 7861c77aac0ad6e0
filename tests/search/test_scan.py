import tracemalloc

import numpy as np
import pytest

from eigenmap.search import cancellation, scan
from eigenmap.search.codecs import FloatCodec
from eigenmap.search.columns import Columns
from eigenmap.search.scan import Scanner, comparable, divisors, top_scores

K, N = 20, 300


def codes(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


def scanner(metric="cosine", memory_bytes=2**20, dtype="float32"):
    columns = Columns(FloatCodec(K, dtype))
    columns = columns.grown(columns.encoded(codes(N)))
    return Scanner(columns, metric, memory_bytes)


def reference(queries, rows, keep, metric):
    q, x = queries.astype(np.float64), codes(N)[rows, : queries.shape[1]].astype(np.float64)
    if metric == "cosine":
        q, x = (m / np.linalg.norm(m, axis=1, keepdims=True) for m in (q, x))
    scores = q @ x.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :keep]
    return np.take_along_axis(scores, order, axis=1), rows[order]


@pytest.mark.parametrize("memory_bytes", [1, 3000, 2**24])
@pytest.mark.parametrize("metric", ["cosine", "inner"])
@pytest.mark.parametrize("dim", [2, 8, 13, 16, K])
@pytest.mark.parametrize("n_queries", [1, scan.FEW_QUERIES, 30])
@pytest.mark.parametrize("step", [0, 1, 3, 20])  # 0: all but two
def test_every_path_gives_the_exact_ranking(memory_bytes, metric, dim, n_queries, step):
    of = scanner(metric, memory_bytes)
    rows = np.setdiff1d(np.arange(N), [3, 77]) if step == 0 else np.arange(0, N, step)
    queries = np.ascontiguousarray(codes(n_queries, seed=1)[:, :dim])
    expected, wanted = reference(queries, rows, 7, metric)
    for _ in range(2):  # again with what was kept
        scores, found = of.scan(queries, 7, None if step == 1 else np.isin(np.arange(N), rows), keepable=step < 2)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize(("n_queries", "dtype"), [(1, "float32"), (30, "float32"), (1, "float16")])
def test_a_scan_that_nobody_waits_for_ends_between_two_blocks(monkeypatch, n_queries, dtype):
    """Of old, only filters asked; a scan went on to its end."""
    of = scanner("cosine", 900, dtype)
    queries, read = codes(n_queries, seed=1), []
    for name in ("read", "block", "take"):
        method = getattr(Columns, name)
        monkeypatch.setattr(Columns, name, lambda *a, method=method: read.append(a[1:]) or method(*a))
    whole = of.scan(queries, 5, None)[1]
    at_once, read[:] = len(read), []
    with cancellation.cancel_when(lambda: len(read) > at_once // 2), pytest.raises(cancellation.SearchCancelledError):
        of.scan(queries, 5, None)
    assert at_once // 2 < len(read) < at_once
    with cancellation.cancel_when(lambda: False):
        np.testing.assert_array_equal(of.scan(queries, 5, None)[1], whole)
    candidates, read[:] = np.tile(np.arange(N), (n_queries, 1)), []
    with cancellation.cancel_when(lambda: bool(read)):
        if n_queries == 1:  # one block
            of.rerank(queries, candidates, 5)
        else:
            with pytest.raises(cancellation.SearchCancelledError):
                of.rerank(queries, candidates, 5)
    assert len(read) == 1
    with cancellation.cancel_when(lambda: True):
        for work in (lambda: of.rerank(queries, candidates, 5), lambda: scanner().scan(queries, 5, None)):
            with pytest.raises(cancellation.SearchCancelledError):
                work()


def test_lengths_in_any_order_share_what_is_kept_of_norms():
    of = scanner(memory_bytes=2**24)
    for dim in (16, 3, 20, 10, 8, 11, 1):
        query = codes(1, seed=dim)[:, :dim].copy()
        expected, wanted = reference(query, np.arange(N), 5, "cosine")
        scores, found = of.scan(query, 5, None)
        np.testing.assert_allclose(scores, expected, atol=1e-6)
        assert dim == 1 or found.tolist() == wanted.tolist()


def test_what_is_kept_stays_within_the_memory_given():
    of = scanner(memory_bytes=40 * N)
    for dim in range(2, K + 1):
        of.scan(codes(1)[:, :dim].copy(), 5, None)
        of.scan(codes(20)[:, :dim].copy(), 5, None)
        kept = sum(norms.squares.nbytes + norms.norms.nbytes for norms in of._norms.values())
        assert 0 < kept <= of.memory_bytes // 2
        assert sum(prefix.nbytes for _, prefix in of._kept.values()) <= of.memory_bytes


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("n_queries", [1, 20])
@pytest.mark.parametrize("gone", [0, 5])
def test_a_search_holds_no_more_than_the_memory_given(dtype, n_queries, gone):
    columns = Columns(FloatCodec(64, dtype))
    rows = np.random.default_rng(0).standard_normal((60_000, 64)).astype(np.float32)  # 15 MB
    columns = columns.grown(columns.encoded(rows))
    of, memory_bytes = Scanner(columns, "cosine", 2**21), 2**21
    among = None if not gone else np.arange(60_000) >= gone
    of.scan(rows[:20], 5, among)  # imports and their like
    tracemalloc.start()
    of.scan(rows[:n_queries], 5, among)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < memory_bytes + 2**20  # and what is decoded or compared at a time


@pytest.mark.parametrize("metric", ["cosine", "inner"])
@pytest.mark.parametrize("memory_bytes", [1, 2**24])
def test_each_query_ranks_its_own_candidates(metric, memory_bytes):
    of = scanner(metric, memory_bytes)
    queries = codes(9, seed=1)[:, :13]
    candidates = np.stack([np.random.default_rng(i).permutation(N)[:40] for i in range(9)])
    scores, found = of.rerank(queries, candidates, 6)
    for i in range(9):
        expected, wanted = reference(queries[i : i + 1], np.sort(candidates[i]), 6, metric)
        assert found[i].tolist() == wanted[0].tolist()
        np.testing.assert_allclose(scores[i], expected[0], atol=1e-5)
    assert of.rerank(queries[:0], candidates[:0], 6)[0].shape == (0, 6)


def test_rows_beyond_the_range_of_squares():
    rows = np.array([[3e30, 4e30], [3e-30, 4e-30], [0, 0], [3, 4]], np.float32)
    np.testing.assert_allclose(comparable(rows, "cosine"), [[0.6, 0.8], [0.6, 0.8], [0, 0], [0.6, 0.8]], rtol=1e-6)
    assert divisors(rows).tolist() == [1, 1, 1, 5]
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.6, 0.8], [0, 0], [3, 4]], rtol=1e-6)  # unit rows, in place


def test_the_best_are_sorted_and_ties_go_to_the_first_row():
    scores = np.array([[1, 3, 3, 2, 0, 0, 0, 0, 0]], np.float32)
    rows = np.array([[5, 9, 4, 1, 10, 11, 12, 13, 14]])
    assert top_scores(scores, rows, 2)[1].tolist() == [[4, 9]]
    assert top_scores(scores, rows, 4)[1].tolist() == [[4, 9, 1, 5]]


def test_means_of_unit_codes_are_not_divided_by_their_norm_at_full_length():
    columns = Columns(FloatCodec(K, "float16"))
    rows = (codes(N) * np.linspace(0.1, 1, N)[:, None]).astype(np.float16).astype(np.float32)
    columns = columns.grown(columns.encoded(rows))
    of, queries = Scanner(columns, "cosine", 2**20, means=True), codes(12, seed=1)
    products = comparable(queries, "cosine") @ rows.T
    for scores, found in (of.scan(queries, 5, None), of.rerank(queries, np.tile(np.arange(N), (12, 1)), 5)):
        np.testing.assert_array_equal(found, np.argsort(-products, axis=1, kind="stable")[:, :5])
        np.testing.assert_allclose(scores, -np.sort(-products, axis=1)[:, :5], atol=1e-5)
    cut = comparable(queries[:, :9], "cosine") @ comparable(rows[:, :9], "cosine").T
    assert of.scan(queries[:, :9].copy(), 5, None)[1].tolist() == np.argsort(-cut, axis=1)[:, :5].tolist()
