"""Build of the site, and its checks: `python tools/check_site.py`, or `make docs`.

- MkDocs builds it strictly: a broken link, anchor or reference ends it, as does a page without a place.
- No page loads anything from elsewhere: no fonts, scripts, styles or pictures.
- codespell finds no misspelt word in pages, README and docstrings.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
SPELLED = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "src", "tools", "examples")
WORDS = ("ans", "arange", "clas", "coo", "fo", "nd", "noe", "te", "vermillion")
"""Names in code and data that look like misspelt words."""
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|audio|video|embed)\b[^>]*?\bsrc=[\"']?(?P<src>https?:)?//[^\"'>\s]*"
    r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preconnect|preload|icon))[^>]*?href=[\"']?https?://[^\"'>\s]*"
    r"|@import\s+(?:url\()?[\"']?https?://[^\"')]*"
    r"|url\([\"']?https?://[^\"')]*",
    re.IGNORECASE,
)


class SiteError(Exception):
    """A site that cannot be built without warnings."""


def build(out: Path = SITE) -> None:
    """Build the site; raise if there is a warning."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SiteError("\n".join(line for line in done.stderr.splitlines() if not line.startswith("INFO")))


def loaded_from_elsewhere(site: Path) -> Iterator[str]:
    """Yield what pages and styles of the site would load from another server."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for found in _LOADED.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: {found[0][:120]}"


def misspelt() -> list[str]:
    """Return what codespell says, one line per word."""
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words-list", ",".join(WORDS)]
    command += ["--skip", "*.json,*.ipynb,*.svg,*.png,*.safetensors,*.js,*.html", *SPELLED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 65):
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()


def main() -> int:
    """Build and check; return the exit code."""
    try:
        build()
    except SiteError as error:
        print(error)
        return 1
    wrong = [*loaded_from_elsewhere(SITE), *misspelt()]
    print("\n".join(wrong) or f"{SITE.relative_to(ROOT)}/index.html: links, assets and spelling are fine")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
