"""Moments of all walks of a graph against those of many drawn ones; what a fit says of its alignment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from eigenmap.data import build_adjacency
from eigenmap.fitting.align import best_output
from eigenmap.fitting.evidence import all_moments, pair_moments
from eigenmap.relations.graph import GraphPairs, hold_out_edges
from eigenmap.spectrum import Alignment

NODES = 30


def walk(weighted: bool, directed: str) -> Any:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES - 2, (2, 120), generator=generator)  # two nodes have no edge
    weights = torch.rand(120, generator=generator).double() + 0.5 if weighted else None
    return build_adjacency(edges, NODES, weights, directed)  # type: ignore[arg-type]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("directed", "settings"),
    [
        ("symmetrise", {}),
        ("symmetrise", {"hops": 2}),
        ("symmetrise", {"start": "uniform"}),
        ("symmetrise", {"start": "balanced"}),
        ("symmetrise", {"start": "uniform", "hops": 2}),
        ("bipartite", {}),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_all_walks_are_the_limit_of_drawn_ones(
    weighted: bool, directed: str, settings: dict[str, Any], share: float
) -> None:
    adjacency = walk(weighted, directed)
    held_out = hold_out_edges(adjacency, share)
    pairs = GraphPairs(adjacency, 64, held_out=held_out, **settings)
    psi = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(1))
    exact = all_moments(psi, pairs)
    draws = 400_000
    drawn, _ = pair_moments(
        lambda rows: (psi[rows], psi[rows]), pairs.pairs(torch.Generator().manual_seed(2), 50_000, draws)
    )
    found = drawn["encoder"]
    m = found.mean()
    for expected, estimate in zip(exact.about(m), found.about(m), strict=True):
        # Values of order 3 are averaged; one walk in a thousand found no way around held-out edges.
        torch.testing.assert_close(estimate, expected, atol=0.03 if share else 0.02, rtol=0)
    torch.testing.assert_close(exact.mean(), m, atol=0.02, rtol=0)
    assert float(exact.within[-1, -1]) == pytest.approx(1) == float(exact.across[-1, -1])


def test_a_fit_that_found_next_to_nothing_says_what_to_try() -> None:
    """A training of a few steps is the most frequent reason."""
    small, zero = torch.tensor([0.1, 0.05]), torch.zeros(2)
    said: list[str] = []
    nothing = Alignment(mean=zero, rotation=torch.eye(2), eigenvalues=small, power=small, quality=0.1)
    best_output({"encoder": nothing}, 2, said.append)
    assert len(said) == 1 and "0.1" in said[0] and "Train longer" in said[0]
    best_output({"encoder": replace(nothing, eigenvalues=5 * small)}, 2, said.append)
    assert len(said) == 1
