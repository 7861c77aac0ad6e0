"""README, quickstart, how-tos and guides are easy to read: no sentence is longer than 35 words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 35
NAMES = ("README.md", "docs/index.md", "docs/install.md", "docs/quickstart.md", "docs/lengths.md")
GUIDES = (
    *("images", "vectors", "modalities", "graphs", "kernels", "time", "search", "index-on-disk", "databases"),
    *("training-at-scale", "embedding-at-scale", "explorer", "figures", "method", "results", "formats", "versions"),
    *("licences", "citing"),
)
PAGES = [*(ROOT / name for name in NAMES), *sorted((ROOT / "docs" / "howto").glob("*.md"))]
PAGES += [ROOT / "docs" / f"{name}.md" for name in GUIDES] + [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page; code, tables, comments and the targets of links are left out."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "\n\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*|#] )|\n(?=\|)", text):
        if not paragraph.startswith(("|", "    ")):
            yield from filter(None, re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_long(page: Path) -> None:
    long = [line for line in sentences(page.read_text(encoding="utf-8")) if len(line.split()) > LONGEST]
    assert long == []


@pytest.mark.parametrize("name", GUIDES)
def test_guides_lead_with_the_answer(name: str) -> None:
    """A page begins with sentences or commands, not with a heading below its title."""
    title, first, *_ = re.split(r"\n\s*\n", (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"))
    assert title.startswith("# ") and not first.startswith(("#", "|", "<!--"))


@pytest.mark.parametrize(
    "name",
    [
        *("catalogue", "benchmarks", "transfer", "objective-study", "vector-benchmarks", "graph-benchmarks"),
        *("eigenfunctions", "search-benchmarks", "scale-figures", "reliability", "paper"),
    ],
)
def test_what_is_lost_comes_before_the_first_table(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    before = text.split("\n| --- |")[0]
    assert re.search(r"(?i)\b(lost|loses|missed|behind|ahead of ours|failures)\b", before)


def test_sentences_are_found() -> None:
    page = "# A title\n\nOne two\nthree. Four [five](six.md)!\n\n- seven\n- eight\n\n    code\n\n```\nx. y.\n```\n"
    assert list(sentences(page)) == ["# A title", "One two three.", "Four [five]!", "- seven", "- eight"]
    assert any(len(line.split()) > LONGEST for line in sentences("word " * 40))


def test_how_tos_are_short() -> None:
    """At most two pages of text each: 1,000 words, outputs included; and a picture."""
    for page in (ROOT / "docs" / "howto").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        words = re.findall(r"\w+", text)
        assert len(words) < 1_100, page
        assert "![" in text, page


def test_the_readme_takes_a_screen_and_a_half() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    assert "make demo" in text and "make test" in text
