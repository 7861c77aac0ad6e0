r"""Graph of longer walks: two nodes are related if a random walk leads from one to the other.

A walk takes one step, and after each step continues with probability a. Its ends are related by

    P_a = (1 - a) sum_{h>=0} a^h P^{h+1},      eigenvalues  mu (1 - a) / (1 - a mu)

with the eigenfunctions and the degree measure of P: personalised PageRank without its first visit [1]. Large
eigenvalues stay near 1, small and negative ones shrink, so that a network learns less from single edges and more from
neighbourhoods. If edges are few or noisy, codes improve, and held-out edges are no longer lost.

Walks that end where they began are left out, like self-loops, so the graph is P_a without its diagonal: its eigenvalues
are lower, slightly in large graphs and more where walks often return (for a ring of 40 nodes at a = 0.7, the seventh
eigenvalue after the constant's is 0.47 instead of 0.56).

P_a itself is dense. `diffuse` samples walks instead and returns their ends as the weighted edges of an ordinary graph:
`walks` from every edge in both directions, so that memory is that of the graph times `walks`.

    model = em.fit_graph("cora.npz", n_components=64, go_on=0.7)         # the same as
    model = em.fit_graph(diffuse(load_graph("cora.npz"), go_on=0.7), n_components=64)

[1] Gasteiger, Weissenberger, Günnemann, Diffusion Improves Graph Learning, NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.graph import Graph

_LONGEST = 100
"""Maximum number of steps of a walk; at a = 0.9 one in 40,000 reaches it."""

MOST = 500_000_000
"""Maximum number of walks; each takes about 80 bytes while the new edges are counted."""


def check_walks(go_on: object, walks: object) -> None:
    """Refuse settings of `diffuse` that are out of range."""
    if not isinstance(go_on, (int, float)) or not 0 <= go_on <= 0.9:
        raise EigenmapError(f"go_on must be a probability from 0 to 0.9, not {go_on!r}.")
    if isinstance(walks, bool) or not isinstance(walks, int) or walks < 1:
        raise EigenmapError(f"walks must be a whole number of at least 1, not {walks!r}.")


def diffuse(graph: Graph, go_on: float = 0.7, walks: int = 16, seed: int = 0) -> Graph:
    """Return the same nodes with weighted edges between the ends of random walks.

    Directions are ignored.

    Args:
        graph: nodes with features and edges.
        go_on: probability a of a further step; 0 gives the graph itself, up to weights.
        walks: number of walks from each edge, in each of its directions.
        seed: seed of the walks; the same graph and seed give the same edges on every device.

    Example:
        >>> ring = load_graph((np.eye(5), [[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]))
        >>> diffuse(ring, walks=2).edge_weight.sum() > 0
        tensor(True)

    """
    check_walks(go_on, walks)
    walk = graph.walk()
    if walk.n_entries * walks > MOST:
        raise EigenmapError(
            f"{walks} walks from each of {walk.n_entries:,} ends of edges would need about "
            f"{80 * walk.n_entries * walks / 1e9:,.0f} GB of memory; set walks to {MOST // walk.n_entries or 1} or "
            "less, or go_on to 0."
        )
    start, end = (nodes.repeat(walks) for nodes in walk.edges())
    if walk.cumulative is not None:
        # Entries of a weighted graph have unequal probabilities: draw them.
        generator = torch.Generator().manual_seed(seed + 1)
        uniform = torch.rand(2, len(start), generator=generator, dtype=torch.float64).to(walk.device)
        start = walk.centre(uniform[0])
        end = walk.neighbour(start, uniform[1])
    generator = torch.Generator().manual_seed(seed)
    moving = torch.arange(len(end), device=walk.device)
    for _ in range(_LONGEST):
        moving = moving[torch.rand(len(moving), generator=generator).to(walk.device) < go_on]
        if len(moving) == 0:
            break
        uniform = torch.rand(len(moving), generator=generator, dtype=torch.float64).to(walk.device)
        end[moving] = walk.neighbour(end[moving], uniform)
    apart = start != end
    edges = torch.stack([start[apart], end[apart]])
    weights = torch.ones(edges.shape[1], dtype=torch.float64, device=edges.device)
    return replace(graph, edge_index=edges, edge_weight=weights, adjacency=None)
