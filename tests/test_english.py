"""Patterns that are wrong in any English text, over the source and the pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = sorted((ROOT / "src").rglob("*.js")) + sorted((ROOT / "src").rglob("*.html"))

_COUNTED = "bits?|bytes?|codes?|features?|integers?|items?|labels?|numbers?|pairs?|queries|requests|rows|steps|vectors?"
_UNIT = "second(?! [a-z])|minute|hour|image|item|query|node|row|file|step|feature|pair|point"
WRONG = {
    "write 'per', as in 'queries per second'": rf"\b(?:{_COUNTED}) an? (?:{_UNIT})\b",
    "write 'again'": r"\banew\b",
    "invert the sentence": r"\bfrom which on\b|\bsaid beforehand\b",
}


@pytest.mark.parametrize("remedy", WRONG)
def test_no_text_has_a_phrase_that_is_always_wrong(remedy: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in [*SOURCES, *PAGES, *SCRIPTS]
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(WRONG[remedy], line)
    ]
    assert not found, f"{remedy}: {found}"


def test_the_first_line_of_a_module_names_the_thing() -> None:
    first = {
        file: (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split(" ")[0] for file in SOURCES
    }
    found = [str(file.relative_to(ROOT)) for file, word in first.items() if word in ("What", "How", "Where", "When")]
    assert not found, f"begin the docstring with a noun: {found}"


def test_the_patterns_find_what_they_should() -> None:
    rate, anew, inverted = WRONG.values()
    for text in ("one integer an image", "3,000 queries a second", "one byte a feature"):
        assert re.search(rate, text)
    assert not re.search(rate, "queries per second; it gives an image a name, and features a second stage")
    assert re.search(anew, "draws anew") and re.search(inverted, "Seconds from which on it is said")
