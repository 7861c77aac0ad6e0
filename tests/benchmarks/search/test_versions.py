"""Two versions are timed on one index; here both are the working tree."""

from __future__ import annotations

from benchmarks.search import versions


def test_both_versions_answer_the_same_searches() -> None:
    source = versions.ROOT / "src"
    rows = versions.compare(source, source, items=2_000, rounds=1)
    assert {"one query, all features", "one query, IVF, then exact"} <= set(rows)
    for row in rows.values():
        assert row["before"] > 0 and row["after"] > 0
        assert row["ratio"] == row["before"] / row["after"]
