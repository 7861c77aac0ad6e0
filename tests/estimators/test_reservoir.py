from __future__ import annotations

import torch

from eigenmap.estimators.reservoir import Reservoir


def filled(capacity: int, batches: list[int], seed: int, weights: torch.Tensor | None = None) -> Reservoir:
    reservoir, generator = Reservoir(capacity), torch.Generator().manual_seed(seed)
    numbers = torch.arange(float(sum(batches)))[:, None]
    parts = [None] * len(batches) if weights is None else list(weights.split(batches))
    for part, w in zip(numbers.split(batches), parts, strict=True):
        reservoir.add(part, w, generator)
    return reservoir


def test_holds_everything_while_there_is_room() -> None:
    reservoir = filled(10, [3, 4], seed=0)
    assert sorted(reservoir.points.flatten().tolist()) == list(range(7))
    assert len(reservoir) == reservoir.seen == 7


def test_every_point_stays_with_equal_probability_whenever_it_came() -> None:
    counts = torch.zeros(20)
    for seed in range(2000):
        reservoir = filled(5, [3, 10, 7], seed)
        assert len(reservoir) == 5
        counts[reservoir.points.flatten().long()] += 1
    # 500 expected each; five standard deviations of a binomial with p = 1/4 are 97.
    assert float((counts - 500).abs().max()) < 97


def test_weights_are_probabilities_of_being_first() -> None:
    weights = torch.tensor([1.0, 0.0, 3.0, 6.0])
    counts = torch.zeros(4)
    for seed in range(2000):
        counts[filled(1, [2, 2], seed, weights).points.flatten().long()] += 1
    assert counts[1] == 0
    torch.testing.assert_close(counts / 2000, weights / 10, rtol=0, atol=0.05)
