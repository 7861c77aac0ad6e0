import numpy as np

from eigenmap.search import texts
from eigenmap.search.texts import Texts, ends_of

WORDS = [b"a", b"", b"bcd", "ü猫".encode(), b"", b"z"]


def mapped(tmp_path, words):
    (tmp_path / "joined").write_bytes(b"".join(words) + b"left behind")
    (tmp_path / "ends").write_bytes(ends_of(words, 0).tobytes() + b"12345678")
    return Texts.mapped(tmp_path / "joined", tmp_path / "ends", len(words), sum(map(len, words)))


def test_texts_on_disk_and_in_memory_are_one_list(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "_AT_ONCE", 2)
    for split in range(len(WORDS) + 1):
        found = mapped(tmp_path, WORDS[:split])
        found.extend(WORDS[split:])
        assert len(found) == len(WORDS)
        assert list(found) == [found[i] for i in range(len(WORDS))] == WORDS


def test_ends_go_on_where_the_last_text_ended():
    assert ends_of([b"ab", b"", b"c"], 10).tolist() == [12, 12, 13]
    assert ends_of([], 5).tolist() == [] and ends_of([], 5).dtype == np.int64
