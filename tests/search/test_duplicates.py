import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.duplicates import duplicates

K = 16


def made(metric="cosine", **options):
    """Items 0-99 at random; 100-129 near item 7, 130 and 131 near item 50."""
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((132, K))
    codes[100:130] = codes[7] + 0.01 * rng.standard_normal((30, K))
    codes[130:] = 5 * codes[50] + 0.01 * rng.standard_normal((2, K))
    index = CodeIndex(K, metric, **options)
    index.add(codes, [f"{i:03}" for i in range(132)])
    return index, codes


def test_groups_are_found_also_where_they_are_larger_than_the_neighbourhood():
    index, _ = made()
    seen = []
    big, small = duplicates(index, 0.99, neighbours=5, progress=lambda done, total: seen.append((done, total)))
    assert big.ids == ["007", *(f"{i}" for i in range(100, 130))]
    assert small.ids == ["050", "130", "131"]
    assert 0.99 <= big.lowest <= small.lowest <= 1
    assert seen == [(132, 132)]


def test_a_short_code_links_more():
    index, _ = made()
    assert len(duplicates(index, 0.9, dim=2)[0].ids) > 31
    assert duplicates(index, 1.0) == []


def test_equal_codes_are_duplicates_whatever_their_rounding():
    """In float32 the cosine of a code with itself may fall short of 1."""
    codes = np.random.default_rng(0).standard_normal((200, K)).astype(np.float32)
    index = CodeIndex(K)
    index.add(np.vstack([codes, 3 * codes]), range(400))
    groups = duplicates(index, 1.0)
    assert sorted(group.ids for group in groups) == [[i, i + 200] for i in range(200)]
    assert [group.lowest for group in groups] == pytest.approx([1] * 200, abs=1e-6)


@pytest.mark.parametrize("options", [{"precision": "int8"}, {"precision": "bits", "bytes_per_item": 8}])
def test_compact_codes_have_duplicates_too(options):
    index, codes = made(**options)
    before = index.search(codes[:1]).scores
    big, small = duplicates(index, 0.98)
    assert {"007", "100", "129"} <= set(big.ids) and small.ids == ["050", "130", "131"]
    np.testing.assert_array_equal(index.search(codes[:1]).scores, before)  # searches rank as they did


def test_what_cannot_be_asked_is_explained():
    with pytest.raises(EigenmapError, match="cosine"):
        duplicates(made("inner")[0])
    for threshold in (0, 1.1, float("nan")):
        with pytest.raises(EigenmapError, match=r"threshold.*0.*1"):
            duplicates(made()[0], threshold)
