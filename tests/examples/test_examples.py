"""Every example runs, does better than PCA and random features, and prints what its page says."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from examples.__main__ import NAMES, PAGE, page
from examples.common import text

FOLDER = Path(__file__).parents[2] / "examples"


def printed() -> dict[str, str]:
    """What the page says each example prints."""
    blocks = re.findall(r"```\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return dict(zip(NAMES, blocks, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_its_page_says(name: str) -> None:
    example = import_module(f"examples.{name}")
    scores = example.main()
    assert scores["ours"] > max(scores["PCA"], scores["random features"])
    found, written = text(example.TITLE, scores), printed()[name]
    number = re.compile(r"\d\.\d{3}")
    assert number.sub("", found) == number.sub("", written)
    figures = [[float(value) for value in number.findall(each)] for each in (found, written)]
    assert figures[0] == pytest.approx(figures[1], abs=0.01)  # other processors round otherwise


def test_the_page_is_written_by_the_program() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(printed())


def test_every_example_is_on_the_page_and_fits_a_screen() -> None:
    files = {path.stem: path for path in FOLDER.glob("*.py") if not path.stem.startswith("_")}
    assert set(files) == {*NAMES, "common"}
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 60 for path in files.values())
