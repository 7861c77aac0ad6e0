"""Links between pages, and from pages to code, lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        place = page.parent / target if target else page
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_formula_is_swallowed_as_html(page: Path) -> None:
    """`<f, g>` outside code would be read as a tag, and not shown."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`|<!--.*?-->", "", text, flags=re.DOTALL)
    assert re.findall(r"</?[A-Za-z][\w-]*(?:[\s,][^<>]*)?>", text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_not_part_of_a_list(page: Path) -> None:
    """Indented lines right after a list would be shown as a paragraph of its last item, not as commands."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^[-*] .*\n(?:  +\S.*\n)*\n {4}(\S.*)$", text, flags=re.MULTILINE)
    assert [line for line in found if not line.startswith(("- ", "* "))] == []
