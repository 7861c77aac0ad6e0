import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import Approximate, CodeIndex

K, N = 24, 1500


def codes(n, seed=0):
    return (np.random.default_rng(seed).standard_normal((n, K)) * np.arange(1, K + 1) ** -0.8).astype(np.float32)


def index_of(method="hnsw", where=None, metric="cosine", shortlist=60, effort=32):
    index = CodeIndex(K, metric, backend="faiss", where=where, approximate=Approximate(method, 8, shortlist, effort))
    index.add(codes(N), range(N), {"parity": [i % 2 for i in range(N)]})
    return index


def share(found, truth):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, truth, strict=True)])


@pytest.mark.parametrize("metric", ["cosine", "inner"])
@pytest.mark.parametrize("method", ["hnsw", "ivf", "sq8"])
def test_most_of_the_exact_results_are_found_and_the_share_is_told(method, metric):
    index, queries = index_of(method, metric=metric), codes(40, seed=1)
    flat = CodeIndex(K, metric)
    flat.add(codes(N), range(N))
    exact = index.search(queries, exact=True)
    assert exact.ids == flat.search(queries).ids and exact.recall == 1
    found = index.search(queries)
    assert found.recall is None
    measured = index.recall()
    assert index.search(queries).recall == measured
    assert share(found.ids, exact.ids) > 0.8 and abs(measured - share(found.ids, exact.ids)) < 0.1
    # what it returns is ranked by the full codes
    scores = dict(zip(exact.ids[0], exact.scores[0].tolist(), strict=True))
    for name, score in zip(found.ids[0], found.scores[0].tolist(), strict=True):
        assert score == pytest.approx(scores.get(name, score), abs=1e-5)


@pytest.mark.parametrize("method", ["hnsw", "ivf", "sq8"])
def test_filters_deletions_and_additions(method):
    index, queries = index_of(method, effort=64), codes(10, seed=1)
    odd = index.search(queries, 20, where={"parity": 1})
    assert all(name % 2 for ids in odd.ids for name in ids) and odd.scores.shape == (10, 20)
    assert share(odd.ids, index.search(queries, 20, where={"parity": 1}, exact=True).ids) > 0.7
    index.add(queries, range(N, N + 10))
    assert [ids[0] for ids in index.search(queries, 1).ids] == list(range(N, N + 10))
    index.delete(range(N, N + 10))
    assert not {name for ids in index.search(queries, 50).ids for name in ids} & set(range(N, N + 10))


def test_lengths_below_the_index_and_rare_filters_are_exact():
    index, queries = index_of(), codes(5, seed=1)
    index.update(codes(N)[:9], range(9), [{"parity": 7}] * 9)
    for options in ({"dim": 4}, {"where": {"parity": 7}}, {"top": N}):
        assert index.search(queries, **options).ids == index.search(queries, exact=True, **options).ids


def test_a_wider_shortlist_finds_more():
    index, queries = index_of(), codes(60, seed=1)
    exact = index.search(queries, exact=True).ids
    narrow, wide = (index.search(queries, funnel=[(8, s), (K, 10)]).ids for s in (12, 400))
    assert share(narrow, exact) < share(wide, exact) and share(wide, exact) > 0.97


def test_the_approximate_index_is_kept_on_disk_and_made_again_if_damaged(tmp_path):
    index, queries = index_of(where=tmp_path / "a"), codes(5, seed=1)
    found = index.search(queries).ids
    file = tmp_path / "a" / "prefix-8.hnsw"
    written = file.stat().st_mtime_ns
    again = CodeIndex.open(tmp_path / "a")
    assert again.about.approximate == Approximate("hnsw", 8, 60, 32)
    assert again.search(queries).ids == found and file.stat().st_mtime_ns == written
    again.add(queries, range(N, N + 5))
    assert [ids[0] for ids in again.search(queries, 1).ids] == list(range(N, N + 5))
    file.write_bytes(file.read_bytes()[:1000])
    assert CodeIndex.open(tmp_path / "a").search(queries, 1).ids == again.search(queries, 1).ids
    assert file.stat().st_size > 1000


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (Approximate("annoy"), "method.*hnsw, ivf, sq8"),
        (Approximate("hnsw", K + 1), f"dim .*1 to {K}"),
        (Approximate("hnsw", 8, 0), "shortlist"),
        (Approximate("hnsw", 8, 10, 0), "effort"),
        ("hnsw", "approximate.*Approximate"),
    ],
)
def test_an_approximate_index_that_cannot_be_made_says_why(how, message):
    with pytest.raises(EigenmapError, match=message):
        CodeIndex(K, backend="faiss", approximate=how)


def test_an_unknown_back_end_or_place_is_explained():
    with pytest.raises(EigenmapError, match=r"backend.*flat, faiss, postgres.*'redis'"):
        CodeIndex(K, backend="redis")
    with pytest.raises(EigenmapError, match="backend='faiss'"):
        CodeIndex(K, approximate=Approximate("hnsw", 8))
    with pytest.raises(EigenmapError, match="where='postgresql://"):
        CodeIndex(K, backend="postgres")
    with pytest.raises(EigenmapError, match="backend='postgres'"):
        CodeIndex(K, where="postgresql://localhost/x")


@pytest.mark.parametrize("metric", ["cosine", "inner"])
@pytest.mark.parametrize(
    ("method", "stored"),
    [("sq8", {}), ("ivf", {"precision": "bits", "bytes_per_item": 12}), ("sq8", {"precision": "int8"})],
)
def test_scores_at_the_length_of_the_index_are_those_of_the_stored_codes(method, stored, metric):
    index = CodeIndex(K, metric, backend="faiss", approximate=Approximate(method, K, shortlist=60), **stored)
    index.add(codes(N), range(N))
    index.add(codes(9, seed=2), range(N, N + 9))  # compared without the approximate index, until it is rebuilt
    queries = np.vstack([codes(20, seed=1), codes(9, seed=2)])
    found, everything = index.search(queries, 10), index.search(queries, N + 9, exact=True)
    for ids, scores, all_ids, all_scores in zip(*found[:2], *everything[:2], strict=True):
        right = dict(zip(all_ids, all_scores.tolist(), strict=True))
        assert scores.tolist() == pytest.approx([right[name] for name in ids], rel=1e-5, abs=1e-6)
    assert share(found.ids, [ids[:10] for ids in everything.ids]) > 0.9


def test_clusters_become_more_as_the_index_grows(tmp_path):
    """With as few of them as in the beginning, a search of some clusters would visit most items."""
    index = CodeIndex(K, backend="faiss", where=tmp_path / "index", approximate=Approximate("ivf", 8, effort=4))
    lists, rows = [], 0
    for more in (400, 100, 3500, 12_000):
        index.add(codes(more, seed=more), range(rows, rows + more))
        rows += more
        index.search(codes(1))
        lists.append(index.backend.prefix_index().nlist)
    assert lists == [10, 10, 63, 126]
    assert CodeIndex.open(tmp_path / "index").backend.prefix_index().nlist == 126
