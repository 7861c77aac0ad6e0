from __future__ import annotations

import torch

from benchmarks.eigenfunctions import kernel_cost


def test_points_depend_on_the_seed_alone() -> None:
    assert torch.equal(kernel_cost.points(50, 3), kernel_cost.points(50, 3))
    assert not torch.equal(kernel_cost.points(50, 3), kernel_cost.points(50, 4))
    assert kernel_cost.points(50, 3).shape == (50, 16)


def test_nystroem_captures_more_with_more_points() -> None:
    x, fresh = kernel_cost.points(400, 0).numpy(), kernel_cost.points(500, 1)
    few, many = (
        kernel_cost.captured(torch.from_numpy(kernel_cost.nystroem(x[:n], 4)(fresh.numpy())).double(), fresh)
        for n in (20, 400)
    )
    assert 0 < few < many < 1


def test_one_fit_reports_what_the_table_needs() -> None:
    row = kernel_cost.run("nystroem", 300, 4, 300)
    assert row["method"] == "nystroem" and row["n"] == 300
    assert 0 < row["captured"] < 1 and row["peak_mb"] > 10 and row["transform_points_per_processor_second"] > 0


def test_a_fit_that_does_not_fit_says_why() -> None:
    assert "failed" in kernel_cost.measure("nystroem", 300, 4, 300, memory_gb=0.001, minutes=1)
