"""`eigenmap evaluate vectors`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import eigenmap as em
from tests.cli.run import refused, succeed
from tests.linear.planted import planted, two_spaces


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    x, y = planted(900)
    u, v = two_spaces(900)
    for name, array in (("x", x), ("y", y), ("q", x[:60]), ("u", u), ("v", v)):
        np.save(folder / f"{name}.npy", array)
    (folder / "qrels.txt").write_text("".join(f"q{row} 0 d{row} 1\n" for row in range(60)))
    (folder / "rows.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{r}\t{r}\t2\n" for r in range(60)))
    (folder / "q.txt").write_text("".join(f"q{row}\n" for row in range(60)))
    (folder / "d.txt").write_text("".join(f"d{row}\n" for row in range(900)))
    em.fit_vectors(x, 12, pairs=y, out=folder / "run", progress=False)
    em.fit_vectors(u, pairs=v, out=folder / "both", progress=False)
    return folder


def test_codes_are_scored_at_every_length_and_beat_the_plain_prefix(files: Path, tmp_path: Path) -> None:
    given = ("--queries", files / "q.npy", "--documents", files / "y.npy", "--relevance", files / "rows.tsv")
    text = succeed("evaluate", "vectors", files / "run", *given, "--json", tmp_path / "ours.json").out
    assert all(word in text for word in ("ndcg@10", "recall@10", "recall@100", "mrr", "60 queries", "900 documents"))
    succeed("evaluate", "vectors", *given, "--json", tmp_path / "plain.json", "--dims", 8, 24, "--top", 5)
    ours, plain = (json.loads((tmp_path / name).read_text())["rows"] for name in ("ours.json", "plain.json"))
    assert [row["dim"] for row in ours] == [8, 12] and [row["dim"] for row in plain] == [8, 24]
    assert ours[0]["ndcg@10"] > plain[0]["ndcg@10"] + 0.2 and "recall@5" in plain[0]


def test_rows_can_be_named(files: Path) -> None:
    given = ("--queries", files / "q.npy", "--documents", files / "y.npy", "--relevance", files / "qrels.txt")
    named = ("--query-ids", files / "q.txt", "--document-ids", files / "d.txt")
    assert "60 queries" in succeed("evaluate", "vectors", files / "run", *given, *named).out
    assert str(files / "qrels.txt") in refused("evaluate", "vectors", files / "run", *given)


def test_two_spaces_search_from_left_to_right(files: Path, tmp_path: Path) -> None:
    given = ("--queries", files / "u.npy", "--documents", files / "v.npy", "--relevance", files / "rows.tsv")
    succeed("evaluate", "vectors", files / "both", *given, "--json", tmp_path / "both.json")
    assert json.loads((tmp_path / "both.json").read_text())["rows"][-1]["mrr"] > 0.02
    assert re.search("u.npy .*v.npy .*RUN", " ".join(refused("evaluate", "vectors", *given).split()))


def test_what_is_missing_is_named(files: Path, model_dir: Path) -> None:
    assert "--relevance is missing" in refused(
        "evaluate", "vectors", files / "run", "--queries", files / "q.npy", "--documents", files / "y.npy"
    )
    given = ("--queries", files / "q.npy", "--documents", files / "y.npy", "--relevance", files / "rows.tsv")
    assert "model of images" in refused("evaluate", "vectors", model_dir, *given)
    assert "24 numbers" in refused(
        "evaluate", "vectors", files / "run", *given[:2], "--documents", files / "v.npy", *given[4:]
    )
