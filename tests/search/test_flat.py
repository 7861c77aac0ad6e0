"""Changes, metadata and filters; the same for memory, disk and the approximate back end in exact mode."""

import errno
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError, UnknownIdError
from eigenmap.search import CodeIndex, flat, saving
from eigenmap.search.columns import Columns

K = 12


def codes(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


def facts(n):
    return [{"label": "cat" if i % 2 else "dog", "year": 2000 + i} if i % 5 else {} for i in range(n)]


@pytest.fixture(params=["flat", "flat on disk", "faiss", "faiss on disk"])
def index(request, tmp_path):
    """Forty items with metadata."""
    backend, _, disk = request.param.partition(" ")
    made = CodeIndex(K, backend=backend, where=tmp_path / "index" if disk else None)
    made.add(codes(40), range(40), facts(40))
    return made


def reference(queries, gallery, allowed, top, dim=K):
    """Ids of the best allowed rows, by brute force in float64."""
    q, x = queries[:, :dim].astype(np.float64), gallery[:, :dim].astype(np.float64)
    scores = (q / np.linalg.norm(q, axis=1, keepdims=True)) @ (x / np.linalg.norm(x, axis=1, keepdims=True)).T
    scores[:, ~np.asarray(allowed)] = -np.inf
    return np.argsort(-scores, axis=1, kind="stable")[:, : min(top, int(np.sum(allowed)))].tolist()


@pytest.mark.parametrize("n_queries", [2, 20])
def test_filters_and_funnels_of_any_number_of_stages(index, n_queries):
    queries, gallery = codes(n_queries, seed=1), codes(40)
    cats = [i % 5 > 0 and i % 2 == 1 and i >= 10 for i in range(40)]
    where = {"label": "cat", "year": {">=": 2010}}
    for dim in (3, K):
        found = index.search(queries, 6, dim, where=where, exact=True)
        assert found.ids == reference(queries, gallery, cats, 6, dim)
    funnel = index.search(queries, funnel=[(2, 30), (4, 12), (7, 6), (K, 3)], where=where, exact=True)
    for query, got in zip(queries, funnel.ids, strict=True):
        left = np.array(cats)
        for dim, keep in ((2, 30), (4, 12), (7, 6)):
            (kept,) = reference(query[None], gallery, left, keep, dim)
            left = np.isin(np.arange(40), kept)
        assert [got] == reference(query[None], gallery, left, 3)
    none = index.search(queries, where={"label": "fish"})
    assert none.ids == [[]] * n_queries and none.scores.shape == (n_queries, 0)
    assert len(index.search(queries, 30, where={"label": "cat"}, exact=True).ids[0]) == 16


def test_a_filter_for_true_is_not_one_for_1():
    index = CodeIndex(K)
    index.add(codes(3), [0, 1, 2], [{"sharp": True}, {"sharp": 1}, {"sharp": 1.0}])
    query = codes(1, seed=1)
    assert index.search(query, where={"sharp": True}).ids == [[0]]
    assert sorted(index.search(query, where={"sharp": 1}).ids[0]) == [1, 2]
    assert index.search(query, where={"sharp": [True]}).ids == [[0]]


@pytest.mark.parametrize("n_queries", [2, 20])
def test_changes_are_seen_by_the_next_search(index, n_queries):
    queries = codes(n_queries, seed=1)
    gallery = np.concatenate([codes(40), codes(3, seed=5), codes(2, seed=6)])
    names = [*range(40), 3, 39, 4, 100, 7]
    alive = np.array([i not in (3, 39, 4, 5, 7) for i in range(40)] + [True] * 5)

    def expected(top):
        return [[names[row] for row in rows] for rows in reference(queries, gallery, alive, top)]

    index.search(queries, 5)  # something to be forgotten
    index.update(gallery[40:43], [3, 39, 4])
    index.delete([5])
    index.upsert(gallery[43:], [100, 7])
    assert len(index) == 40 and index.ids == [n for n, a in zip(names, alive, strict=True) if a]
    assert index.search(queries, 9, exact=True).ids == expected(9)
    assert index.search(queries, 40, exact=True).ids == expected(40)
    np.testing.assert_array_equal(index.codes([7, 100, 3]), gallery[[44, 43, 40]])
    assert index.metadata([3, 39, 100, 8]) == [facts(40)[3], facts(40)[39], {}, facts(40)[8]]  # kept by update
    index.update(gallery[40:41], [3], [{"label": "fish"}])
    assert index.search(queries, where={"label": "fish"}).ids == [[3]] * n_queries


def test_an_id_may_come_back(index):
    index.delete([1, 2])
    index.add(codes(1, seed=9), [2])
    assert index.ids[-1] == 2 and 1 not in index.ids
    assert index.search(codes(1, seed=9), 1).ids == [[2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.delete([3, 77]), "no item.*77"),
        (lambda index: index.update(codes(2), [3, 77]), "no item.*77"),
        (lambda index: index.add(codes(2), [77, 3]), "id 3.*already"),
        (lambda index: index.upsert(codes(2), [77, 77]), "id 77.*twice"),
        (lambda index: index.upsert(codes(1), ["x"]), "strings"),
        (lambda index: index.codes([77]), "no item.*77"),
        (lambda index: index.update(codes(1), [3], [{"a": {}}]), "text"),
        (lambda index: index.search(codes(1), where={"a": {"~": 1}}), "unknown comparison '~'"),
        (lambda index: index.search(codes(1), dim=4, funnel=[(4, 4)]), "funnel.*stages"),
        (lambda index: index.search(codes(1), dim="auto", shortlist=4), "stages"),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(index, change, message):
    with pytest.raises(EigenmapError, match=message):
        change(index)
    assert index.ids == list(range(40))
    np.testing.assert_array_equal(index.codes(range(40)), codes(40))


def test_a_directory_is_the_same_after_changes(tmp_path):
    index = CodeIndex(K, where=tmp_path / "a")
    for start in range(0, 40, 7):
        part = slice(start, start + 7)
        index.add(codes(40)[part], range(40)[part], facts(40)[part])
    index.delete([0, 20])
    index.update(codes(1, seed=3), [21])
    index.save(tmp_path / "b")
    for path in ("a", "b"):
        again = CodeIndex.open(tmp_path / path)
        again.backend.verify()
        assert again.ids == index.ids and len(again) == 38
        np.testing.assert_array_equal(again.codes(index.ids), index.codes(index.ids))
        assert again.metadata(index.ids) == index.metadata(index.ids)
        assert (
            again.search(codes(3, seed=1), 38, where={"label": "dog"}).ids
            == index.search(codes(3, seed=1), 38, where={"label": "dog"}).ids
        )


def test_batches_and_samples(index):
    index.delete([0, 39])
    parts = list(index.batches(15))
    assert [len(part.ids) for part in parts] == [15, 15, 8]
    assert [name for part in parts for name in part.ids] == list(range(1, 39))
    np.testing.assert_array_equal(np.concatenate([part.codes for part in parts]), codes(40)[1:39])
    sample = index.backend.sample(10, seed=1)
    assert len(set(sample.ids)) == 10 and not {0, 39} & set(sample.ids)
    np.testing.assert_array_equal(sample.codes, codes(40)[sample.ids])
    assert index.backend.sample(10, seed=1).ids == sample.ids != index.backend.sample(10, seed=2).ids
    assert len(index.backend.sample(99, seed=1).ids) == 38


@pytest.mark.parametrize(("precision", "n_bytes"), [("float16", None), ("int8", None), ("bits", 6), ("signs", 1)])
def test_compact_codes_are_the_same_in_memory_on_disk_and_saved(precision, n_bytes, tmp_path):
    def made(where):
        index = CodeIndex(K, precision=precision, bytes_per_item=n_bytes, where=where)
        index.add(codes(40), range(40))
        index.add(codes(5, seed=2), range(40, 45))
        return index

    memory, disk = made(None), made(tmp_path / "disk")
    memory.save(tmp_path / "saved")
    stored = {"float16": 2 * K, "int8": K}.get(precision, n_bytes)
    assert memory.backend.stored_bytes() == stored
    others = [disk, CodeIndex.open(tmp_path / "disk"), CodeIndex.open(tmp_path / "saved")]
    for other in others:
        np.testing.assert_array_equal(other.codes(range(45)), memory.codes(range(45)))
        for dim in (4, K):
            assert other.search(codes(3, seed=1), 10, dim).ids == memory.search(codes(3, seed=1), 10, dim).ids
    assert sum(file.stat().st_size for file in (tmp_path / "disk").glob("features-*")) == 45 * stored


def test_an_index_of_another_model_is_refused(tmp_path):
    index = CodeIndex(K, where=tmp_path / "a", fingerprint="f" * 64)
    index.add(codes(2), [1, 2])
    assert len(CodeIndex.open(tmp_path / "a", fingerprint="f" * 64)) == 2
    with pytest.raises(EigenmapError, match=r"ffffffffffff.*eeeeeeeeeeee"):
        CodeIndex.open(tmp_path / "a", fingerprint="e" * 64)
    with pytest.raises(EigenmapError, match="no known model"):
        CodeIndex(K).require_model("e" * 64)


def test_an_empty_index_on_disk_is_opened_and_filled(tmp_path):
    with CodeIndex(K, where=tmp_path / "a", precision="int8"):
        pass
    index = CodeIndex.open(tmp_path / "a")
    assert len(index) == 0 and index.ids == [] and list(index.batches()) == []
    with pytest.raises(EigenmapError, match="empty"):
        index.search(codes(1))
    index.add(codes(3), ["a", "b", "c"])
    assert CodeIndex.open(tmp_path / "a").ids == ["a", "b", "c"]


def test_threads_search_one_index(index):
    """As a service does: every thread gets what a search alone gets, at any length."""
    queries = codes(8, seed=1)
    asked = [(dim, n) for dim in (3, 5, 9, K) for n in (1, 8)] * 5
    alone = {(dim, n): index.search(queries[:n], 6, dim, exact=True).ids for dim, n in asked}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: index.search(queries[: one[1]], 6, one[0], exact=True).ids, asked))
    assert found == [alone[one] for one in asked]


@pytest.mark.parametrize("backend", ["flat", "faiss"])
@pytest.mark.parametrize("first", [True, False])
def test_a_change_that_is_on_disk_is_not_called_failed_when_it_cannot_be_mapped(tmp_path, monkeypatch, backend, first):
    """As with too many open files: what was added is there, and the next call that can read it sees it."""
    made = CodeIndex(K, backend=backend, where=tmp_path / "index")
    if not first:
        made.add(codes(40), range(40), facts(40))
        made.delete([3])
    before = made.ids

    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files", "ids.bin")

    with monkeypatch.context() as patch:
        patch.setattr(flat, "mapped", refuse)
        made.add(codes(2, seed=1), [100, 101], [{"label": "new"}, {}])
        with pytest.raises(EigenmapError, match="Too many open files"):
            made.search(codes(1))
        with pytest.raises(EigenmapError, match="Too many open files"):
            made.add(codes(1), [102])
    assert made.ids == CodeIndex.open(tmp_path / "index").ids == [*before, 100, 101]
    made.upsert(codes(1, seed=2), [100])
    made.add(codes(1, seed=3), [102])
    assert made.ids == CodeIndex.open(tmp_path / "index").ids == [*before, 101, 100, 102]
    assert made.search(codes(2, seed=1)[1:], 1).ids == [[101]]
    assert made.verify() == CodeIndex.open(tmp_path / "index").verify()


def test_a_copy_whose_rows_cannot_be_mapped_for_a_moment_is_whole(tmp_path, monkeypatch):
    made, mapped, calls = CodeIndex(K), flat.mapped, []
    made.add(codes(40), range(40), facts(40))

    def refuse_once(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 1:
            raise OSError(errno.EMFILE, "Too many open files", "ids.bin")
        return mapped(*arguments, **options)

    monkeypatch.setattr(saving, "_COPIED_BYTES", 8 * K * 15)  # three batches
    monkeypatch.setattr(flat, "mapped", refuse_once)
    made.save(tmp_path / "copy")
    copy = CodeIndex.open(tmp_path / "copy")
    assert copy.ids == list(range(40)) and copy.metadata([39]) == facts(40)[39:]
    np.testing.assert_array_equal(copy.codes(copy.ids), made.codes(made.ids))


def test_metadata_are_read_without_codes(tmp_path, monkeypatch):
    """A search of the service describes every result, and the codes of these are all over the files."""
    index = CodeIndex(K, where=tmp_path / "index")
    index.add(codes(20), range(20), {"parity": [row % 2 for row in range(20)]})
    monkeypatch.setattr(Columns, "take", lambda *_: pytest.fail("codes were read"))
    assert index.metadata([3, 8]) == [{"parity": 1}, {"parity": 0}] and index.metadata([]) == []
    for absent in (20, "a"):
        with pytest.raises(UnknownIdError, match=repr(absent)):
            index.metadata([absent])
