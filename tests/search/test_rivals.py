import numpy as np
import pytest

from eigenmap.search import CodeIndex
from eigenmap.search.rivals import compare_prefixes

K = 16


def rows_of(codes, metric="cosine"):
    index = CodeIndex(codes.shape[1], metric)
    index.add(codes, range(len(codes)))
    return compare_prefixes(index.backend, 5, 40, seed=0)


def test_where_order_matters_the_first_features_win_and_pca_is_level():
    codes = np.random.default_rng(0).standard_normal((500, K)) * np.arange(1, K + 1) ** -1.5
    rows = rows_of(codes)
    assert [row.dim for row in rows] == [4, 8]
    for row in rows:
        assert row.prefix > row.random + 0.1
        assert row.pca == pytest.approx(row.prefix, abs=0.15)


def test_where_it_does_not_random_features_are_level_and_hidden_order_is_found_by_pca():
    rng = np.random.default_rng(0)
    flat = rows_of(rng.standard_normal((500, K)))
    assert all(abs(row.prefix - row.random) < 0.1 for row in flat)
    rotation = np.linalg.qr(rng.standard_normal((K, K)))[0]
    hidden = rows_of((rng.standard_normal((500, K)) * np.arange(1, K + 1) ** -1.5) @ rotation)
    assert all(row.pca > row.prefix + 0.1 for row in hidden)


def test_the_largest_codes_of_an_index_by_inner_product_do_not_overflow():
    codes = np.random.default_rng(0).uniform(-1, 1, (4000, K)) * np.arange(1, K + 1) ** -1.5
    assert rows_of(2.0**59 * codes, "inner") == rows_of(codes, "inner")
