import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenmap.errors import EigenmapError
from eigenmap.search import codecs
from eigenmap.search.backend import About
from eigenmap.search.codecs import FloatCodec, LevelCodec, allocate, blocks_of, lloyd, train

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
        ("bits", 8, 8, 0.7),
    ],
)
def test_codes_come_back_as_exactly_as_their_bytes_allow(precision, n_bytes, width, error):
    codes = sample()
    codec = train(About(K, precision=precision, bytes_per_item=n_bytes), codes)
    back, stored = through(codec, sample(500, seed=1))
    assert stored == width
    wanted = sample(500, seed=1)
    assert np.linalg.norm(back - wanted) <= error * np.linalg.norm(wanted)
    assert np.array_equal(back, through(codec, back)[0])  # storing again changes nothing
    again = codecs.from_json(json.loads(json.dumps(codec.as_json())), K)
    np.testing.assert_array_equal(through(again, wanted)[0], back)


def test_signs_keep_the_signs_of_the_first_features():
    codec = train(About(K, precision="signs", bytes_per_item=3), sample())
    back, stored = through(codec, sample(50, seed=1))
    assert stored == 3
    np.testing.assert_array_equal(np.sign(back[:, :24]), np.sign(sample(50, seed=1)[:, :24]))
    assert not back[:, 24:].any()


def best_allocation(variance, n_bits):
    """Each bit where most is left, without whole bytes: the definition."""
    bits = np.zeros(len(variance), int)
    for _ in range(n_bits):
        left = np.where(bits < codecs.MOST_BITS, variance * 4.0**-bits, -1)
        bits[left.argmax()] += 1
    return bits


def test_bits_follow_the_spectrum():
    variance = SPREAD**2
    bits = allocate(variance, 8)
    assert (np.diff(bits[:8]) <= 0).all() and bits[0] >= 4
    assert not allocate(variance**3, 8)[16:].any()  # none for the tail of a steep one
    for first, end in blocks_of(K):
        assert bits[first:end].sum() % 8 == 0  # no bit of a byte is wasted
    assert bits.sum() == 64
    left, least = (float((variance * 4.0**-b).sum()) for b in (bits, best_allocation(variance, 64)))
    assert left < 1.15 * least


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=70).map(np.array),
    st.integers(1, 20),
)
def test_no_budget_is_exceeded(variance, n_bytes):
    bits = allocate(variance, n_bytes)
    used = sum(-(-int(bits[first:end].sum()) // 8) for first, end in blocks_of(len(variance)))
    assert used <= n_bytes and bits.max() <= codecs.MOST_BITS
    assert not bits[variance == 0].any()


def test_levels_are_those_of_a_gaussian():
    values = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    # Max (1960), table I: the optimal output levels for 2 and 4 levels.
    np.testing.assert_allclose(lloyd(values, 1), [-0.7979, 0.7979], atol=0.01)
    np.testing.assert_allclose(lloyd(values, 2), [-1.510, -0.4528, 0.4528, 1.510], atol=0.02)


def test_levels_of_few_and_equal_values():
    assert lloyd(np.array([2.0], np.float32), 3).tolist() == [2.0] * 8
    codec = train(About(4, precision="bits", bytes_per_item=4), np.ones((3, 4), np.float32))
    assert codec.bits.tolist() == [0, 0, 0, 0]
    assert through(codec, np.ones((2, 4), np.float32))[0].tolist() == [[0.0] * 4] * 2


def test_a_code_too_large_for_half_floats_is_refused():
    with pytest.raises(EigenmapError, match="too large for float16"):
        FloatCodec(4, "float16").encode(0, np.full((1, 4), 1e6, np.float32))


@pytest.mark.parametrize("entries", [{}, {"kind": "zip"}, {"kind": "int8", "steps": [1.0]}, {"kind": "levels"}])
def test_a_description_of_no_codec_is_refused(entries):
    with pytest.raises((KeyError, ValueError)):
        codecs.from_json(entries, K)


def test_packed_numbers_may_cross_bytes():
    levels = [np.arange(2**b, dtype=np.float32) for b in (5, 6, 7, 3, 1, 0, 8, 2)]
    codec = LevelCodec(levels)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, max(1, len(level)), 300) for level in levels], axis=1).astype(np.float32)
    assert codec.width(0) == 4
    np.testing.assert_array_equal(through(codec, codes)[0], codes)
