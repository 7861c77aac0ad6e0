from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from benchmarks.eigenfunctions import kernel_stream
from eigenmap.objectives import RitzTrace
from eigenmap.relations.kernel import rbf

STREAM = kernel_stream.Stream(k=4, total=500, block=64, blocks=2, width=16)


def test_blocks_of_the_kernel_are_those_of_the_library() -> None:
    x = kernel_stream.points(96, 0).view(3, 32, -1)
    expected = torch.stack([rbf(part, part, kernel_stream.LENGTH_SCALE) for part in x])
    torch.testing.assert_close(kernel_stream.gaussian_blocks(x, torch.float32), expected, atol=1e-5, rtol=0)


def test_a_step_on_one_block_has_the_gradient_of_the_objective() -> None:
    stream = kernel_stream.Stream(k=4, total=64, block=64, blocks=1, width=16)
    training = kernel_stream.Training(stream, "tf32", "cpu")
    x = kernel_stream.points(64, 5)

    def gradient(loss: torch.Tensor) -> torch.Tensor:
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(training.network.parameters()))])

    psi = training.psi(x)
    reference = RitzTrace(1e-4, centre=False)(psi, psi, rbf(x, x, kernel_stream.LENGTH_SCALE))
    (unit,) = kernel_stream.l2_normalise(training.psi(x))
    loss = -kernel_stream.ritz_quotient(*training._moments(x, unit), ridge=1e-4).trace()
    assert float(loss.detach()) == pytest.approx(float(reference.detach()), rel=1e-4)
    torch.testing.assert_close(gradient(loss), gradient(reference), atol=2e-4, rtol=1e-2)


def test_the_stream_counts_its_points_and_learns() -> None:
    training = kernel_stream.Training(STREAM, "bf16", "cpu")
    row = kernel_stream.train(training)
    assert row["points"] == 512 and row["steps"] == 4
    assert row["operations_per_s"] == pytest.approx(row["operations_per_point"] * row["points_per_s"])
    assert all(math.isfinite(loss) for loss in row["loss_first_last"])


def test_operations_are_those_of_the_products() -> None:
    training = kernel_stream.Training(STREAM, "tf32", "cpu")
    # 16 -> 16 -> 16 -> 4: forward and backward, no gradient of the points; 64 columns of the kernel; moments.
    network = 2 * (16 * 16 + 16 * 16 + 16 * 4) + 2 * (16 * 16 + 16 * 16 + 16 * 4) + 2 * (16 * 16 + 16 * 4)
    assert training.operations() == 128 * (network + 2 * 64 * (16 + 4) + 10 * 16)


def test_time_ends_the_stream() -> None:
    stream = kernel_stream.Stream(k=4, total=10**9, block=16, blocks=1, width=8, seconds=0.0)
    assert kernel_stream.train(kernel_stream.Training(stream, "tf32", "cpu"))["steps"] == kernel_stream.LOOK


def test_the_measurement_has_both_precisions_and_nystroem(capsys: pytest.CaptureFixture[str]) -> None:
    result: dict[str, Any] = kernel_stream.measure(STREAM, "cpu")
    assert [row["precision"] for row in result["streams"]] == ["bf16", "tf32"]
    for row in result["streams"]:
        assert row["share_of_matrix_product_peak"] == pytest.approx(row["operations_per_s"] / row["product_peak"])
        assert row["data_sheet_peak"] is None
    captured = [row["captured"] for row in result["transform"]]
    assert len(captured) == 4 and all(0 < share < 1 for share in captured)
    assert captured[-1] == max(captured)  # Nystroem in float32; four steps are no training
    assert "of the GPU's own" in capsys.readouterr().out
