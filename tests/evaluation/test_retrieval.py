import json
import tracemalloc
from statistics import mean, stdev

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.retrieval import lengths, pca, project, random_features, retrieval
from tests.evaluation import reference


def codes(n, k, seed=0):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


def one_label(n, n_classes, seed=0):
    return np.random.default_rng(seed).integers(n_classes, size=n)


def many_labels(n, n_classes, seed=0):
    return np.random.default_rng(seed).random((n, n_classes)) < 0.3


def assert_same(row, dim, expected):
    assert row["dim"] == dim
    assert row.keys() == {"dim", *expected}
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("labels", [one_label, many_labels])
@pytest.mark.parametrize("drop_self", [False, True])
def test_metrics_are_those_of_the_definition(labels, drop_self):
    gallery, offered = codes(60, 16, 1), labels(60, 5, 2)
    queries, asked = (gallery, offered) if drop_self else (codes(11, 16, 3), labels(11, 5, 4))
    dims, top = [2, 3, 8, 16], (1, 5, 20, 500)
    rows = retrieval(queries, gallery, asked, offered, dims, top, drop_self=drop_self)
    for row, dim in zip(rows, dims, strict=True):
        assert_same(row, dim, reference.scores(queries, gallery, asked, offered, dim, top, drop_self))


def test_a_worked_example():
    gallery = np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [1.0, 0.3]])
    labels = np.array([0, 1, 0, 1])
    row = retrieval(gallery[:1], gallery, np.array([1]), labels, [2], (2, 3, 8))[0]
    assert row["map_over_found@2"] == 1 / 2  # found at rank 2 only
    assert row["map_over_relevant@2"] == 1 / 4  # there are two
    assert row["precision@2"] == 1 / 2
    assert row["map_over_found@3"] == 1 / 2
    assert row["map_over_found@8"] == row["map_over_relevant@8"] == (1 / 2 + 2 / 4) / 2
    assert row["precision@8"] == 2 / 8  # divides by 8, not by the 4 there are


def test_queries_without_a_relevant_item_count_as_zero():
    gallery = codes(10, 4)
    asked = np.array([0, 7])
    both = retrieval(gallery[:2], gallery, asked, np.zeros(10, dtype=int), [4], (5,))[0]
    assert both == {"dim": 4, "map_over_found@5": 0.5, "map_over_relevant@5": 0.25, "precision@5": 0.5}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_shape_ties_and_blocks(data):
    """Codes of +-1 times powers of two have exact cosines at lengths 1, 4 and 16, and tie all the time."""
    k = data.draw(st.sampled_from([1, 4, 16, 17]))
    drop_self = data.draw(st.booleans())
    n_gallery = data.draw(st.integers(1 + drop_self, 30))
    n_queries = n_gallery if drop_self else data.draw(st.integers(1, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))

    def signs(n):
        return rng.choice([-1.0, 1.0], (n, k)) * 2.0 ** rng.integers(-9, 9, (n, 1))

    def labels(n):
        return rng.random((n, 3)) < 0.4 if multi else rng.integers(3, size=n)

    multi = data.draw(st.booleans())
    gallery, offered = signs(n_gallery), labels(n_gallery)
    queries, asked = (gallery, offered) if drop_self else (signs(n_queries), labels(n_queries))
    dims = [dim for dim in (1, 4, 16) if dim <= k]
    top = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3, unique=True))
    rows = retrieval(
        queries,
        torch.from_numpy(gallery),
        asked,
        torch.from_numpy(offered),
        dims,
        top,
        drop_self=drop_self,
        block=data.draw(st.integers(1, 12)),
        gallery_block=data.draw(st.integers(1, 35)),
    )
    for row, dim in zip(rows, dims, strict=True):
        assert_same(row, dim, reference.scores(queries, gallery, asked, offered, dim, top, drop_self))


def test_block_sizes_change_nothing():
    queries, gallery, asked, offered = codes(20, 32, 1), codes(300, 32, 2), one_label(20, 4), one_label(300, 4)
    whole = retrieval(queries, gallery, asked, offered, [2, 8, 32], (5, 20), block=1000)
    for block, gallery_block in ((7, 64), (20, 101), (1, 300)):
        parts = retrieval(
            queries, gallery, asked, offered, [2, 8, 32], (5, 20), block=block, gallery_block=gallery_block
        )
        for row, expected in zip(parts, whole, strict=True):
            assert row == pytest.approx(expected, abs=1e-12)


def test_a_table_is_json_with_whole_dims():
    rows = retrieval(codes(2, 4), codes(5, 4), one_label(2, 2), one_label(5, 2), np.array([2, 4]), (3,))
    assert json.loads(json.dumps(rows)) == rows
    assert [type(row["dim"]) for row in rows] == [int, int]


def test_lengths_double_and_end_at_the_full_length():
    assert lengths(256) == [2, 4, 8, 16, 32, 64, 128, 256]
    assert lengths(20, first=4) == [4, 8, 16, 20]
    assert lengths(1) == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dims": [4, 0]}, "dim.*1.*8.*0"),
        ({"dims": [9]}, "dim.*1.*8.*9"),
        ({"dims": ["x"]}, "dim.*1.*8.*'x'"),
        ({"top": [0]}, "top.*1"),
        ({"top": []}, "top.*empty"),
        ({"query_labels": one_label(3, 2)}, "query_labels.*3 entries.*2"),
        ({"gallery_labels": one_label(3, 2)}, "gallery_labels.*3 entries.*5"),
        ({"gallery": codes(5, 7)}, "same number"),
        ({"block": 0}, "block"),
    ],
)
def test_bad_input_says_what_is_allowed(change, message):
    arguments = {
        "queries": codes(2, 8),
        "gallery": codes(5, 8),
        "query_labels": one_label(2, 2),
        "gallery_labels": one_label(5, 2),
        "dims": [2],
    }
    with pytest.raises(EigenmapError, match=message):
        retrieval(**(arguments | change))


def test_random_features_are_the_mean_and_spread_over_permuted_features():
    queries, gallery, asked, offered = codes(9, 8, 1), codes(40, 8, 2), one_label(9, 3), one_label(40, 3)
    rows = random_features(queries, gallery, asked, offered, [2, 5, 8], (10,), draws=4, seed=5)
    generator = torch.Generator().manual_seed(5)
    orders = [torch.randperm(8, generator=generator).numpy() for _ in range(4)]
    for row, dim in zip(rows, (2, 5, 8), strict=True):
        drawn = [reference.scores(queries[:, o], gallery[:, o], asked, offered, dim, (10,)) for o in orders]
        for name in drawn[0]:
            values = [scores[name] for scores in drawn]
            assert row[name] == pytest.approx(mean(values), abs=1e-12)
            assert row[f"{name}_spread"] == pytest.approx(stdev(values), abs=1e-12)


def test_random_features_of_a_memory_map_are_read_a_block_at_a_time(tmp_path):
    np.save(tmp_path / "gallery.npy", codes(4000, 64))
    gallery = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    queries, asked, offered = codes(2, 64, 1), one_label(2, 3), one_label(4000, 3)
    tracemalloc.start()
    try:
        random_features(queries, gallery, asked, offered, [32], (10,), draws=2, gallery_block=250)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < gallery.nbytes / 4


def test_random_features_depend_on_the_seed_alone_and_need_no_draws_at_full_length():
    setting = (codes(9, 8, 1), torch.from_numpy(codes(40, 8, 2)), one_label(9, 3), one_label(40, 3))
    assert random_features(*setting, [2], (10,), seed=1) == random_features(*setting, [2], (10,), seed=1)
    assert random_features(*setting, [2], (10,), seed=1) != random_features(*setting, [2], (10,), seed=2)
    full = random_features(*setting, [8], (10,))[0]
    assert full["precision@10"] == retrieval(*setting, [8], (10,))[0]["precision@10"]
    assert full["precision@10_spread"] == 0.0


@pytest.mark.parametrize("centred", [True, False])
def test_principal_axes_are_the_singular_vectors(centred):
    x = codes(50, 6) * np.arange(6, 0, -1) + 3
    basis = pca(x, centred, block=7)
    shifted = x.astype(np.float64) - (x.astype(np.float64).mean(0) if centred else 0)
    _, sizes, axes = np.linalg.svd(shifted, full_matrices=False)
    np.testing.assert_allclose(np.abs(basis.components.numpy().T @ axes.T), np.eye(6), atol=1e-9)
    coordinates = project(x, basis, block=7)
    np.testing.assert_allclose(np.linalg.norm(coordinates, axis=0), sizes, rtol=1e-5)
    assert coordinates.dtype == torch.float32
    torch.testing.assert_close(project(x, basis, dim=2), coordinates[:, :2])


def test_principal_axes_of_torch_features_and_of_no_features():
    x = torch.from_numpy(codes(20, 4))
    basis = pca(x)
    torch.testing.assert_close(basis.components.T @ basis.components, torch.eye(4, dtype=torch.float64))
    assert project(x[:0], basis, dim=3).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pca(np.zeros((0, 3))), "one row"),
        (lambda: pca(np.full((2, 3), np.nan)), "NaN.*infinite"),
        (lambda: project(np.zeros((2, 4)), pca(codes(5, 3))), "principal.*3 features"),
        (lambda: project(np.zeros((2, 3)), pca(codes(5, 3)), dim=4), "dim.*1.*3"),
    ],
)
def test_pca_of_bad_input_says_why(call, message):
    with pytest.raises(EigenmapError, match=message):
        call()
