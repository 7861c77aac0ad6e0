from __future__ import annotations

import torch

from eigenmap.kernels.reservoir import Reservoir


def filled(capacity: int, batches: list[int], seed: int, weights: torch.Tensor | None = None) -> Reservoir:
    reservoir, generator = Reservoir(capacity), torch.Generator().manual_seed(seed)
    numbers = torch.arange(float(sum(batches)))[:, None]
    weights = torch.ones(len(numbers)) if weights is None else weights
    for part, w in zip(numbers.split(batches), weights.split(batches), strict=True):
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


def test_while_there_is_room_points_stand_for_their_own_weight() -> None:
    weights = torch.tensor([0.5, 2.0, 3.0])
    reservoir = filled(3, [1, 2], 0, weights)
    order = reservoir.points.flatten().long()
    torch.testing.assert_close(reservoir.measure(), weights[order].double())


def test_the_sample_stands_for_all_points_without_bias() -> None:
    """5 of 12 points stay. On average over many samples, each point represents its own weight."""
    weights = torch.tensor([1.0, 1.0, 8.0, 0.1, 2.0, 1.0, 0.5, 3.0, 1.0, 20.0, 1.0, 1.0])
    found = torch.zeros(12, dtype=torch.float64)
    for seed in range(4000):
        reservoir = filled(5, [4, 3, 5], seed, weights)
        found[reservoir.points.flatten().long()] += reservoir.measure() / 4000
    torch.testing.assert_close(found, weights.double(), rtol=0.1, atol=0.1)
    equal = filled(5, [4, 8], 0).measure()
    torch.testing.assert_close(equal, equal[:1].expand(5))
