from __future__ import annotations

import numpy as np
import pytest

from eigenmap.cli.search.options import Ranking, SearchOptions, parse_dim, parse_funnel
from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex


def test_lengths_are_read_as_they_are_written() -> None:
    assert [parse_dim(text) for text in (None, "auto", "16", "-3")] == [None, "auto", 16, -3]
    assert parse_funnel(None) is None
    assert parse_funnel("8:2000,32:200, 256:10") == [(8, 2000), (32, 200), (256, 10)]


@pytest.mark.parametrize(
    "text", ["", "8", "8:", "8:2:3", "a:b", "8:20;16:10", pytest.param("8:" + "9" * 5000, id="long")]
)
def test_what_is_no_funnel_is_shown_one(text: str) -> None:
    with pytest.raises(EigenmapError, match="funnel"):
        parse_funnel(text)


@pytest.mark.parametrize("text", ["", "x", "1.5", "1e3", pytest.param("9" * 5000, id="long")])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(EigenmapError, match=r"dim.*auto"):
        parse_dim(text)


def index_of(codes: np.ndarray, precision: str) -> CodeIndex:
    index = CodeIndex(8, precision=precision, bytes_per_item=2 if precision in ("bits", "signs") else None)
    index.add(codes, range(len(codes)))
    return index


def test_a_ranking_is_that_of_the_index_in_python() -> None:
    codes = np.random.default_rng(0).normal(size=(500, 8)) * np.arange(1, 9) ** -0.7
    scores = {}
    for ranking in (None, *Ranking):
        index, asked = index_of(codes, "bits"), SearchOptions(5, None, None, None)
        asked.ranking = ranking
        asked.check(index)
        found = asked.search(index, codes[:20])
        other = index_of(codes, "bits")
        other.rank_by("relevance" if ranking is None else ranking.value)
        expected = other.search(codes[:20], 5)
        assert found.ids == expected.ids and np.array_equal(found.scores, expected.scores)
        scores[ranking] = found.scores
        times = "" if ranking is Ranking.cosine else ", times reliability"
        assert asked.similarity(index, found.dim) == f"cosine of the first dim features, estimated{times}"
        assert asked.similarity(index, 4) == "cosine of the first dim features"
    assert np.array_equal(scores[None], scores[Ranking.relevance])
    assert not np.allclose(scores[None], scores[Ranking.cosine])


@pytest.mark.parametrize("precision", ["float32", "int8", "signs"])
def test_an_index_of_whole_codes_or_of_signs_has_only_the_cosine(precision: str) -> None:
    index, asked = index_of(np.eye(8), precision), SearchOptions(3, None, None, None)
    asked.ranking = Ranking.cosine
    asked.check(index)
    assert asked.similarity(index, asked.search(index, np.eye(8)).dim) == "cosine of the first dim features"
    asked.ranking = Ranking.relevance
    with pytest.raises(EigenmapError, match="--rank-by relevance"):
        asked.check(index)


def test_a_search_by_the_best_length_measures_it_once_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    codes = np.random.default_rng(0).normal(size=(1200, 8)) * np.arange(1, 9) ** -0.7
    index = index_of(codes, "float32")
    first = SearchOptions(5, "auto", None, None).search(index, codes[:3])
    assert "Measuring" in capsys.readouterr().err
    assert index.advice is not None and first.recall == index.advice.chosen.recall
    again = SearchOptions(5, "auto", None, None).search(index, codes[:3])
    assert again.ids == first.ids and capsys.readouterr().err == ""


def test_few_items_need_no_measuring(capsys: pytest.CaptureFixture[str]) -> None:
    index = index_of(np.eye(8), "float32")
    assert SearchOptions(5, "auto", None, None).search(index, np.eye(8)[:1]).dim == 8
    assert index.advice is None and capsys.readouterr().err == ""
