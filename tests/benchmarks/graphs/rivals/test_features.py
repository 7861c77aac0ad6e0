from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from benchmarks.graphs.rivals.features import FirstLayer, hide, mask_columns, rows, standardised
from eigenmap.networks import SparseRows


@pytest.fixture
def parts() -> tuple[SparseRows, torch.Tensor, torch.Tensor]:
    matrix = sparse.random(9, 20, 0.3, random_state=np.random.default_rng(0), dtype=np.float32)
    dense = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    return SparseRows.of(matrix), dense, torch.cat([torch.from_numpy(matrix.toarray()), dense], 1)


def test_the_first_layer_is_linear_in_the_joined_columns(parts):
    sparse_part, dense_part, joined = parts
    torch.manual_seed(0)
    layer = FirstLayer([20, 4], 7)
    plain = torch.nn.functional.linear(joined, torch.cat(list(layer.weights)).T, layer.bias)
    out = layer((sparse_part, dense_part))
    torch.testing.assert_close(out, plain)
    gradients = [torch.autograd.grad(value.square().sum(), list(layer.weights)) for value in (out, plain)]
    for ours, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, expected)


def test_rows_of_parts(parts):
    sparse_part, dense_part, joined = parts
    nodes = torch.tensor([8, 0, 0])
    some = rows((sparse_part, dense_part), nodes)
    torch.testing.assert_close(torch.cat([some[0].dense(), some[1]], 1), joined[nodes])


def test_dropout_keeps_the_mean_of_sparse_entries_and_masks_whole_columns(parts):
    sparse_part, _, joined = parts
    torch.manual_seed(0)
    mean = torch.stack([hide(sparse_part, 0.5).dense() for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, joined[:, :20], atol=0.1, rtol=0.1)
    for part in (sparse_part, joined[:, :20]):
        masked = mask_columns(part, 0.5)
        found = masked.dense() if isinstance(masked, SparseRows) else masked
        kept = found.abs().sum(0) > 0
        torch.testing.assert_close(found[:, kept], joined[:, :20][:, kept])
        assert 0 < int(kept.sum()) < 20


def test_codes_are_standardised_over_the_nodes_that_were_seen():
    codes = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 5 + 2
    seen = standardised(codes, torch.arange(20))[:20]
    torch.testing.assert_close(seen.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.std(0), torch.ones(3))
    assert standardised(torch.ones(5, 2)).abs().max() == 0
