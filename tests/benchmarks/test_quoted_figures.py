"""Figures that hand-written sentences quote are what the results say, and no figure is quoted without a check."""

from __future__ import annotations

import re

import pytest

from .quoted import study_findings, study_results, study_robustness
from .quoted.exceptions import EXCEPTIONS
from .quoted.quote import Quote, text, uncovered

QUOTES = (*study_results.QUOTES, *study_findings.QUOTES, *study_robustness.QUOTES)


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
