"""Figures that hand-written sentences quote are what the results say, and no figure is quoted without a check."""

from __future__ import annotations

import re

import pytest

from .quoted import others, search, study_findings, study_results, study_robustness
from .quoted.exceptions import EXCEPTIONS
from .quoted.quote import Quote, agree, sentences, text, uncovered

QUOTES = tuple(
    quote for pages in (study_results, study_findings, study_robustness, search, others) for quote in pages.QUOTES
)


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: f"{quote.page}-{quote.words[:40]}")
def test_the_figures_of_a_sentence_are_recomputed(quote: Quote) -> None:
    assert not quote.wrong()


@pytest.mark.parametrize("page", EXCEPTIONS)
def test_no_figure_is_quoted_without_a_check(page: str) -> None:
    known = [quote.pattern for quote in QUOTES if quote.page == page]
    known += [re.compile(re.escape(words)) for words in EXCEPTIONS[page]]
    assert not list(uncovered(text(page), known))


@pytest.mark.parametrize("page", EXCEPTIONS)
def test_every_exception_is_still_on_its_page(page: str) -> None:
    assert not [words for words in EXCEPTIONS[page] if words not in text(page)]


def test_a_sentence_that_is_gone_and_a_figure_that_differs_are_said() -> None:
    page, words = "docs/databases.md", "long enough for recall {recall}, the index"
    assert not Quote(page, words, lambda: {"recall": 0.99704}).wrong()
    assert "the results say 0.996" in Quote(page, words, lambda: {"recall": 0.996}).wrong()[0]
    assert "no longer says" in Quote(page, f"a {words}", lambda: {"recall": 0.997}).wrong()[0]


@pytest.mark.parametrize(
    ("printed", "values", "same"),
    [
        ("0.50 and 1,234", [0.4951, 1233.6], True),
        ("-0.006 to +0.002", [-0.0061, 0.0019], True),
        (".6669", [0.66688], True),
        ("0.50", [0.51], False),
        ("0.50", [-0.5], False),
        ("0.50", [0.5, 0.6], False),
    ],
)
def test_figures_are_compared_at_the_printed_precision(printed: str, values: list[float], same: bool) -> None:
    assert agree(printed, values) is same


def test_generated_parts_tables_and_code_are_not_sentences() -> None:
    page = "a\n\n    code 0.1\n\n| 0.2 |\n```\n0.3\n```\n<!-- x: written by y.py -->\n0.4\n<!-- end of tables -->\nb"
    assert sentences(page) == "a b"


def test_numbers_without_a_check_are_found() -> None:
    page = "It has 0.5 and 12 %, `t=0.1` as [before](at/0.2), in 1.2.3; mean 0.75 of 16."
    found = [said.partition(":")[0] for said in uncovered(page, [re.compile(r"mean 0\.75")])]
    assert found == ["0.5", "12 %"]
