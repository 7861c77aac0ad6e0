import json

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex, codecs
from eigenmap.search.backend import IndexSpec
from eigenmap.search.codecs import FloatCodec, blocks_of, levels_of, train_codec

K = 40
SPREAD = np.arange(1, K + 1) ** -0.8


def sample(n=3000, seed=0):
    return (np.random.default_rng(seed).standard_normal((n, K)) * SPREAD).astype(np.float32)


def through(codec, codes):
    """Encoded and decoded again, block by block, and the bytes of a row."""
    parts, width = [], 0
    for b, (first, end) in enumerate(codec.blocks):
        stored = codec.encode(b, codes[:, first:end])
        assert stored.dtype == np.uint8 and stored.shape == (len(codes), codec.width(b))
        parts.append(codec.decode(b, stored))
        width += codec.width(b)
    return np.hstack(parts), width


@pytest.mark.parametrize(("k", "last"), [(1, (0, 1)), (8, (0, 8)), (9, (8, 9)), (256, (128, 256)), (300, (256, 300))])
def test_blocks_cover_every_feature_once(k, last):
    blocks = blocks_of(k)
    assert blocks[-1] == last and blocks[0][0] == 0
    assert [j for first, end in blocks for j in range(first, end)] == list(range(k))


@pytest.mark.parametrize(
    ("precision", "n_bytes", "width", "error"),
    [
        ("float32", None, 4 * K, 0),
        ("float16", None, 2 * K, 1e-3),
        ("int8", None, K, 2e-2),
        ("bits", 40, 40, 5e-2),
        ("bits", 8, 8, 0.6),
    ],
)
def test_codes_come_back_as_exactly_as_their_bytes_allow(precision, n_bytes, width, error):
    codes = sample()
    codec = train_codec(IndexSpec(K, precision=precision, bytes_per_item=n_bytes), codes)
    back, stored = through(codec, sample(500, seed=1))
    assert stored == width
    wanted = sample(500, seed=1)
    assert np.linalg.norm(back - wanted) <= error * np.linalg.norm(wanted)
    assert np.array_equal(back, through(codec, back)[0])  # storing again changes nothing
    again = codecs.from_json(json.loads(json.dumps(codec.as_json())), K)
    np.testing.assert_array_equal(through(again, wanted)[0], back)


def test_signs_keep_the_signs_of_the_first_features():
    codec = train_codec(IndexSpec(K, precision="signs", bytes_per_item=3), sample())
    back, stored = through(codec, sample(50, seed=1))
    assert stored == 3
    np.testing.assert_array_equal(np.sign(back[:, :24]), np.sign(sample(50, seed=1)[:, :24]))
    assert not back[:, 24:].any()


def test_bits_follow_the_spectrum():
    codec = train_codec(IndexSpec(K, precision="bits", bytes_per_item=8), sample())
    assert (np.diff(codec.bits[:8]) <= 0).all() and codec.bits[0] >= 4 and codec.bits[-1] <= 1
    assert len(codec.groups) == 8


def test_reliable_items_are_scaled_up():
    """Against the formula in float64; items of the first features above 1, items of the tail below."""
    codes = sample()
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    codec = train_codec(IndexSpec(K, precision="bits", bytes_per_item=8), codes)
    x, rms = codes.astype(np.float64), np.sqrt(np.square(codes, dtype=np.float64).mean(axis=0))
    wanted = x * (np.square(x / rms).mean(axis=1, keepdims=True)) ** -0.125
    np.testing.assert_allclose(codec.scaled(codes), wanted, rtol=1e-4, atol=1e-7)
    first, last = np.eye(K, dtype=np.float32)[[0, -1]]
    assert np.linalg.norm(codec.scaled(first[None])) > 1 > np.linalg.norm(codec.scaled(last[None]))
    assert not codec.scaled(np.zeros((1, K), np.float32)).any()
    inner = train_codec(IndexSpec(K, metric="inner", precision="bits", bytes_per_item=8), codes)
    np.testing.assert_array_equal(inner.scaled(codes), codes)


def test_levels_have_less_error_than_rounding_each_feature():
    """A byte for two correlated features against four bits for each."""
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((5000, 2)) @ np.array([[1.0, 0.9], [0.0, 0.3]])).astype(np.float32)
    levels = levels_of(rows)
    assert levels.shape == (256, 2)
    error = np.square(rows[:, None] - levels[None]).sum(2).min(1).mean()
    edges = [np.quantile(rows[:, j], np.linspace(0, 1, 17)) for j in (0, 1)]
    cell = [np.clip(np.searchsorted(edges[j], rows[:, j]) - 1, 0, 15) for j in (0, 1)]
    means = [np.array([rows[cell[j] == c, j].mean() for c in range(16)]) for j in (0, 1)]
    rounded = sum(np.square(rows[:, j] - means[j][cell[j]]).mean() for j in (0, 1))
    assert error < 0.7 * rounded


def test_few_distinct_rows_are_kept_as_they_are():
    assert levels_of(np.array([[2.0], [1.0], [2.0]], np.float32)).tolist() == [[1.0], [2.0]]
    codec = train_codec(IndexSpec(4, precision="bits", bytes_per_item=4), np.ones((3, 4), np.float32))
    assert codec.groups == [] and through(codec, np.ones((2, 4), np.float32))[1] == 0


def test_few_distinct_rows_are_found_where_the_first_rows_say_nothing():
    few = np.repeat(np.arange(300, dtype=np.float32), 10)[:, None]
    np.testing.assert_array_equal(
        levels_of(few[:2560]), few[:2560:10]
    )  # 256 distinct rows, 103 of them among the first
    assert len(np.unique(levels_of(few))) == 256  # 300: means


@pytest.mark.parametrize("n", [1, 3000, 4096, 20_000])
@pytest.mark.parametrize("length", [1, 3, 40])
def test_columns_of_zeros_that_make_faiss_quick_change_no_level(n, length):
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n, length)).astype(np.float32)
    levels = rng.standard_normal((256, length)).astype(np.float32)
    codec = codecs.GroupCodec(length, [(0, min(length, 8))], [levels[:, :8]])
    stored = codec.encode(0, rows[:, :8])
    error = np.square(rows[:, None, :8] - levels[None, :, :8], dtype=np.float64).sum(2)
    np.testing.assert_allclose(error[np.arange(n), stored[:, 0]], error.min(1), rtol=1e-4, atol=1e-6)
    learned = levels_of(rows)
    assert learned.shape == (min(n, 256), length)
    if n > 256:  # a fixed point of k-means, nearly: each level is the mean of the rows nearest to it
        nearest = (np.square(learned).sum(1) - 2 * rows @ learned.T).argmin(1)
        sums = np.zeros_like(learned)
        np.add.at(sums, nearest, rows)
        means = sums / np.maximum(np.bincount(nearest, minlength=256), 1)[:, None]
        assert np.square(means - learned).sum() < 0.02 * np.square(learned).sum()


def test_a_code_too_large_for_half_floats_is_refused():
    with pytest.raises(EigenmapError, match="float16"):
        FloatCodec(4, "float16").encode(0, np.full((1, 4), 1e6, np.float32))


@pytest.mark.parametrize("entries", [{}, {"kind": "zip"}, {"kind": "int8", "steps": [1.0]}, {"kind": "groups"}])
def test_a_description_of_no_codec_is_refused(entries):
    with pytest.raises((KeyError, ValueError)):
        codecs.from_json(entries, K)


@pytest.mark.parametrize("size", [1e-12, 1e-7, 1e-3, 1e6, 1e30])
def test_float16_keeps_the_direction_of_codes_of_any_length(size):
    """A cosine does not depend on the length of a code, but float16 has nothing below 6e-8 and above 65,504."""
    codes = sample(200).astype(np.float64)
    index = CodeIndex(K, precision="float16")
    index.add(codes * size, range(200))
    unit = codes / np.linalg.norm(codes, axis=1, keepdims=True)
    found = index.search(codes[:20] * size, top=200)
    right = np.take_along_axis(unit[:20] @ unit.T, np.array(found.ids), axis=1)
    np.testing.assert_allclose(found.scores, right, atol=2e-3)


def test_float16_stores_unit_codes_as_they_are():
    codes = sample(50).astype(np.float32)
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    index = CodeIndex(K, precision="float16")
    index.add(codes, range(50))
    np.testing.assert_array_equal(index.codes(range(50)), codes.astype(np.float16))
