from __future__ import annotations

import torch

from eigenmap.relations import Batch


def test_a_batch_is_aligned_pairs_unless_it_has_a_kernel() -> None:
    x, x_plus, kernel = Batch(torch.zeros(2, 3), torch.ones(2, 3))
    assert torch.equal(x_plus - x, torch.ones(2, 3))
    assert kernel is None
    assert torch.equal(Batch(x, x_plus, kernel=torch.eye(2)).kernel, torch.eye(2))
