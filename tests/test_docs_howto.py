"""Every example of the how-tos, the quickstart and the README runs, in its small form."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md", ROOT / "docs" / "lengths.md"]
PAGES += sorted((ROOT / "docs" / "howto").glob("*.md"))


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_run(page: Path) -> None:
    import transcripts

    text, examples = transcripts.run_page(page, quick=True)
    assert examples > 0
    assert [line for line in text.splitlines() if line.startswith("$ ")] == [
        line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("$ ")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_outputs_of_the_examples_are_stored(page: Path) -> None:
    """A block of output is not empty: the page was written by tools/transcripts.py."""
    text = page.read_text(encoding="utf-8")
    assert "```text\n```" not in text
    for picture in (part.split(" -->")[0].split()[1] for part in text.split("<!-- draw: ")[1:]):
        assert (ROOT / picture).stat().st_size > 2_000


def test_a_failing_example_is_an_error(tmp_path: Path) -> None:
    import transcripts

    page = tmp_path / "page.md"
    page.write_text("```console\n$ eigenmap info nowhere\n```\n")
    with pytest.raises(transcripts.ExampleError, match="nowhere"):
        transcripts.run_page(page, quick=True)
    page.write_text("<!-- quick: a => b -->\n\n```python\nprint(1)\n```\n")
    with pytest.raises(transcripts.ExampleError, match="'a'"):
        transcripts.run_page(page, quick=True)


def test_outputs_are_written_into_the_page(tmp_path: Path) -> None:
    import transcripts

    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one && echo two\nold\n```\n\n```python\nprint(6 * 7)\n```\n\n```text\n```\n")
    text, examples = transcripts.run_page(page, quick=False)
    assert examples == 2
    assert text == (
        "```console\n$ echo one && echo two\none\ntwo\n```\n\n```python\nprint(6 * 7)\n```\n\n```text\n42\n```\n"
    )
