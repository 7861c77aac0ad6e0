import mmap

import numpy as np
import pytest

from eigenmap.search import columns as columns_module
from eigenmap.search.codecs import FloatCodec
from eigenmap.search.columns import Columns, map_file

K = 20


@pytest.fixture
def matrix():
    return np.arange(30 * K, dtype=np.float32).reshape(30, K)


def columns_of(*parts):
    columns = Columns(FloatCodec(K, "float32"))
    for part in parts:
        columns = columns.grown(columns.encoded(part))
    return columns


@pytest.mark.parametrize("dim", [1, 8, 9, 16, K])
def test_many_additions_read_as_one(matrix, dim):
    columns = columns_of(matrix[:2], matrix[2:3], matrix[3:3], matrix[3:])
    assert columns.count == 30
    copy = columns.read(1, 29, dim)
    assert copy.flags.c_contiguous
    np.testing.assert_array_equal(copy, matrix[1:29, :dim])
    rows = np.array([29, 0, 0, 7])
    np.testing.assert_array_equal(columns.take(rows, dim), matrix[rows, :dim])
    assert columns.take(np.array([], np.int64), dim).shape == (0, dim)


def test_rows_stay_as_they_are_while_others_are_added(matrix):
    columns, states = columns_of(matrix[:1]), []
    for row in range(1, 30):
        states.append((columns, columns.block(0, 0, columns.count)))
        columns = columns.grown(columns.encoded(matrix[row : row + 1]))
    for count, (state, block) in enumerate(states, 1):
        assert state.count == count
        np.testing.assert_array_equal(block, matrix[:count, :8])
        np.testing.assert_array_equal(state.read(0, count, K), matrix[:count])
    assert len({id(state._stored[0]) for state, _ in states}) == 6  # room is doubled, not made for each addition


def test_a_block_lies_as_it_is_stored(matrix):
    columns = columns_of(matrix)
    block = columns.block(1, 5, 9)
    np.testing.assert_array_equal(block, matrix[5:9, 8:16])
    assert np.shares_memory(block, columns._stored[1])  # float32 is not copied


def test_files_are_mapped_and_short_prefixes_leave_long_blocks_alone(matrix, tmp_path):
    stored = columns_of(matrix).encoded(matrix)
    files = [tmp_path / f"{b}.bin" for b in range(len(stored))]
    for file, rows in zip(files, stored, strict=True):
        file.write_bytes(rows.tobytes())
    columns = Columns.mapped(FloatCodec(K, "float32"), files, 25)
    np.testing.assert_array_equal(columns.read(0, 25, K), matrix[:25])
    columns._stored[1:] = [None, None]  # whoever reads them fails
    np.testing.assert_array_equal(columns.read(0, 25, 8), matrix[:25, :8])
    np.testing.assert_array_equal(columns.take(np.array([3]), 5), matrix[[3], :5])
    with pytest.raises(TypeError):
        columns.read(0, 25, 9)


def test_nothing_is_mapped_of_nothing(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert map_file(tmp_path / "empty", 0, 4).shape == (0, 4)
    assert map_file(tmp_path / "empty", 3, 0).shape == (3, 0)


def test_only_the_pages_of_few_rows_are_asked_for(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).integers(0, 256, (2000, 24), dtype=np.uint8)
    (tmp_path / "rows").write_bytes(rows.tobytes())
    stored = map_file(tmp_path / "rows", 2000, 24)
    real, asked = columns_module._map_of(stored), []
    assert isinstance(real, mmap.mmap) and columns_module._map_of(stored[5:9]) is real
    assert columns_module._map_of(rows) is None

    class Recorder:
        def madvise(self, *advice):
            asked.append(advice)
            real.madvise(*advice)

    monkeypatch.setattr(columns_module, "_map_of", lambda stored: Recorder())
    wanted = np.array([1999, 3, 170])  # row 170 begins on the first page and ends on the second
    columns_module.fetch(stored, wanted)
    pages = [place // mmap.PAGESIZE for _, place, _ in asked[1:]]
    assert asked[0] == (mmap.MADV_RANDOM,) and pages == [0, 1, (2000 * 24 - 1) // mmap.PAGESIZE]
    np.testing.assert_array_equal(stored[wanted], rows[wanted])
    asked.clear()
    columns_module.fetch(stored, np.arange(1000))  # many: reading ahead is right
    columns_module.read_ahead(stored)
    assert asked == [(mmap.MADV_NORMAL,)]
