from __future__ import annotations

import pytest

from eigenmap.core.processes import is_first_process


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({}, True),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True),
        ({"RANK": "8", "LOCAL_RANK": "0"}, False),
        ({"LOCAL_RANK": "1"}, False),
        ({"NODE_RANK": "0", "LOCAL_RANK": "0"}, True),
        ({"NODE_RANK": "1", "LOCAL_RANK": "0"}, False),
        ({"NODE_RANK": ""}, True),
    ],
)
def test_one_process_of_a_run_is_the_first(
    environment: dict[str, str], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "NODE_RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_first_process() is first
