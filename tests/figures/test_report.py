"""The page stands alone, says what it was given, and says it escaped."""

from __future__ import annotations

import errno
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.figures import report
from eigenmap.figures.gallery import Answers, Hit
from eigenmap.figures.spectrum import spectrum_figure

VOID = {"meta", "img", "br", "hr", "input", "link"}


class Checker(HTMLParser):
    """Collects elements and fails on tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> report.Page:
    picture = np.zeros((4, 4), np.uint8)
    query = Answers(picture, "a <coat>", {2: [Hit(picture, "coat", True), Hit(picture, "bag", False)]})
    return report.Page(
        title="One & two",
        lead="a <lead>",
        sections=[
            report.Section(
                "First part!",
                [
                    report.paragraph("1 < 2"),
                    report.key_figures([("0.5", "half & half")]),
                    report.figure(spectrum_figure({"clean": np.array([0.9, 0.1])}), "A caption"),
                    report.table(["method", "2"], [["ours", "0.5"], ["<theirs>", "0.4"]], "Scores", strong=0),
                ],
            ),
            report.Section(
                "Second",
                [
                    report.facts({"seed": 0, "<b>": "&"}),
                    report.code("if a < b: pass"),
                    report.folded("More", [report.paragraph("inside")]),
                    report.gallery([query]),
                ],
            ),
        ],
        footer="the <end>",
    )


def test_tags_match_and_the_contents_lead_to_the_sections(page: report.Page) -> None:
    seen = Checker(page.html()).seen
    links = [attributes["href"] for tag, attributes in seen if tag == "a"]
    anchors = [attributes["id"] for tag, attributes in seen if tag == "section"]
    assert links == ["#first-part", "#second"] == [f"#{anchor}" for anchor in anchors]


def test_text_is_escaped(page: report.Page) -> None:
    text = page.html()
    for escaped in ("One &amp; two", "a &lt;lead&gt;", "1 &lt; 2", "&lt;theirs&gt;", "a &lt; b", "the &lt;end&gt;"):
        assert escaped in text
    assert "<coat>" not in text and "<theirs>" not in text


def test_nothing_is_asked_of_a_network(page: report.Page) -> None:
    text = page.html()
    seen = Checker(text).seen
    assert {tag for tag, _ in seen}.isdisjoint({"script", "link", "iframe", "object", "embed", "base"})
    for _, attributes in seen:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))
    # What is left of URLs are the names of XML namespaces, which nobody fetches.
    assert set(re.findall(r'https?://[^"\s<)]+', text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "@import" not in text and "url(http" not in text


def test_pictures_have_words_and_wrong_ones_a_mark(page: report.Page) -> None:
    text = page.html()
    images = [attributes for tag, attributes in Checker(text).seen if tag == "img"]
    assert [image["alt"] for image in images] == ["query: a <coat>", "coat, right", "bag, wrong"]
    assert "✗" in text and "1 of 2" in text


def test_light_and_dark(page: report.Page) -> None:
    text = page.html()
    assert text.count("prefers-color-scheme: dark") >= 2
    assert 'name="viewport"' in text and 'name="color-scheme"' in text


def test_write_is_whole_or_not_at_all(page: report.Page, tmp_path: Path) -> None:
    path = report.write(page, tmp_path / "deep" / "report.html")
    assert path.read_text(encoding="utf-8") == page.html()
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    (tmp_path / "file").write_text("")
    with pytest.raises(EigenmapError, match=r"file/report\.html.*written"):
        report.write(page, tmp_path / "file" / "report.html")


def test_a_disk_that_is_full_leaves_the_old_page(
    page: report.Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(partial: Path, content: str, **_: object) -> int:
        partial.write_bytes(content[:9].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    path = report.write(page, tmp_path / "report.html")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(EigenmapError, match="No space left"):
        report.write(page, path)
    assert path.read_bytes() == page.html().encode() and list(tmp_path.iterdir()) == [path]
