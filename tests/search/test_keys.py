import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenmap.search import CodeIndex, keys
from eigenmap.search.keys import Places, hashes_of, rows_with


def test_hashes_are_fixed_since_they_are_stored():
    assert [int(h) for h in hashes_of([b"", b"0.jpg"])] == [
        int.from_bytes(bytes.fromhex(text), "little") for text in ("e4a6a0577479b2b4", "4bf7b45967db2132")
    ]


@given(st.lists(st.integers(0, 40), max_size=60), st.lists(st.integers(0, 40), max_size=10, unique=True))
def test_rows_are_those_that_a_comparison_of_all_finds(stored, wanted):
    of, asked = (hashes_of([str(n).encode() for n in numbers]) for numbers in (stored, wanted))
    assert rows_with(of, asked).tolist() == [row for row, n in enumerate(stored) if n in wanted]


@pytest.mark.parametrize("asked", [1, 3, 5000])
def test_many_rows_are_looked_at_in_parts(asked, monkeypatch):
    monkeypatch.setattr(keys, "_ROWS_AT_ONCE", 1000)
    stored = hashes_of([b"%d" % n for n in range(20_000)])
    wanted = np.random.default_rng(0).permutation(20_000)[:asked]
    assert rows_with(stored, stored[wanted]).tolist() == sorted(wanted.tolist())


def test_ids_with_one_hash_are_told_apart(tmp_path, monkeypatch):
    for module in ("flat", "keys"):
        monkeypatch.setattr(f"eigenmap.search.{module}.hashes_of", lambda texts: np.zeros(len(texts), np.uint64))
    index = CodeIndex(4, where=tmp_path / "index")
    index.add(np.eye(4), ["a", "b", "c", "d"])
    index.update(np.full((1, 4), 0.5), ["b"])
    index.delete(["c"])
    np.testing.assert_array_equal(index.codes(["d", "b", "a"]), [np.eye(4)[3], np.full(4, 0.5), np.eye(4)[0]])
    index.add(np.eye(4)[:1], ["c"])
    assert index.ids == ["a", "d", "b", "c"]


def test_rows_that_came_later_or_are_gone_are_not_found():
    places = Places()
    places.extend(["a", "b"], 0)
    places.extend(["a", "c"], 2)
    places.extend(["a"], 4)
    for count, alive, wanted in ((2, {0, 1}, 0), (4, {1, 2, 3}, 2), (5, {1, 3, 4}, 4), (5, {1, 3}, None)):
        found = places.find(["a", "x"], lambda row, name, alive=alive, count=count: row < count and row in alive)
        assert found == ({} if wanted is None else {"a": wanted})
