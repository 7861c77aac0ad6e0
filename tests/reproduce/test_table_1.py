from __future__ import annotations

import pytest

from eigenmap.reproduce import figure_retrieval, load_sets, table_1
from eigenmap.reproduce.sets import Sets


@pytest.fixture(scope="module")
def sets() -> Sets:
    return load_sets("tiny", None)


def test_methods_are_trained_and_probed(sets: Sets) -> None:
    said: list[str] = []
    rows = table_1("tiny", sets, ("scl", "byol", "unordered"), device="cpu", say=said.append)
    assert [row["method"] for row in rows] == ["SCL", "BYOL", "the paper's, unordered"]
    assert said == ["SCL ...", "BYOL ...", "the paper's, unordered ..."]
    assert all(row["linear"] > 0.6 for row in rows)  # four directions of stripes: chance is a quarter
    assert table_1("tiny", sets, ("scl",), device="cpu")[0]["linear"] == rows[0]["linear"]


def test_retrieval_by_prefixes_and_by_random_features(sets: Sets) -> None:
    scores = figure_retrieval("tiny", sets, top=10, device="cpu")
    assert list(scores) == ["the paper's, ordered", "the paper's, unordered", "SCL"]
    for name, rows in scores.items():
        assert [row["dim"] for row in rows] == [4, 8, 16]
        assert ("map_over_found@10_spread" in rows[0]) == (name != "the paper's, ordered")
        assert all(0.25 < row["map_over_found@10"] <= 1 for row in rows)
