import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenmap.search.bit_allocation import allocate_bytes, group_errors, water_filling
from eigenmap.search.codecs import blocks_of


def slow_water_filling(variance, bits):
    """Lower the water until the bits are spent, by bisection."""
    low, high = 0.0, float(np.max(variance))
    for _ in range(200):
        theta = (low + high) / 2
        spent = sum(0.5 * np.log2(v / theta) for v in variance if v > theta > 0)
        low, high = (low, theta) if spent < bits else (theta, high)
    return float(np.minimum(variance, high).sum())


@pytest.mark.parametrize("bits", [0.5, 2, 8])
def test_water_filling_is_that_of_the_definition(bits):
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 20):
        variance = rng.exponential(size=size)
        assert water_filling(variance, bits) == pytest.approx(slow_water_filling(variance, bits), rel=1e-9)
    assert water_filling(np.zeros(3), bits) == 0
    assert water_filling(np.array([4.0, 0.0]), 1) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["falling", "any order", "equal", "many zeros", "steep"])
def test_errors_of_growing_groups_are_those_of_each_group(kind):
    rng = np.random.default_rng(0)
    variance = rng.exponential(size=60) ** 2
    if kind == "falling":
        variance = np.sort(variance)[::-1]
    elif kind == "equal":
        variance[:] = 0.3
    elif kind == "many zeros":
        variance[rng.random(60) < 0.5] = 0
    elif kind == "steep":
        variance = 10.0 ** rng.uniform(-300, 300, 60)
    wanted = [slow_water_filling(variance[:size], 8) for size in range(1, 61)]
    if kind == "steep":  # bisection cannot reach such small numbers
        wanted = [water_filling(variance[:size], 8) for size in range(1, 61)]
    np.testing.assert_allclose(group_errors(variance), wanted, rtol=1e-9)


def every_split(k, n_groups):
    """All ways to cut a beginning of k features into groups."""
    for end in range(1, k + 1):
        for cuts in itertools.combinations(range(1, end), n_groups - 1):
            edges = [0, *cuts, end]
            yield list(itertools.pairwise(edges))


@pytest.mark.parametrize("n_bytes", [1, 2, 3])
def test_no_other_split_leaves_less(n_bytes):
    variance = np.array([50.0, 9.0, 8.0, 1.0, 0.9, 0.5, 0.1])

    def error(groups):
        stored = sum(water_filling(variance[first:end], 8) for first, end in groups)
        return stored + variance[groups[-1][1] :].sum()

    found = allocate_bytes(variance, n_bytes, [(0, 7)])
    least = min(error(groups) for m in range(1, n_bytes + 1) for groups in every_split(7, m))
    assert error(found) == pytest.approx(least, rel=1e-12)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40).map(np.array), st.integers(1, 12))
def test_groups_follow_each_other_inside_blocks(variance, n_bytes):
    blocks = blocks_of(len(variance))
    groups = allocate_bytes(variance, n_bytes, blocks)
    assert len(groups) <= n_bytes
    assert [first for first, _ in groups] == [0, *(end for _, end in groups)][: len(groups)]
    assert all(any(low <= first < end <= high for low, high in blocks) for first, end in groups)


def test_important_features_share_a_byte_with_few_others():
    groups = allocate_bytes(np.arange(1, 257) ** -2.0, 16, blocks_of(256))
    sizes = [end - first for first, end in groups]
    assert len(groups) == 16 and sizes[0] == 1 and sizes[-1] > 10
    assert groups[-1][1] < 256 or sizes[-1] > 50
