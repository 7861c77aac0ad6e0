"""Messages for people go to the callback and to Python's logger."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import eigenmap as em
from eigenmap.core.logging import logged
from tests.end_to_end.photos import pictures


def test_lines_reach_the_callback_and_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []
    with caplog.at_level(logging.INFO, logger="eigenmap"):
        logged(lines.append)("100 % done")
        logged()("and more")
    assert lines == ["100 % done"]
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        ("eigenmap", "INFO", "100 % done"),
        ("eigenmap", "INFO", "and more"),
    ]


def test_a_fit_reports_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="eigenmap"):
        em.fit_images(pictures(20), steps=2, batch_size=8, hidden=16, device="cpu", progress=False)
    assert any("components" in record.getMessage() for record in caplog.records)  # 20 pictures allow fewer


def test_nothing_is_printed_unless_logging_is_set_up() -> None:
    code = "from eigenmap.core.logging import logged; logged()('a line')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""
