"""The load benchmark, in small."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.service import load, tables

EMPTY = "<!-- tables: written by python -m benchmarks service page -->old<!-- end of tables -->"


@pytest.fixture(scope="module")
def result() -> dict[str, object]:
    return load.run(seconds=0.2, overload_seconds=1.0, items=1000)


def test_a_short_run_measures_everything(result: dict) -> None:
    assert set(result["rows"]) == {f"{name}, {n}" for name in ("mixed lengths", "32 features") for n in (1, 16, 128)}
    for row in [*result["rows"].values(), *result["alone"].values()]:
        # A busy machine may turn some away, in time and politely.
        assert "200" in row["statuses"] and set(map(int, row["statuses"])) <= load.ANNOUNCED, row
        assert 0 < row["p50_ms"] <= row["p99_ms"]
    over = result["overload"]
    assert over["unannounced"] == 0 and over["statuses"].get("200", 0) > 0, over
    assert over["memory_mb"]["lowest"] > 50 and len(over["first_answers_after_ms"]) >= 1
    assert over["sent_per_second"] > 0 and over["sustainable_per_second"] > 0


def test_the_page_is_written_from_results(result: dict) -> None:
    fuzz = {
        "runs": {
            "0": {"requests": {"200": 5, "422": 2}, "pictures": {"415": 3}},
            "1": {"requests": {"200": 1}, "pictures": {}},
        }
    }
    text = tables.page(f"before\n{EMPTY}\nafter", result, fuzz)
    assert text.startswith("before\n") and text.endswith("\nafter") and "old" not in text
    assert "| mixed lengths, 128 |" in text and "8 (6 x 200, 2 x 422)" in text and "3 (3 x 415)" in text
    assert "not run." in tables.page(EMPTY, None, None)
    with pytest.raises(SystemExit):
        tables.page("no markers", result, None)


def test_a_connection_that_fails_is_counted_as_no_answer() -> None:
    assert asyncio.run(load.Connection(1).get("/")) == 0
