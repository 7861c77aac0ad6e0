"""Self-contained HTML reports, which make no requests and can be opened offline or sent by e-mail.

    page = Page("Demo", "What was learned", [
        Section("Retrieval", [figure(curve, "mAP against code length"), table(["features", "mAP"], rows)]),
    ])
    write(page, Path("runs/demo/report.html"))

Blocks are functions that return HTML. They alone escape the text that they are given.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_path, make_folder
from eigenmap.figures.gallery import Answers, Hit, Picture
from eigenmap.figures.style import css_variables, inline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Html = str
_REM_PER_INCH = 6.1
"""Scale of figures on the page: 9.4 inches fill its width."""


@dataclass(frozen=True)
class Section:
    """A heading and the blocks under it."""

    title: str
    blocks: Sequence[Html]

    @property
    def anchor(self) -> str:
        """Id that links refer to."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class Page:
    """A page: title, one sentence below it, and sections listed in the contents."""

    title: str
    lead: str
    sections: Sequence[Section]
    footer: str = ""

    def html(self) -> Html:
        """Return the complete document."""
        links = "".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in self.sections)
        body = "".join(
            f'<section id="{s.anchor}"><h2>{escape(s.title)}</h2>{"".join(s.blocks)}</section>' for s in self.sections
        )
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{_css()}</style>\n</head>\n<body>\n"
            f"<header><h1>{escape(self.title)}</h1><p>{escape(self.lead)}</p></header>\n"
            f'<nav aria-label="Contents">{links}</nav>\n<main>{body}</main>\n'
            f"<footer>{escape(self.footer)}</footer>\n</body>\n</html>\n"
        )


def write(page: Page, path: Path) -> Path:
    """Write the page atomically."""
    try:
        make_folder(path.parent)
        with atomic_path(path) as partial:
            partial.write_text(page.html(), encoding="utf-8", errors="replace")  # file names may contain invalid bytes
    except OSError as error:
        raise EigenmapError(f"The report {path} cannot be written: {error.strerror}.") from error
    return path


def paragraph(text: str) -> Html:
    """Return a paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def key_figures(items: Iterable[tuple[str, str]]) -> Html:
    """Return a few key numbers in large type: (number, description)."""
    cells = "".join(f"<div><b>{escape(number)}</b><span>{escape(what)}</span></div>" for number, what in items)
    return f'<div class="numbers">{cells}</div>'


def figure(content: Figure, caption: str) -> Html:
    """Return a figure in the colours of the page; wide ones scroll sideways on a phone."""
    drawing = inline(content, caption)
    widest = f"--widest:{_REM_PER_INCH * content.get_figwidth():.1f}rem"  # keeps the text of a small figure small
    return (
        f'<figure><div class="scroll" style="{widest}">{drawing}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", strong: int | None = None) -> Html:
    """Return a table whose first column names the row; row number `strong` is emphasised."""
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = ""
    for number, (name, *cells) in enumerate(rows):
        kind = ' class="strong"' if number == strong else ""
        values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body += f'<tr{kind}><th scope="row">{escape(name)}</th>{values}</tr>'
    # Not a <caption>, which would be as wide as the table and overflow a phone's screen.
    title = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    grid = f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"
    return f'<figure class="table">{title}<div class="scroll">{grid}</div></figure>'


def facts(items: Mapping[str, object]) -> Html:
    """Return a list of names and values."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in items.items())
    return f"<dl>{rows}</dl>"


def code(text: str) -> Html:
    """Return a block of program code."""
    return f'<pre class="scroll"><code>{escape(text)}</code></pre>'


def folded(title: str, blocks: Sequence[Html]) -> Html:
    """Return blocks that fold under a title."""
    return f"<details><summary>{escape(title)}</summary>{''.join(blocks)}</details>"


def gallery(queries: Sequence[Answers]) -> Html:
    """Return queries with their results at every length, side by side if there is space."""
    return f'<div class="gallery">{"".join(map(_answers, queries))}</div>'


def _answers(query: Answers) -> Html:
    head = (
        f'<div class="asked">{_picture(query.picture, f"query: {query.label}")}'
        f"<span>query<b>{escape(query.label)}</b></span></div>"
    )
    rows = "".join(_answer_row(length, hits) for length, hits in query.hits.items())
    return f'<article class="answers">{head}{rows}</article>'


def _answer_row(length: int, hits: Sequence[Hit]) -> Html:
    known = [hit.right for hit in hits if hit.right is not None]
    count = f"<small>{sum(known)} of {len(hits)}</small>" if known else ""
    pictures = "".join(map(_hit, hits))
    return (
        f'<div class="hits"><span class="length"><b>{length}</b>{count}</span><div class="strip">{pictures}</div></div>'
    )


def _hit(hit: Hit) -> Html:
    kind = {True: "right", False: "wrong", None: "unknown"}[hit.right]
    words = hit.label if hit.right is None else f"{hit.label}, {kind}"
    mark = '<i aria-hidden="true">✗</i>' if hit.right is False else ""
    return f'<span class="{kind}">{_picture(hit.picture, words)}{mark}</span>'


def _picture(picture: Picture, alt: str) -> Html:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG", optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}" title="{escape(alt)}">'


def _css() -> str:
    sheet = resources.files("eigenmap.figures").joinpath("report.css").read_text(encoding="utf-8")
    light, dark = css_variables(), css_variables(dark=True)
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n{sheet}"
