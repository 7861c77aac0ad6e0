"""Outputs that codes are made of."""

from __future__ import annotations

import torch

from eigenmap.networks import code_rows


def test_each_output_has_unit_mean_square_on_its_own() -> None:
    features, psi = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0, 6.0]])
    first, second = torch.tensor([[0.6, 0.8]]) * 2**0.5, torch.tensor([[0.0, 0.0, 1.0]]) * 3**0.5
    torch.testing.assert_close(code_rows(features, psi, "encoder"), first)
    torch.testing.assert_close(code_rows(features, psi, "projector"), second)
    torch.testing.assert_close(code_rows(features, psi, "both"), torch.cat([first, second], dim=1))
