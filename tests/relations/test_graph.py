from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenmap import EigenmapError
from eigenmap.data import Adjacency, build_adjacency
from eigenmap.objectives import build
from eigenmap.relations import GraphPairs, NodeBlocks, hold_out_edges

# Two components, a hub, an isolated node (7).
EDGES = torch.tensor([[0, 0, 0, 0, 1, 5], [1, 2, 3, 4, 2, 6]])
N = 8


def walk(weighted: bool = False) -> Adjacency:
    return build_adjacency(EDGES, N, torch.arange(1.0, 7.0) if weighted else None)


def matrix(a: Adjacency) -> Tensor:
    W = torch.zeros(a.n_nodes, a.n_nodes, dtype=torch.float64)
    rows, columns = a.edges()
    W[rows, columns] = a.weights(torch.arange(a.n_entries))
    return W


def step_matrix(W: Tensor) -> Tensor:
    return W / W.sum(1, keepdim=True).clamp(min=1e-300)


def frequencies(pairs: GraphPairs, steps: int = 40) -> Tensor:
    """How often each pair of nodes is drawn."""
    counts = torch.zeros(N * N, dtype=torch.float64)
    for step in range(steps):
        x, x_plus, kernel = pairs.batch(step)
        assert kernel is None and x.dtype == x_plus.dtype == torch.int64
        counts += torch.bincount(x * N + x_plus, minlength=N * N)
    return (counts / counts.sum()).view(N, N)


def assert_drawn_from(pairs: GraphPairs, expected: Tensor, draws: int = 40 * 5000) -> None:
    found = frequencies(pairs)
    assert bool((found[expected == 0] == 0).all())
    error = (found - expected).abs() / (expected / draws).sqrt().clamp(min=1e-9)
    assert float(error[expected > 0].max()) < 5
    assert float(expected.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_an_edge_is_drawn_by_its_weight_in_both_directions(weighted: bool) -> None:
    a = walk(weighted)
    W = matrix(a)
    assert_drawn_from(GraphPairs(a, 5000), W / W.sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_two_hops_are_the_squared_walk(weighted: bool) -> None:
    a = walk(weighted)
    W = matrix(a)
    pi = W.sum(1) / W.sum()
    P = step_matrix(W)
    assert_drawn_from(GraphPairs(a, 5000, hops=2), pi[:, None] * (P @ P))


def test_lazy_walks_and_teleports() -> None:
    W = matrix(walk())
    pi, P = W.sum(1) / W.sum(), step_matrix(W)
    expected = pi[:, None] * (0.7 * P + 0.3 * pi)
    assert_drawn_from(GraphPairs(walk(), 5000, teleport=0.3), expected)
    assert_drawn_from(GraphPairs(walk(), 5000, lazy=0.4), pi[:, None] * (0.6 * P + 0.4 * torch.eye(N)))
    both = GraphPairs(walk(), 5000, teleport=0.3, lazy=0.4)
    assert_drawn_from(both, pi[:, None] * (0.3 * P + 0.3 * pi + 0.4 * torch.eye(N)))


def test_the_constant_is_the_only_function_of_eigenvalue_one_under_teleport() -> None:
    W = matrix(walk())[:7, :7]
    pi, P = W.sum(1) / W.sum(), step_matrix(W)

    def eigenvalues(T: Tensor) -> Tensor:
        root = pi.sqrt()
        return torch.linalg.eigvalsh(root[:, None] * T / root).flip(0)

    plain, shifted = eigenvalues(P), eigenvalues(0.98 * P + 0.02 * pi)
    torch.testing.assert_close(plain[:2], torch.ones(2, dtype=torch.float64))  # one for each component
    assert float(shifted[0]) == pytest.approx(1.0)
    torch.testing.assert_close(shifted[1:], 0.98 * plain[1:])


def test_a_uniform_start_knows_no_hubs_and_no_isolated_nodes() -> None:
    P = step_matrix(matrix(walk()))
    start = torch.tensor([1.0] * 7 + [0.0], dtype=torch.float64) / 7
    assert_drawn_from(GraphPairs(walk(), 5000, start="uniform"), start[:, None] * P)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hops", [1, 2])
def test_a_balanced_start_has_the_expectations_of_the_degree_measure(weighted: bool, hops: int) -> None:
    a = walk(weighted)
    W = matrix(a)
    pi, P = W.sum(1) / W.sum(), step_matrix(W)
    expected = pi[:, None] * (P if hops == 1 else P @ P)
    pairs = GraphPairs(a, 5000, hops=hops, start="balanced")
    found, drawn = torch.zeros(N * N, dtype=torch.float64), torch.zeros(N)
    for step in range(40):
        x, x_plus, weights = pairs.batch(step)
        assert weights is not None and float(weights.min()) > 0 and float(weights.max()) <= 10
        found += torch.bincount(x * N + x_plus, weights.double(), minlength=N * N)
        drawn += torch.bincount(x, minlength=N)
    error = (found.view(N, N) / 200_000 - expected).abs() / (3 * expected / 200_000).sqrt().clamp(min=1e-9)
    assert float(error[expected > 0].max()) < 5 and bool((found.view(N, N)[expected == 0] == 0).all())
    if hops == 1:
        start = 0.1 * pi + 0.9 * (pi > 0) / (pi > 0).sum()
        torch.testing.assert_close(drawn.double() / 200_000, start, atol=0.005, rtol=0)
    parts = [GraphPairs(a, 10, start="balanced", rank=rank, world_size=2).batch(7) for rank in (0, 1)]
    whole = GraphPairs(a, 10, start="balanced").batch(7)
    for place in range(3):
        assert torch.equal(torch.cat([part[place] for part in parts]), whole[place])


def test_a_directed_graph_as_bipartite_pairs_the_sources_of_a_target() -> None:
    edges = torch.tensor([[0, 1, 2, 0, 3], [5, 5, 5, 6, 6]])
    a = build_adjacency(edges, N, directed="bipartite")
    M = torch.zeros(N, N, dtype=torch.float64)
    M[edges[0], edges[1]] = 1
    into = M.sum(0)
    expected = (M / into.clamp(min=1) @ M.T) / M.sum()  # target by its in-degree, then two sources of it
    pairs = GraphPairs(a, 5000)
    assert pairs.hops == 2
    assert_drawn_from(pairs, expected)
    out = M.sum(1) / M.sum()
    assert_drawn_from(GraphPairs(a, 5000, teleport=0.5), 0.5 * expected + 0.5 * torch.outer(out, out))
    # Its eigenvalues are the squared singular values of the normalised adjacency.
    sources = out > 0
    S = expected[sources][:, sources] / (out[sources, None] * out[sources]).sqrt()
    B = M / (M.sum(1, keepdim=True) * into).sqrt().clamp(min=1e-300)
    torch.testing.assert_close(
        torch.linalg.eigvalsh(S).flip(0)[:2], torch.linalg.svdvals(B)[:2].square(), atol=1e-12, rtol=1e-12
    )


def test_teleports_of_a_weighted_bipartite_graph_go_by_weight() -> None:
    edges, weights = torch.tensor([[0, 1, 2, 2, 3], [4, 4, 4, 5, 5]]), torch.tensor([8.0, 1.0, 2.0, 0.5, 4.0])
    a = build_adjacency(edges, N, weights, directed="bipartite")
    W = torch.zeros(N, N, dtype=torch.float64)
    W[edges[1], edges[0]] = weights.double()  # a row for each target
    sources = W.sum(0) / W.sum()
    cited_together = torch.einsum("t,ta,tb->ab", W.sum(1) / W.sum(), step_matrix(W), step_matrix(W))
    expected = 0.5 * cited_together + 0.5 * torch.outer(sources, sources)
    assert_drawn_from(GraphPairs(a, 5000, teleport=0.5), expected)


def test_moments_of_all_functions_have_the_eigenvalues_of_the_normalised_adjacency() -> None:
    W = matrix(walk(weighted=True))[:7, :7]
    d = W.sum(1)
    truth = torch.linalg.eigvalsh(W / (d[:, None] * d).sqrt())
    found = frequencies(GraphPairs(walk(weighted=True), 5000))[:7, :7]
    C = (found.sum(0) + found.sum(1)) / 2
    R = (found + found.T) / 2 / (C[:, None] * C).sqrt()
    torch.testing.assert_close(torch.linalg.eigvalsh(R), truth, atol=0.02, rtol=0)


def ring(n: int = 60, chords: int = 40, seed: int = 0) -> Adjacency:
    generator = torch.Generator().manual_seed(seed)
    around = torch.stack([torch.arange(n), torch.arange(1, n + 1) % n])
    return build_adjacency(torch.cat([around, torch.randint(n, (2, chords), generator=generator)], 1), n)


@pytest.mark.parametrize("hops", [1, 2])
def test_held_out_edges_are_never_walked_on_but_judged_on(hops: int) -> None:
    a = ring()
    held = hold_out_edges(a, 0.2, seed=3)
    assert held is not None
    keys = set(held.keys.tolist())
    assert 0.1 * a.n_entries / 2 < len(keys) <= 0.2 * a.n_entries / 2
    pairs = GraphPairs(a, 2000, hops=hops, held_out=held)
    W = matrix(a)
    for row, column in zip(held.rows.tolist(), held.columns.tolist(), strict=True):
        assert W[row, column] == 1
    for row, column in zip(held.rows, held.columns, strict=True):
        W[row, column] = W[column, row] = 0
    step = W if hops == 1 else W @ W
    x, x_plus, _ = pairs.batch(0)
    linked = step[x, x_plus] > 0
    assert float(linked.double().mean()) > 0.99  # the rest is teleported
    drawn = a.keys(x, x_plus)[linked]
    if hops == 1:
        assert not keys & set(drawn.tolist())
    judged = list(pairs.held_out_pairs(torch.Generator().manual_seed(0), 7, count=1))
    if hops == 1:
        assert {int(key) for batch in judged for key in a.keys(batch.x, batch.x_plus)} == keys
    assert sum(len(batch.x) for batch in judged) == len(keys)


def test_walks_that_avoid_held_out_edges_are_uniform_on_the_rest() -> None:
    held = hold_out_edges(walk(), 0.5, seed=1)
    assert held is not None
    W = matrix(walk())
    W[held.rows, held.columns] = W[held.columns, held.rows] = 0
    found = frequencies(GraphPairs(walk(), 5000, held_out=held))
    # What is left after four rounds becomes a teleport, so compare on the edges.
    on_edges = found[W > 0]
    assert float(on_edges.std() / on_edges.mean()) < 0.02


@pytest.mark.parametrize("weights", [None, [1.0, 100.0]])
@pytest.mark.parametrize("hops", [1, 2])
def test_hardly_a_walk_is_left_over_held_out_edges_however_many_there_are(
    hops: int, weights: list[float] | None
) -> None:
    around = torch.stack([torch.arange(60), torch.arange(1, 61) % 60])
    heavy = None if weights is None else torch.tensor(weights, dtype=torch.float64).repeat(30)
    a = build_adjacency(around, 60, heavy)
    pairs = GraphPairs(a, 20_000, hops=hops, held_out=hold_out_edges(a, 0.5))
    m, P = pairs.transitions()
    expected = m[:, None] * P.to_dense() if hops == 1 else P.to_dense().T @ (m[:, None] * P.to_dense())
    x, x_plus, _ = pairs.batch(0)
    assert float((expected[x, x_plus] == 0).double().mean()) < 1e-3  # those were teleported
    counts = torch.bincount(x * 60 + x_plus, minlength=3600).view(60, 60)
    error = (counts / 20_000 - expected).abs() / (expected / 20_000).sqrt().clamp(min=1e-9)
    assert float(error[expected > 0].max()) < 5


def test_held_out_edges_of_a_weighted_graph_keep_their_weights() -> None:
    held = hold_out_edges(walk(weighted=True), 0.5, seed=0)
    assert held is not None and held.weights is not None
    torch.testing.assert_close(held.weights, matrix(walk(weighted=True))[held.rows, held.columns])
    pairs = GraphPairs(walk(weighted=True), 4, held_out=held)
    (batch,) = pairs.held_out_pairs(torch.Generator(), 100, count=1)
    torch.testing.assert_close(batch.kernel, held.weights)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_as_many_edges_are_held_out_as_was_asked_for(share: float) -> None:
    edges = ring()
    held = hold_out_edges(edges, share, seed=1)
    assert held is not None
    assert len(held.keys) == len(held.keys.unique()) == int(edges.n_entries // 2 * share)
    torch.testing.assert_close(held.keys, edges.keys(held.rows, held.columns))


def test_nothing_can_be_held_out_of_little_or_by_a_share_of_nought() -> None:
    assert hold_out_edges(walk(), 0.0) is None
    assert hold_out_edges(walk(), 0.1) is None
    assert len(hold_out_edges(ring(), 0.5, maximum=3).keys) == 3  # type: ignore[union-attr]
    with pytest.raises(EigenmapError, match=r"0\.5"):
        hold_out_edges(walk(), 0.9)


def test_without_held_out_edges_walks_over_the_same_edges_are_judged_on() -> None:
    batches = list(GraphPairs(walk(), 8, teleport=0.5).held_out_pairs(torch.Generator().manual_seed(0), 64, count=100))
    assert [len(batch.x) for batch in batches] == [64, 36]
    assert all(bool((matrix(walk())[batch.x, batch.x_plus] > 0).all()) for batch in batches)


def test_a_batch_depends_on_seed_and_step_alone_and_processes_share_it() -> None:
    whole = GraphPairs(ring(), 12, seed=5, teleport=0.1)
    parts = [GraphPairs(ring(), 12, seed=5, teleport=0.1, rank=rank, world_size=3) for rank in range(3)]
    whole.batch(0)
    for step in (7, 3):
        batch = whole.batch(step)
        joined = [torch.cat(side) for side in zip(*(part.batch(step)[:2] for part in parts), strict=True)]
        assert torch.equal(batch.x, joined[0]) and torch.equal(batch.x_plus, joined[1])
    assert not torch.equal(whole.batch(3).x, whole.batch(4).x)
    assert not torch.equal(whole.batch(3).x, GraphPairs(ring(), 12, seed=6, teleport=0.1).batch(3).x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch size"),
        ({"batch_size": 3, "world_size": 2}, "processes"),
        ({"hops": 3}, "hops.*1.*2"),
        ({"start": "hub"}, "start"),
        ({"teleport": 1.0}, "teleport.*probability"),
        ({"lazy": -0.1}, "lazy.*probability"),
        ({"lazy": 0.6, "teleport": 0.6}, r"together.*1.*1\.2"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        GraphPairs(walk(), **{"batch_size": 4, **options})


# The paper's node blocks


def reference_block(a: Adjacency, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The block by loops: rows and columns with an edge, and the normalised adjacency between them."""
    W = matrix(a)
    d = W.sum(1)
    kept_rows = [i for i in rows.tolist() if any(W[i, j] > 0 for j in columns.tolist())]
    kept_columns = [j for j in columns.tolist() if any(W[i, j] > 0 for i in rows.tolist())]
    K = torch.tensor([[float(W[i, j] / (d[i] * d[j]).sqrt()) for j in kept_columns] for i in kept_rows])
    return torch.tensor(kept_rows), torch.tensor(kept_columns), K


@pytest.mark.parametrize("weighted", [False, True])
def test_a_block_is_that_of_the_normalised_adjacency_without_empty_rows(weighted: bool) -> None:
    a = walk(weighted)
    blocks = NodeBlocks(a, batch_size=4, seed=2)
    assert blocks.steps_per_epoch == 4
    whole = 0
    for step in range(8):
        x, x_plus, kernel = blocks.batch(step)
        rows, columns, K = reference_block(a, *blocks.nodes(step))
        assert kernel is not None
        if min(len(rows), len(columns)) < 2:
            whole += 1
            assert len(x) == len(x_plus) == 4
            continue
        assert x.tolist() == rows.tolist() and x_plus.tolist() == columns.tolist()
        torch.testing.assert_close(
            kernel.to_dense(), K * 2 * K.shape[0] * K.shape[1] / sum(K.shape), rtol=1e-5, atol=1e-6
        )
    assert whole < 8


def test_an_epoch_of_blocks_sees_every_edge_once() -> None:
    a = ring()
    blocks = NodeBlocks(a, batch_size=20, seed=0)
    seen: list[int] = []
    for step in range(blocks.steps_per_epoch):
        x, x_plus, kernel = blocks.batch(step)
        assert kernel is not None
        r, c = kernel.indices()
        seen += (x[r] * 60 + x_plus[c]).tolist()
    rows, columns = a.edges()
    assert sorted(seen) == sorted((rows * 60 + columns).tolist())
    assert not torch.equal(blocks.nodes(0)[0], blocks.nodes(blocks.steps_per_epoch)[0])


def test_what_is_left_over_is_dropped_and_blocks_are_never_larger_than_the_graph() -> None:
    assert NodeBlocks(ring(), batch_size=25).blocks == 2
    assert NodeBlocks(ring(), batch_size=1000).batch_size == 60


def published_loss(psi: Tensor, psi_plus: Tensor, A: Tensor, alpha: float = 0.3, t: float = 10.0) -> float:
    """As the published code has it, by loops in float64: both parts of a feature share one norm, products are t R."""
    n, m, k = len(psi), len(psi_plus), psi.shape[1]
    u, v = psi.tolist(), psi_plus.tolist()
    for j in range(k):
        norm = np.sqrt(sum(u[b][j] ** 2 for b in range(n)) + sum(v[c][j] ** 2 for c in range(m)))
        for part in (u, v):
            for row in part:
                row[j] *= np.sqrt(2 * t) / norm
    M = np.zeros((k, k))
    for i, j, b, c in product(range(k), range(k), range(n), range(m)):
        M[i, j] += u[b][i] * float(A[b, c]) * v[c][j]
    trace = sum(M[j, j] for j in range(k))
    penalty = sum(M[i, j] ** 2 + M[j, i] ** 2 for j in range(k) for i in range(j))
    return float((-2 * trace + alpha * penalty) / k)


@pytest.mark.parametrize("batch_size", [30, 13])
def test_the_published_loss_is_that_of_alpha_three_and_scale_twenty(batch_size: int) -> None:
    """Blocks that lost more rows than columns included: there the two parts of a feature weigh by their numbers."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    ring60 = ring()
    blocks = NodeBlocks(ring60, batch_size, seed=1)
    unequal = 0
    for step in range(6):
        x, x_plus, kernel = blocks.batch(step)
        rows, columns, A = reference_block(ring60, *blocks.nodes(step))
        if min(len(rows), len(columns)) < 2:
            continue
        assert x.tolist() == rows.tolist() and x_plus.tolist() == columns.tolist()
        unequal += len(x) != len(x_plus)
        expected = published_loss(table[x], table[x_plus] * 1.7, A.double())  # two parts of different size
        found = build("neuralef-unordered", alpha=3.0, scale=20.0)(table[x], table[x_plus] * 1.7, kernel)
        assert float(found) == pytest.approx(expected, rel=1e-6, abs=1e-6)  # the kernel is float32
    assert unequal or batch_size == 30


def test_blocks_need_a_symmetric_graph_and_two_nodes() -> None:
    with pytest.raises(EigenmapError, match="symmetrise"):
        NodeBlocks(build_adjacency(EDGES, N, directed="bipartite"), 4)
    with pytest.raises(EigenmapError, match="2 nodes"):
        NodeBlocks(walk(), 1)
