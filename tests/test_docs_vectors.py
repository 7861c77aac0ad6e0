"""The examples in docs/vectors.md run, one after the other, and its commands are those that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.run import succeed
from tests.end_to_end.photos import write_photos
from tests.formats.test_sentence_transformers import write_base

PAGE = Path(__file__).parents[1] / "docs" / "vectors.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 2
    found: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), found)
    return found


def test_the_examples_run(names: dict[str, Any]) -> None:
    assert names["codes"].shape == (2000, 8)
    scores = names["model"].training["vectors"]["scores"]
    assert scores["ours"]["8"] > scores["pca"]["8"]
    assert names["left"].shape == names["right"].shape == (2000, 4)


def test_the_commands_run(names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    titles, texts = names["titles"], names["texts"]
    written = {
        **{"titles": titles, "texts": texts, "queries": titles[:5], "q": titles[:20], "d": texts[:50], "old": titles},
        **{"images": np.tanh(titles / 40), "captions": titles[: len(write_photos(tmp_path / "PHOTOS", per_kind=12))]},
        **{"new": np.tanh(titles / 40), "new_queries": np.tanh(titles[:3] / 40), "vectors": texts},
    }
    for name, array in written.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "qrels.tsv").write_text("".join(f"{row} 0 {row} 1\n" for row in range(20)))
    commands = re.findall(r"^    eigenmap ([^#\n]*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) == 24
    for name in ("names", "titles"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} {row}\n" for row in range(len(texts))))
    write_base(tmp_path / "all-MiniLM-L6-v2", length=36)
    for command in commands:
        small = ("--steps", "2", "-k", "4", "--batch-size", "16") if command.startswith("fit towers") else ()
        succeed(*command.split(), *small)
