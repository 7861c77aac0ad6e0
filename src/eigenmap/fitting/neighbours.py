r"""Choice of the way to use neighbours at inference, made at the end of a fit on held-out edges, without labels.

*Whether* to average: averaging keeps what the ends of edges share and cancels the rest. If the codes of the two ends of
a held-out edge, from features alone, share less than a quarter (their mean cosine in excess of that of random pairs),
averaging would cancel most of a code and is not used.

*How* to average: every way (`relations.propagation`) is applied over the training edges. Its score is the mean
reciprocal rank at which the propagated code of one end of a held-out edge finds the code of the other, from features
alone, among up to 2,000. The target is not averaged: if both codes were, they would share neighbours, and the smoothest
way would win. The mean cosine by which `concat` is judged does it no justice: a linear reader of it can weigh its
parts, and finds in them what S and S^2 would have told it. So `concat` is chosen unless another way is better by more
than 3 %. With few held-out edges this rank cannot separate averaging from features alone; hence it decides only how to
average, not whether.

docs/graphs.md compares other criteria.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad

from eigenmap.data.graphs.adjacency import Adjacency
from eigenmap.fitting.evidence import (
    AGREEMENT_PAIRS,
    TABLE_ENTRIES,
    TABLE_NODES,
    WALK_EXPONENTS,
    WALK_RIDGES,
    all_moments,
)
from eigenmap.networks import SparseRows
from eigenmap.relations.graph import GraphPairs, HeldOutEdges
from eigenmap.relations.neighbour_codes import NeighbourCodes
from eigenmap.relations.neighbourhood import Edges
from eigenmap.relations.propagation import Matrix, Propagation, Smoothing, unit
from eigenmap.spectrum import Alignment, Moments, best_alignment, unit_rms_rows

CANDIDATES = (
    Propagation("S"),
    Propagation("S2"),
    Propagation("concat"),
    *(Propagation("pagerank", restart) for restart in (0.05, 0.1, 0.2, 0.35, 0.5)),
)
"""Candidate ways to use neighbours."""
JUDGED_EDGES, OTHERS = 2_000, 2_000
"""Maximum number of held-out edges that ways are compared on, and of codes to find the right one among."""
SHARED = 0.25
"""Share of their codes that the two ends of a held-out edge must have in common for averaging to be considered."""
SLACK = 0.03
"""Share by which the score of `concat` may be below the best, and is chosen all the same."""
FEWEST_EDGES = 50
"""Minimum number of held-out edges for a choice."""
FANOUT = 32
"""Maximum number of neighbours followed per node, on a graph too large to propagate completely."""

Encode = Callable[[Tensor | SparseRows], Matrix]
Numbers = npt.NDArray[np.int64]


class Score(TypedDict):
    """Mean reciprocal rank of one way."""

    way: str
    restart: float
    rank: float


@dataclass(frozen=True)
class Sample:
    """Nodes of a graph with their training edges and held-out edges, numbered within the sample."""

    nodes: Tensor
    walk: Adjacency
    ends: Numbers


@dataclass(frozen=True)
class Choice:
    """Chosen way to use neighbours, and the scores behind it."""

    codes: NeighbourCodes
    shared: float | None = None
    scores: list[Score] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return the record of the choice that is stored in the model."""
        return {"chosen": self.codes.propagation.in_words, "shared": self.shared, "scores": self.scores}


def choose(
    encode: Encode, x: Tensor | SparseRows, pairs: GraphPairs, n_components: int, seed: int, wanted: Propagation | None
) -> Choice:
    """Choose the best way without labels, or use the one `wanted`, and align its codes.

    Neighbours are not used if that would make all codes equal.
    """
    nothing = Choice(NeighbourCodes())
    if pairs.held_out is None or not pairs.walk.symmetric or wanted == Propagation():
        return nothing
    sample = sample_graph(pairs, seed)
    if sample.ends.shape[1] < (FEWEST_EDGES if wanted is None else 1):
        return nothing
    own, smooth = encode(x[sample.nodes.to(x.device)]), Smoothing.of(sample.walk)
    share, scores = shared(own, sample.ends), list[Score]()
    if wanted is None:
        scores = judge(CANDIDATES, smooth, own, sample.ends, seed) if share >= SHARED else []
        wanted = best_of(scores)
    if wanted.way == "none":
        return Choice(NeighbourCodes(), share, scores)
    y = unit_rms_rows(torch.from_numpy(wanted.apply(smooth, own)))
    alignment = align(y, sample, pairs, n_components)
    return Choice(NeighbourCodes() if alignment is None else NeighbourCodes(wanted, alignment), share, scores)


def shared(own: Matrix, ends: Numbers) -> float:
    """Return the mean cosine of the codes of the two ends of an edge, rescaled so that random pairs have 0."""
    first, second = (unit(own[nodes]) for nodes in ends)
    random = float(first.mean(0, dtype=np.float64) @ second.mean(0, dtype=np.float64))
    return float((np.einsum("ij,ij->i", first, second).mean(dtype=np.float64) - random) / max(1 - random, 1e-12))


def best_of(scores: Sequence[Score]) -> Propagation:
    """Return the way with the best score, or `concat` if that is almost as good; without scores, features alone."""
    ways = [score for score in scores if score["way"] != "none"]
    if not ways:
        return Propagation()
    best = max(ways, key=lambda score: score["rank"])
    everything = [way for way in ways if way["way"] == "concat" and way["rank"] >= (1 - SLACK) * best["rank"]]
    chosen = everything[0] if everything else best
    return Propagation(chosen["way"], chosen["restart"])  # type: ignore[arg-type]


def judge(ways: Sequence[Propagation], smooth: Smoothing, own: Matrix, ends: Numbers, seed: int) -> list[Score]:
    """Return the scores of features alone and of the ways."""
    query, target, others = questions(ends, len(own), seed)
    scores = []
    for way in (Propagation(), *ways):
        ranks = reciprocal_ranks(way.apply(smooth, own)[query], own, target, others)
        scores.append(Score(way=way.way, restart=way.restart, rank=float(ranks.mean())))
    return scores


def questions(ends: Numbers, nodes: int, seed: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return ends of held-out edges, the ends to be found from them, and the nodes to find them among."""
    random: Any = np.random.default_rng(seed)
    ends = ends[:, random.permutation(ends.shape[1])[:JUDGED_EDGES]]
    query, target = np.concatenate([ends, ends[::-1]], axis=1)
    return query, target, random.permutation(nodes)[:OTHERS]


def reciprocal_ranks(y: Matrix, own: Matrix, target: Numbers, others: Numbers) -> npt.NDArray[np.float64]:
    """Return 1 / the rank of the code of `target` among `others` by cosine with y; ties count half.

    If y consists of several codes side by side, their cosines are averaged.
    """
    k = own.shape[1]
    query = unit(np.asarray(sum(unit(y[:, start : start + k]) for start in range(0, y.shape[1], k)), np.float32))
    gallery = unit(own)
    ranks = np.empty(len(query))
    for first in range(0, len(query), 512):
        rows = slice(first, first + 512)
        similarity = query[rows] @ gallery[others].T
        right = np.einsum("ij,ij->i", query[rows], gallery[target[rows]])[:, None]
        other = others[None, :] != target[rows, None]
        # The same product in another order may differ in the last digit; that counts as a tie.
        above = (similarity > right + 1e-6) & other
        ties = (np.abs(similarity - right) <= 1e-6) & other
        ranks[rows] = 1 + above.sum(1) + ties.sum(1) / 2
    return 1 / ranks


def align(y: Tensor, sample: Sample, pairs: GraphPairs, n_components: int) -> Alignment | None:
    """Order the features of propagated codes: rotation from training edges, choices from held-out ones.

    Return None if averaging makes all codes equal, as those of one feature easily become.
    """
    fit = all_moments(y, GraphPairs(sample.walk, 2, 0, hops=pairs.hops, start=pairs.start))
    if not bool(fit.about(fit.mean())[0].any()):
        return None
    first, second = (y[torch.from_numpy(ends)] for ends in sample.ends)
    found = best_alignment(
        fit,
        Moments(y.shape[1]).update(first, second),
        (first[:AGREEMENT_PAIRS], second[:AGREEMENT_PAIRS]),
        n_components=n_components,
        ridges=WALK_RIDGES,
        exponents=WALK_EXPONENTS,
        judge="agreement",
        own=False,
    )
    lack = n_components - found.n_components
    if lack == 0:
        return found
    # Averaged codes may have a lower rank than the codes themselves, but keep their length.
    return replace(
        found,
        rotation=pad(found.rotation, (0, lack)),
        eigenvalues=pad(found.eigenvalues, (0, lack), value=min(0.0, float(found.eigenvalues[-1]))),
        power=pad(found.power, (0, lack)),
    )


def sample_graph(pairs: GraphPairs, seed: int) -> Sample:
    """Return the graph without its held-out edges; of a large graph, the surroundings of some held-out edges."""
    walk, held_out = pairs.walk.to("cpu"), pairs.held_out
    assert held_out is not None
    ends = torch.stack([held_out.rows, held_out.columns]).cpu()
    keys = held_out.keys.cpu()
    if walk.n_nodes <= TABLE_NODES and walk.n_entries <= TABLE_ENTRIES:
        nodes = torch.arange(walk.n_nodes)
    else:
        ends = ends[:, torch.randperm(ends.shape[1], generator=torch.Generator().manual_seed(seed))[:JUDGED_EDGES]]
        nodes = surroundings(walk, torch.unique(ends), seed)
    rows, columns, weights = _edges_among(walk, nodes)
    kept = ~torch.isin(walk.keys(nodes[rows], nodes[columns]), keys)
    index = torch.stack([rows[kept], columns[kept]])
    local = Edges(index, None if weights is None else weights[kept]).walk(len(nodes))
    return Sample(nodes, local, torch.searchsorted(nodes, ends).numpy())


def training_edges(walk: Adjacency, held_out: HeldOutEdges | None) -> Adjacency:
    """Return the edges without the held-out ones."""
    if held_out is None:
        return walk
    rows, columns, weights = _edges_among(walk.to("cpu"), torch.arange(walk.n_nodes))
    kept = ~torch.isin(walk.keys(rows, columns), held_out.keys.cpu())
    return Edges(torch.stack([rows[kept], columns[kept]]), None if weights is None else weights[kept]).walk(
        walk.n_nodes
    )


def surroundings(walk: Adjacency, seeds: Tensor, seed: int) -> Tensor:
    """Expand nodes hop by hop, up to `FANOUT` random neighbours per node and `TABLE_NODES` nodes in total."""
    generator = torch.Generator().manual_seed(seed)
    found = frontier = seeds[walk.indptr.diff()[seeds] > 0]
    while len(frontier) and len(found) < TABLE_NODES:
        drawn = torch.rand(FANOUT, len(frontier), generator=generator, dtype=torch.float64)
        reached = torch.unique(torch.cat([walk.neighbour(frontier, uniform) for uniform in drawn]))
        new = reached[~torch.isin(reached, found)]
        frontier = new[torch.randperm(len(new), generator=generator)[: TABLE_NODES - len(found)]]
        found = torch.cat([found, frontier])
    every: Tensor = torch.unique(torch.cat([seeds, found]))
    return every


def _edges_among(walk: Adjacency, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the entries between these (sorted) nodes, numbered by their position."""
    starts, counts = walk.indptr[nodes], walk.indptr[nodes + 1] - walk.indptr[nodes]
    rows = torch.repeat_interleave(torch.arange(len(nodes)), counts)
    entries = torch.arange(len(rows)) + torch.repeat_interleave(starts - (counts.cumsum(0) - counts), counts)
    columns = walk.indices[entries].long()
    places = torch.searchsorted(nodes, columns).clamp_(max=len(nodes) - 1)
    inside = nodes[places] == columns
    if walk.cumulative is None:
        return rows[inside], places[inside], None
    weights = walk.weights(entries)
    inside &= weights > 0  # drop weights that rounding has reduced to zero
    return rows[inside], places[inside], weights[inside]
