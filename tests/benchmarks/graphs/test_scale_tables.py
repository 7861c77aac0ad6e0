from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.graphs import scale_tables

ABOUT = {"device": "a card", "torch": "2", "commit": "abc", "date": "2026-01-01"}


def run(points: list[tuple[int, float]], untrained: float = 0.3) -> dict[str, Any]:
    curve = [
        {"steps": n, "evaluations": 10 * n, "rows_drawn": 40 * n, "seconds": n / 10, "accuracy": accuracy}
        for n, accuracy in points
    ]
    last = curve[-1]
    best = max(point["accuracy"] for point in curve)
    return {
        "untrained_accuracy": untrained,
        "curve": curve,
        "best_accuracy": best,
        "peak_gb": 1.5,
        **{name: last[name] for name in ("steps", "evaluations", "seconds")},
    }


def test_every_figure_is_on_the_page(tmp_path: Path) -> None:
    runs = {"edges": run([(20, 0.2), (30, 0.5)]), "node blocks, paper": run([(20, 0.1), (600, 0.25)])}
    row = {"all": 1.0, "a node of all": 1e-6, "one": 0.002}
    cost = {"step_seconds_an_edge": 1e-6, "draw_seconds_an_edge": 1e-7}
    result = {
        **ABOUT,
        "graph": {"nodes": 1000, "edges": 5000, "homophily": 0.8, "seconds": 2.0},
        "MLP": {"accuracy": 0.6},
        "GCN": {"accuracy": 0.75},
        "runs": runs,
        "target": 0.25,
        "to_target": {"edges": runs["edges"]["curve"][1], "node blocks, paper": runs["node blocks, paper"]["curve"][1]},
        "cost_of_edges": {"1x": {**cost, "edges": 5000}},
        "test_cost_seconds": {
            "test_nodes": 900,
            "ours": {**row, "one, on the CPU": 0.003},
            "GCN, full batch": row,
            "GCN, 10 + 10 neighbours": row,
        },
    }
    (tmp_path / scale_tables.FILE).write_text(json.dumps(result))
    page = "\n".join(scale_tables.scale(tmp_path))
    assert "1,000 nodes and 5,000 edges" in page and "An MLP on features scores 60.0 %" in page
    assert "after 200 and at most 300 evaluations, 3.0 s; 20.0 times fewer evaluations" in page
    assert "which the paper's blocks do not reach again" in page
    assert "20 times fewer evaluations: met, 20.0 times" in page and "anywhere from 0.7 to 30.0." in page
    assert "| node blocks, our objective and optimizer | not run |" in page
    assert "| ours | 1.000 | 1.000 | 2.00 | 3.00 |" in page and "| 5,000 | 1.00 | 0.100 |" in page


@pytest.mark.parametrize(
    ("steps", "verdict"), [(29, "met, 20.7 times"), (31, "just missed, 19.4 times"), (60, "missed, 10.0 times")]
)
def test_a_goal_that_is_missed_is_called_so(steps: int, verdict: str) -> None:
    edges, paper = run([(20, 0.2), (steps, 0.5)]), run([(20, 0.1), (600, 0.25)])
    reached = {"edges": edges["curve"][1], "node blocks, paper": paper["curve"][1]}
    result = {"runs": {"edges": edges, "node blocks, paper": paper}, "to_target": reached}
    assert f"fewer evaluations: {verdict}" in scale_tables._verdict(result)
    result["to_target"] = {**reached, "edges": None}
    assert "missed, edges do not reach" in scale_tables._verdict(result)


def test_without_a_result_it_says_so(tmp_path: Path) -> None:
    assert any("Not run" in part for part in scale_tables.scale(tmp_path))
