from __future__ import annotations

import pytest

from eigenmap.reproduce.dry_run_more import detection_row, graph_rows
from eigenmap.reproduce.table_5 import TITLES, TRANSFERS
from eigenmap.reproduce.table_6 import generated_graph, recipe_of_graph


def test_fine_tuning_counts_every_detector() -> None:
    one, two = (detection_row("tiny", devices, "cpu", seconds=0.0) for devices in (1, 2))
    schedule = TRANSFERS["tiny"].schedule
    assert one["steps"] == len(TITLES) * schedule.steps
    assert (one["images_per_device"], two["images_per_device"], one["measured_images"]) == (2, 1, 1)
    assert one["hours"] == pytest.approx(one["steps"] * one["step_seconds"] / 3600)
    assert one["memory_gib"] > two["memory_gib"] > 0.05  # a ResNet-18 with gradients and momentum


def test_training_on_a_graph_is_measured_on_its_own_batches() -> None:
    rows = graph_rows("tiny", generated_graph(), "cpu", seconds=0.1)
    assert [row["steps"] for row in rows] == [recipe_of_graph(name, "tiny").steps for name in ("ordered",) * 3]
    for row in rows:
        assert row["hours"] == pytest.approx(row["steps"] * row["step_seconds"] / 3600) and row["step_seconds"] > 0
        assert 0 < row["images_per_device"] <= 64 and 0 < row["memory_gib"] < 1
