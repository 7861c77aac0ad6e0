"""Codes of any size, and files that hold what they cannot hold."""

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import Approximate, CodeIndex

K, N = 20, 200


def codes(n=N, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


def truth(queries, gallery, top, dim=K):
    q, x = queries[:, :dim].astype(np.float64), gallery[:, :dim].astype(np.float64)
    q, x = (m / np.linalg.norm(m, axis=1, keepdims=True) for m in (q, x))
    return np.argsort(-(q @ x.T), axis=1, kind="stable")[:, :top].tolist()


SIZES = [1e20, 1e-25, 3e38]


@pytest.mark.parametrize("options", [{}, {"memory_bytes": 1000}, {"backend": "faiss"}, {"precision": "int8"}])
@pytest.mark.parametrize("n_queries", [1, 20])
@pytest.mark.parametrize("size", SIZES)
def test_a_cosine_does_not_depend_on_the_size_of_codes(size, n_queries, options):
    """All codes, or one in three, far from what float32 can square."""
    gallery, queries = codes(), codes(n_queries, seed=1)
    largest = np.abs(gallery).max()
    for rows in (gallery / largest, np.where(np.arange(N)[:, None] % 3, 1, 1 / largest) * gallery):
        scale = np.where(np.abs(rows).max(axis=1, keepdims=True) <= 1, size, 1)
        index = CodeIndex(K, **options)
        index.add((rows * scale).astype(np.float32), range(N))
        for dim in (5, 13, K):
            wanted = truth(queries, rows, 5, dim)
            for asked in (queries, queries * np.float32(1e20), queries * np.float32(1e-25)):
                found = index.search(asked, 5, dim, exact=True)
                assert np.isfinite(found.scores).all() and (np.abs(found.scores) < 1.001).all()
                if options.get("precision") != "int8":
                    assert found.ids == wanted
        funnel = index.search(queries, funnel=[(8, 60), (K, 5)]).ids
        shares = [len(set(a) & set(b)) / 5 for a, b in zip(funnel, truth(queries, rows, 5), strict=True)]
        assert np.mean(shares) > 0.6


def test_products_beyond_float32_are_refused():
    index = CodeIndex(K, "inner")
    index.add(1e17 * codes(), range(N))
    with pytest.raises(EigenmapError, match=r"queries.*row 0.*e\+19"):
        index.search(np.float32(1e19) * codes(1))
    with pytest.raises(EigenmapError, match=r'codes.*row 1.*"cosine"'):
        index.add(codes(2) * np.array([[1], [1e20]]), [N, N + 1])
    assert len(index) == N
    queries = 1e17 * codes(3, seed=1)
    wanted = np.argsort(-(queries.astype(np.float64) @ codes().T), axis=1)[:, :5].tolist()
    assert index.search(queries, 5).ids == index.search(np.tile(queries, (5, 1)), 5).ids[:3] == wanted


def test_later_codes_of_other_sizes_keep_their_direction_in_int8():
    rows, later = codes(), codes(30, seed=1)
    index, sizes = CodeIndex(K, precision="int8"), np.logspace(-12, 25, 30)[:, None]
    index.add(rows, range(N))
    index.add(later * sizes, range(N, N + 30))
    for n, stored in enumerate(index.codes(range(N, N + 30)).astype(np.float64)):
        assert stored @ later[n] / np.linalg.norm(stored) / np.linalg.norm(later[n]) > 0.999
    for one in range(30):
        assert index.search(later[one], 1).ids == [[N + one]]
    np.testing.assert_allclose(index.codes(range(N)), rows, atol=0.05)  # those that fit are stored as they are


def test_a_feature_that_is_zero_in_the_first_items_is_stored_of_later_ones():
    index = CodeIndex(K, precision="int8")
    index.add(np.eye(K)[:1], [0])
    index.add(0.3 * np.eye(K)[1:], range(1, K))
    assert index.search(np.eye(K), 1).ids == [[n] for n in range(K)]


@pytest.mark.parametrize("metric", ["cosine", "inner"])
def test_codes_that_the_steps_of_int8_do_not_span_are_refused(metric):
    index = CodeIndex(K, metric, precision="int8")
    index.add(codes() * np.where(np.arange(K) == 3, 1e-6, 1), range(N))
    odd = codes(2, seed=1)
    odd[0, 3] = 0
    with pytest.raises(EigenmapError, match=f"{N + 1}.*too large"):
        index.add(odd, [N, N + 1])
    assert len(index) == N


def test_inner_products_of_larger_codes_are_refused_in_int8_unless_little_is_lost():
    index = CodeIndex(K, "inner", precision="int8")
    index.add(codes(), range(N))
    with pytest.raises(EigenmapError, match=f"{N + 1}.*int8"):
        index.add(codes(2, seed=1) * np.array([[1], [10]]), [N, N + 1])
    row = codes(1, seed=1)
    row[0, 0] = 1.02 * index.backend.codec.steps[0] * 127
    index.add(row, [N])
    np.testing.assert_allclose(index.codes([N]), row, atol=0.1)


@pytest.fixture
def folder(tmp_path):
    index = CodeIndex(K, where=tmp_path / "index")
    index.add(codes(), range(N), [{"label": "cat", "n": i} for i in range(N)])
    index.delete([3])
    return tmp_path / "index"


def every_read(index):
    """What a user may do."""
    yield lambda: index.ids
    yield lambda: list(index.batches(50))
    yield lambda: index.search(codes(1), N)
    yield lambda: index.search(codes(1), where={"label": "cat"})
    yield lambda: index.metadata([5])


def refused(index, name, which):
    for number, read in enumerate(every_read(index)):
        if number in which:
            with pytest.raises(EigenmapError, match=f"{name}.*damaged"):
                read()


def overwrite(file, at, content):
    with file.open("r+b") as stream:
        stream.seek(at)
        stream.write(content)


def test_damaged_ids_are_named(folder):
    overwrite(folder / "ids.bin", 5, b"\xff")
    refused(CodeIndex.open(folder), "ids.bin", {0, 1, 2})


@pytest.mark.parametrize("text", [b"{" * 20, b"1" * 20, b"[" * 20, b"\xff" * 20])
def test_metadata_that_is_no_json_is_named(folder, text):
    overwrite(folder / "metadata.bin", 0, text)
    refused(CodeIndex.open(folder), "metadata.bin", {1, 3})


def test_metadata_without_end_is_named(tmp_path):
    """So deep that Python gives up."""
    index = CodeIndex(K, where=tmp_path / "index")
    index.add(codes(1), [5], [{"label": "x" * 200_000}])
    overwrite(tmp_path / "index" / "metadata.bin", 0, b"[" * 200_000)
    refused(CodeIndex.open(tmp_path / "index"), "metadata.bin", {1, 3, 4})


@pytest.mark.parametrize("row", [-1, N, 2**62])
def test_rows_that_are_gone_and_never_were_there_are_named(folder, row):
    overwrite(folder / "deleted.bin", 0, np.int64(row).tobytes())
    with pytest.raises(EigenmapError, match=r"deleted\.bin.*damaged"):
        CodeIndex.open(folder)


def test_ends_of_texts_that_cannot_be_are_named(folder):
    overwrite(folder / "ids.ends", 8, np.int64(2**40).tobytes())
    refused(CodeIndex.open(folder), "ids.ends", {0, 1, 2})


def test_a_codec_of_other_rows_is_named(folder):
    (folder / "codec.json").write_text('{"kind": "float16"}')
    with pytest.raises(EigenmapError, match=r"codec\.json.*damaged"):
        CodeIndex.open(folder)


def test_an_approximate_index_finds_codes_of_any_size():
    index = CodeIndex(K, backend="faiss", approximate=Approximate("ivf", 8, 60, 64))
    index.add(codes() * np.logspace(-25, 30, N)[:, None], range(N))
    index.add(codes(10, seed=2) * np.float32(1e25), range(N, N + 10))  # not in the approximate index yet
    assert index.search(codes(10, seed=2), 1).ids == [[N + n] for n in range(10)]
    assert index.search(codes()[:50], 1).ids == [[n] for n in range(50)]
