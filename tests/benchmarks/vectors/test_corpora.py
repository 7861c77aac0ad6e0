"""Texts from miniature files of each kind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.common.errors import BenchmarkError
from benchmarks.vectors import corpora

ENGLISH = """Package: pong
Description-md5: aa
Description-en: A game
 Hit the ball.
 .
 Win.

Package: ping
Description-md5: bb
Description-en: A tool
 Ask a host.

Package: ping6
Description-md5: cc
Description-en: A tool
 Ask another host.
"""
FRENCH = """Package: ping
Description-md5: bb
Description-fr: Un outil
 Interroger un hôte.
"""


def lists(folder: Path) -> Path:
    (folder / "x_i18n_Translation-en").write_text(ENGLISH, encoding="utf-8")
    (folder / "x_i18n_Translation-fr").write_text(FRENCH, encoding="utf-8")
    return folder


def test_short_and_long_descriptions_are_paired_and_texts_that_repeat_are_left_out(tmp_path: Path) -> None:
    pairs = corpora.debian(lists(tmp_path))
    assert sorted(zip(*pairs, strict=True)) == [("A game", "Hit the ball. Win."), ("A tool", "Ask a host.")]
    assert corpora.debian(tmp_path) == pairs


def test_translations_are_paired_by_their_checksum(tmp_path: Path) -> None:
    assert corpora.translated(lists(tmp_path)) == (["A tool"], ["Un outil"])
    with pytest.raises(BenchmarkError, match="'ja'"):
        corpora.translated(tmp_path, "ja")


def test_synsets_lose_their_examples_and_their_markers(tmp_path: Path) -> None:
    lines = {
        "noun": '  1 licence\n00001740 03 n 02 big_dog 0 hound 0 000 | an animal; "see the hound"  \n',
        "verb": "00001741 29 v 01 run 0 000 01 + 02 00 | move fast  \n",
        "adj": '00001742 00 a 01 galore(ip) 0 000 | in abundance; "galore"  \n',
        "adv": "00001743 02 r 01 well 0 000 | in a good way  \n",
    }
    for part, text in lines.items():
        (tmp_path / f"data.{part}").write_text(text, encoding="utf-8")
    found = sorted(zip(*corpora.wordnet(tmp_path), strict=True))
    assert found == [
        ("big dog, hound", "an animal"),
        ("galore", "in abundance"),
        ("run", "move fast"),
        ("well", "in a good way"),
    ]
    (tmp_path / "data.adv").unlink()
    with pytest.raises(BenchmarkError, match=r"data\.adv"):
        corpora.wordnet(tmp_path)


def test_judged_documents_have_their_titles(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt") as file:
        file.write(json.dumps({"_id": "d", "title": "T", "text": "text"}) + "\n")
        file.write(json.dumps({"_id": "e", "text": "alone"}) + "\n")
    with gzip.open(tmp_path / "queries.jsonl.gz", "wt") as file:
        file.write(json.dumps({"_id": "q", "text": "asked"}) + "\n")
    with pytest.raises(BenchmarkError, match=r"qrels\.tsv"):
        corpora.judged(tmp_path)
    (tmp_path / "qrels.tsv").write_text("q\td\t1\n")
    found = corpora.judged(tmp_path)
    assert found.documents == ["T. text", "alone"] and found.queries == ["asked"] and found.document_ids == ["d", "e"]
