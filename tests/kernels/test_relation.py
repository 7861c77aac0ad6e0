from __future__ import annotations

import torch

from eigenmap.kernels.relation import make_relation, one_row_each
from eigenmap.relations.kernel import rbf


def random(n: int, d: int = 2) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_order_and_repetition_do_not_matter() -> None:
    x = random(6)
    weights = torch.tensor([1.0, 3.0, 0.0, 2.0, 1.0, 1.0])
    repeated = x.repeat_interleave(weights.long(), 0)
    shuffled = torch.tensor([4, 2, 0, 5, 1, 3])
    first, second = one_row_each(repeated, None), one_row_each(x[shuffled], weights[shuffled])
    for one, two in zip(first, second, strict=True):
        assert torch.equal(one, two)
    assert len(first[0]) == 5 and float(first[1].sum()) == 8


def test_blocks_are_of_points_with_themselves_and_depend_on_the_step() -> None:
    relation = make_relation(random(100), None, "rbf", None, None, seed=1, edges=8)
    batches = relation.batches(torch.arange(50), 16, 1, torch.float32)
    x, x_plus, kernel = batches.batch(3)
    assert x is x_plus and x.shape == (16, 2) and x.dtype == torch.float32
    assert kernel is not None
    torch.testing.assert_close(kernel, rbf(x, x))
    assert torch.equal(batches.batch(3).x, x) and not torch.equal(batches.batch(4).x, x)
    known = {tuple(row) for row in random(100)[:50].float().tolist()}
    assert all(tuple(row) in known for row in x.tolist())


def test_weights_become_probabilities() -> None:
    weights = torch.tensor([1.0, 3.0, 4.0])
    relation = make_relation(random(3), weights, "rbf", None, None, seed=0, edges=2)
    torch.testing.assert_close(relation.p, weights.double() / 8)
    torch.testing.assert_close(relation.operator(torch.tensor([0, 1])).p, torch.tensor([0.25, 0.75]).double())
    assert not make_relation(random(3), torch.full((3,), 2.0), "rbf", None, None, seed=0, edges=2).weighted
