"""Hooks of the site: pages that are made when it is built, and links that lead out of docs/.

MkDocs calls the functions whose names begin with `on_` (mkdocs.yml names this file). Pages made here:

    contributing.md, changelog.md, security.md    the files of the repository's root
    reference/cli.md                              the command line, from the program itself
    notebooks/NAME.md                             docs/notebooks/NAME.ipynb with its stored outputs
    source/PATH.md                                each source file that some page links to, so that links work offline
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools"))

import cli_reference  # noqa: E402
import notebooks  # noqa: E402

FROM_THE_ROOT = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
"""Files of the repository and the pages that show them; the README's content is on other pages."""
MADE = tuple(name for name, page in FROM_THE_ROOT.items() if page != "index.md")
WORKER = "https://unpkg.com/iframe-worker/shim"
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")
_FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
_SPLIT = re.compile(
    r"(?<=±) (?=[\d.])|(?<=\d) (?=%)|(?<=\d) (?=of \d)|(?<=\d of) (?=\d)|(?<=not) (?=run)|(?<=\d) (?=/ [+-]?\d)"
)
"""Spaces at which a figure of a table must not be divided between two lines."""
_LANGUAGES = {".py": "python", ".md": "markdown", ".toml": "toml", ".cff": "yaml", ".yml": "yaml", "": "text"}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made at this moment."""
    from mkdocs.structure.files import File, InclusionLevel

    pages = {file.src_uri: (DOCS / file.src_uri).read_text(encoding="utf-8") for file in files.documentation_pages()}
    made = dict(made_pages())
    sources = {source_page(path): source_text(path) for path in sorted(linked_sources(pages | made))}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for name, text in sources.items():
        files.append(File.generated(config, name, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links out of docs/ to the page that shows the file."""
    return rewritten(markdown, page.file.src_uri)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Keep each figure of a table on one line."""
    return _CELL.sub(lambda cell: _SPLIT.sub("&nbsp;", cell[0]), html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Load the stand-in for workers from the site itself; the theme would ask another server for it."""
    return output.replace(WORKER, posixpath.relpath("frame-worker.js", posixpath.dirname(page.url) or "."))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Do the same for the page that is shown where there is none."""
    return output_content.replace(WORKER, "/frame-worker.js")


def made_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and text of each page that is not a file in docs/, apart from sources."""
    for name in MADE:
        yield FROM_THE_ROOT[name], from_the_root((ROOT / name).read_text(encoding="utf-8"))
    yield "reference/cli.md", cli_reference.page()
    for notebook in sorted((DOCS / "notebooks").glob("*.ipynb")):
        yield f"notebooks/{notebook.stem}.md", notebooks.as_markdown(notebook)


def from_the_root(text: str) -> str:
    """Return a page of the root as if it were in docs/."""

    def moved(found: re.Match[str]) -> str:
        return posixpath.relpath(found["target"], "docs") + (found["anchor"] or "")

    return _outside_code(text, moved)


def rewritten(text: str, page: str) -> str:
    """Replace links that leave docs/ by links to pages of the site."""

    def led(found: re.Match[str]) -> str:
        path = in_repository(found["target"], page)
        if path is None:
            return found[0]
        target = FROM_THE_ROOT.get(path, source_page(path))
        return posixpath.relpath(target, posixpath.dirname(page) or ".") + (found["anchor"] or "")

    return _outside_code(text, led)


def in_repository(target: str, page: str) -> str | None:
    """Return the path in the repository that a link of a page means, None if it stays in docs/ or is not a file."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    if path in FROM_THE_ROOT or (not path.startswith("docs/") and (ROOT / path).is_file()):
        return path
    return None


def linked_sources(pages: dict[str, str]) -> set[str]:
    """Return the source files that pages link to."""
    found = (
        in_repository(link["target"], page)
        for page, text in pages.items()
        for link in _LINK.finditer(_FENCED.sub("", text))
    )
    return {path for path in found if path is not None and path not in FROM_THE_ROOT}


def source_page(path: str) -> str:
    """Return the page that shows a source file."""
    return f"source/{path}.md"


def source_text(path: str) -> str:
    """Return a page with a source file."""
    language = _LANGUAGES.get(Path(path).suffix, "text")
    text = (ROOT / path).read_text(encoding="utf-8").rstrip()
    return f"# {path}\n\n~~~~{language}\n{text}\n~~~~\n"


def _outside_code(text: str, replace: Any) -> str:
    """Replace links outside fenced code."""
    fences = [match.span() for match in _FENCED.finditer(text)]

    def outside(found: re.Match[str]) -> str:
        return found[0] if _inside(found.start(), fences) else str(replace(found))

    return _LINK.sub(outside, text)


def _inside(place: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= place < stop for start, stop in spans)
