"""The example in docs/time.md runs, and its commands are those that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.run import succeed

PAGE = Path(__file__).parents[1] / "docs" / "time.md"


def test_the_example_and_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    np.testing.assert_allclose(np.cov(names["modes"].T), np.eye(2), atol=0.05)
    np.testing.assert_allclose(names["found"].timescales[0], -1 / np.log([0.98, 0.9]), rtol=0.3)
    monkeypatch.chdir(tmp_path)
    for part, name in ((slice(2000), "run1"), (slice(2000, None), "run2")):
        np.save(tmp_path / f"{name}.npy", names["x"][part])
    commands = re.findall(r"^    eigenmap ([^#\n]*)", text, re.MULTILINE)
    assert len(commands) == 3
    printed = [succeed(*command.split()) for command in commands]
    assert "Implied timescales" in str(printed[0]) and "Implied timescales" in str(printed[1])
    assert np.load(tmp_path / "modes.npy").shape == (2000, 3)
