"""Judgements in the layouts of TREC and BEIR."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap import EigenmapError
from eigenmap.data.vectors.qrels import load_ids, load_qrels, read_qrels


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 d1 2\nq1 0 d2 0\nq2 0 d3 1\n",
        "q1\t0\td1\t2\nq1\t0\td2\t0\nq2\t0\td3\t1\n",
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n\nq2\td3\t1\n",
        "\ufeffq1 d1 2\nq1 d2 0\nq2 d3 1\n",
    ],
)
def test_both_layouts(tmp_path: Path, text: str) -> None:
    (tmp_path / "qrels.tsv").write_text(text, encoding="utf-8")
    assert read_qrels(tmp_path / "qrels.tsv") == [("q1", "d1", 2.0), ("q1", "d2", 0.0), ("q2", "d3", 1.0)]
    found = load_qrels(tmp_path / "qrels.tsv", ["q2", "q1"], ["d0", "d1"])
    assert (found.queries.tolist(), found.documents.tolist(), found.grades.tolist()) == ([1], [1], [2.0])
    assert found.unknown == 1


def test_names_with_spaces_need_tabs(tmp_path: Path) -> None:
    (tmp_path / "qrels.tsv").write_text("a query\ta document\t1\n")
    assert read_qrels(tmp_path / "qrels.tsv") == [("a query", "a document", 1.0)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no judgements"),
        ("q d 1\nq d\n", "Line 2"),
        ("q d 1\nq d x\n", "Line 2"),
        ("q d nan\n", "no judgements"),
    ],
)
def test_what_is_no_judgement_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "qrels.tsv").write_text(text)
    with pytest.raises(EigenmapError, match=says):
        read_qrels(tmp_path / "qrels.tsv")


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "qrels.tsv").write_text("q d 1\n")
    (tmp_path / "ids.txt").write_text("a\nb\n")
    with pytest.raises(EigenmapError, match=r"qrels\.tsv"):
        load_qrels(tmp_path / "qrels.tsv", ["a"], ["b"])
    with pytest.raises(EigenmapError, match="2 ids for 3 vectors"):
        load_ids(tmp_path / "ids.txt", 3)
    with pytest.raises(EigenmapError, match="cannot be read"):
        read_qrels(tmp_path / "none.tsv")


def test_only_a_line_feed_ends_a_name(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("a\x0cb\nc\u2028d\x85\n", encoding="utf-8")
    assert load_ids(tmp_path / "ids.txt", 2) == ["a\x0cb", "c\u2028d"]
