from __future__ import annotations

import time

import pytest

from eigenmap import cli
from eigenmap.core.clock import began, counted_from


def test_time_limits_count_from_where_they_are_told_to() -> None:
    now = time.perf_counter()
    with counted_from(12.0):
        assert began() == 12.0
        with counted_from(None):
            assert began() >= now
        assert began() == 12.0
    assert began() >= now


def test_a_command_counts_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(cli, "app", lambda: seen.append(began()))
    monkeypatch.setattr("sys.excepthook", None)  # put back afterwards
    before = time.perf_counter()
    cli.main()
    after = time.perf_counter()
    assert before <= seen[0] <= after < began()
