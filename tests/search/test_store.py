import numpy as np
import pytest

from eigenmap.search.store import CodeStore


def store_of(*parts):
    store = CodeStore(parts[0].shape[1])
    for part in parts:
        store.append(part)
    return store


@pytest.fixture
def matrix():
    return np.arange(60, dtype=np.float32).reshape(10, 6)


@pytest.mark.parametrize("rows", [1, 3, 4, 10, 99])
@pytest.mark.parametrize("dim", [1, 4, 6])
def test_blocks_span_parts_and_cover_every_row_once(matrix, rows, dim):
    store = store_of(matrix[:2], matrix[2:3], matrix[3:3], matrix[3:])
    blocks = list(store.blocks(dim, rows))
    assert [first for first, _ in blocks] == list(range(0, 10, rows))
    assert all(block.flags.c_contiguous and len(block) <= rows for _, block in blocks)
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), matrix[:, :dim])


def test_rows_are_taken_from_every_part(matrix):
    store = store_of(matrix[:4], matrix[4:5], matrix[5:])
    rows = np.array([0, 3, 4, 5, 9])
    np.testing.assert_array_equal(store.take(rows, 3), matrix[rows, :3])
    assert store.take(np.array([], dtype=np.int64), 3).shape == (0, 3)


def test_an_empty_store_has_no_rows():
    assert len(CodeStore(3)) == 0
    assert list(CodeStore(3).blocks(2, 5)) == []
