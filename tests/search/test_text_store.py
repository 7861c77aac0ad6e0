import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import text_store
from eigenmap.search.text_store import Texts, ends_of

WORDS = [b"a", b"", b"bcd", "ü猫".encode(), b"", b"z"]


def mapped(tmp_path, words):
    (tmp_path / "joined").write_bytes(b"".join(words) + b"left behind")
    (tmp_path / "ends").write_bytes(ends_of(words, 0).tobytes() + b"12345678")
    return Texts.mapped(tmp_path / "joined", tmp_path / "ends", len(words), sum(map(len, words)))


def test_texts_on_disk_and_in_memory_are_one_list(tmp_path, monkeypatch):
    monkeypatch.setattr(text_store, "_AT_ONCE", 2)
    for split in range(len(WORDS) + 1):
        found = mapped(tmp_path, WORDS[:split]).grown(WORDS[split:])
        assert len(found) == len(WORDS)
        assert list(found) == [found[i] for i in range(len(WORDS))] == WORDS


def test_ends_go_on_where_the_last_text_ended():
    assert ends_of([b"ab", b"", b"c"], 10).tolist() == [12, 12, 13]
    assert ends_of([], 5).tolist() == [] and ends_of([], 5).dtype == np.int64


def test_a_list_stays_as_it_is_while_others_grow_from_it():
    first = Texts().grown([b"a", b"b"])
    given_up = first.grown([b"x"])
    second = first.grown([b"c"])
    assert [list(one) for one in (first, second, given_up)] == [[b"a", b"b"], [b"a", b"b", b"c"], [b"a", b"b", b"x"]]
    assert len(first) == 2
    with pytest.raises(IndexError):
        first[2]


@pytest.mark.parametrize("end", [-1, 2**40, 0])
def test_ends_that_cannot_be_name_the_file(tmp_path, end):
    mapped(tmp_path, WORDS)
    ends = ends_of(WORDS, 0)
    ends[3] = end
    (tmp_path / "ends").write_bytes(ends.tobytes())
    found = Texts.mapped(tmp_path / "joined", tmp_path / "ends", len(WORDS), sum(map(len, WORDS)))
    for read in (lambda: found[3], lambda: list(found)):
        with pytest.raises(EigenmapError, match="damaged"):
            read()
