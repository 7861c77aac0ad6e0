from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from eigenmap.search import CodeIndex
from tests.cli.run import refused, succeed


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Codes with a falling spectrum; the last five repeat the first."""
    rng = np.random.default_rng(0)
    codes = (rng.standard_normal((400, 32)) * np.arange(1, 33) ** -0.7).astype(np.float32)
    codes[-5:] = codes[:5] * 2
    path = tmp_path_factory.mktemp("indexes") / "many.index"
    index = CodeIndex(32, where=path)
    index.add(codes, [f"{i}.jpg" for i in range(400)])
    return path


def test_advice_is_shown_stored_and_drawn(many: Path, tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    words = ["--queries", 60, "--items", "1e9", "--price-per-gb", 2, "--json", file, "--plot", tmp_path / "advice"]
    result = succeed("advise", many, *words, "--quiet")
    assert result.err == ""
    assert "full length" in result.out and "Recommended: --" in result.out
    assert re.search(r"1,000,000,000 items.*128 GB.*256\.00", result.out)
    advice = json.loads(file.read_text())
    assert advice["items"] == 400 and advice["chosen"]["recall"] >= 0.99 and advice["at"]["items"] == 1e9
    assert {row["dim"] for row in advice["prefixes"]} == {4, 8, 16}
    assert {path.name for path in tmp_path.iterdir()} == {"advice.json", "advice.svg", "advice.png"}
    assert "exists" in refused("advise", many, "--plot", tmp_path / "advice")


def test_advice_for_few_bytes_says_that_it_falls_short(many: Path) -> None:
    out = succeed("advise", many, "--queries", 40, "--bytes-per-item", 16, "--quiet").out
    assert "Recommended: --dim 4" in out
    assert re.search(r"recall.*0\.99", out)


def test_mistakes_in_asking_for_advice(many: Path) -> None:
    assert re.search("--items.*1e9.*'many'", refused("advise", many, "--items", "many"))
    assert re.search("recall.*0.*1", refused("advise", many, "--recall", 1.5))
    assert re.search("prefix.*4 bytes", refused("advise", many, "--bytes-per-item", 4))  # before anything is measured
    for price in ("nan", "inf", "-2"):
        assert re.search(f"--price-per-gb.*0.*{price}", refused("advise", many, "--price-per-gb", price))
    assert "file name" in refused("advise", many, "--plot", ".")


@pytest.mark.parametrize(("plot", "drawn"), [("recall-0.99", "recall-0.99"), ("recall.svg", "recall")])
def test_the_files_of_a_plot_are_those_that_were_checked(many: Path, tmp_path: Path, plot: str, drawn: str) -> None:
    (tmp_path / f"{drawn}.png").write_text("mine")
    assert f"{drawn}.png exists" in refused("advise", many, "--plot", tmp_path / plot)
    succeed("advise", many, "--plot", tmp_path / plot, "--quiet", "--force")
    assert {path.name for path in tmp_path.iterdir()} == {f"{drawn}.svg", f"{drawn}.png"}


def test_near_duplicates_are_listed(many: Path, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    result = succeed("duplicates", many, "--json", file)
    assert result.out.splitlines() == [f"1.0000  {i}.jpg  {395 + i}.jpg" for i in range(5)]
    assert re.fullmatch(r"5 groups.*5 of 400.*\n", result.err)
    assert json.loads(file.read_text())["groups"][0]["ids"] == ["0.jpg", "395.jpg"]
    assert re.search("threshold.*cosine", refused("duplicates", many, "--threshold", 0))
