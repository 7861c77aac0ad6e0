"""Are the eigenvalues right? Learned spectra of real graphs against a sparse eigensolver, and two ways to sample them.

    python benchmarks/graphs.py spectrum FILE.npz [FILE.npz ...] [--indefinite] [--steps 1500] [--folder RESULTS]

On the largest connected component of each graph (and, with `--indefinite`, on a random bipartite ring, whose spectrum
is symmetric about zero), with one-hot features, for which the network is a table of free values: train on edges in the
degree measure, collect the exact moments over all edges, solve for the Ritz values.

- Relative error of 1 - mu_j for j = 2 ... 32 against ARPACK; mu_1 = 1 is the constant. Goal: below 10 %.
- Largest principal angle between the learned and the true space, cut at the largest gap between mu_9 and mu_33.
- Edge sampler against node blocks: the same functions (the true phi_2 ... phi_33), the same number of network
  evaluations a draw (a block's rows without an edge are dropped before the network sees them and do not count);
  relative bias and standard deviation of the diagonal of R, over many draws.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

import harness
from eigenmap import load_graph
from eigenmap.data import Adjacency, build_adjacency
from eigenmap.objectives import build
from eigenmap.relations import GraphPairs, NodeBlocks
from eigenmap.training import TrainingConfig, train

Array = npt.NDArray[np.float64]

MODES, MOST = 32, 40
"""Eigenvalues that are compared, and that are computed, so that a gap behind the last can be seen."""
COMPONENTS = 64
GOAL = 0.1


class Truth(NamedTuple):
    """A connected graph and its leading eigenpairs; functions have norm 1 in the degree measure."""

    walk: Adjacency
    W: csr_matrix
    mu: Array
    phi: Array

    @property
    def pi(self) -> Array:
        degrees = np.asarray(self.W.sum(1)).ravel()
        return np.asarray(degrees / degrees.sum())


class Table(nn.Module):
    """One-hot node -> psi, one free value a node and feature: a linear network on one-hot features."""

    def __init__(self, nodes: int, n_components: int) -> None:
        super().__init__()
        self.values = nn.Embedding(nodes, n_components)
        nn.init.normal_(self.values.weight, std=0.1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        psi = self.values(x)
        return psi, psi


def solve(walk: Adjacency) -> Truth:
    """The largest connected component of a graph and its eigenpairs by ARPACK."""
    n = walk.n_nodes
    W = csr_matrix((np.ones(walk.n_entries), walk.indices.numpy(), walk.indptr.numpy()), shape=(n, n))
    _, label = connected_components(W, directed=False)
    kept = label == np.bincount(label).argmax()
    W = W[kept][:, kept]
    degrees = np.asarray(W.sum(1)).ravel()
    root = diags(degrees**-0.5)
    start = np.random.default_rng(0).normal(size=len(degrees))  # ARPACK's own start is random
    mu, vectors = eigsh(root @ W @ root, k=min(MOST, len(degrees) - 2), which="LA", v0=start)
    order = np.argsort(-mu)
    phi = (root @ vectors)[:, order] * math.sqrt(degrees.sum())
    return Truth(build_adjacency(torch.from_numpy(np.stack(W.nonzero())), len(degrees)), W, mu[order], phi)


def bipartite_ring(side: int = 1000, degree: int = 10, width: float = 0.05, seed: int = 0) -> Adjacency:
    """Two sides of points on a circle, edges only across and only between close ones: mu and -mu both occur."""
    rng = np.random.default_rng(seed)
    first, second = np.sort(rng.random(side)), np.sort(rng.random(side))
    source = np.repeat(np.arange(side), degree)
    place = (first[source] + width * rng.normal(size=len(source))) % 1
    target = np.searchsorted(second, place) % side
    return build_adjacency(torch.from_numpy(np.stack([source, side + target])), 2 * side)


def learn(truth: Truth, steps: int, batch_size: int, lr: float, seed: int = 0) -> tuple[Array, float]:
    """The values psi of every node after training on edges, and the seconds it took."""
    torch.manual_seed(seed)
    network = Table(truth.walk.n_nodes, COMPONENTS)
    config = TrainingConfig(
        steps=steps, lr=lr, weight_decay=0.0, warmup_steps=steps // 20, seed=seed, log_every=steps, check_every=steps
    )
    began = time.perf_counter()
    train(network, GraphPairs(truth.walk, batch_size, seed), build("ritz-trace", ridge=1e-3), config)
    return network.values.weight.detach().cpu().double().numpy(), time.perf_counter() - began


def ritz(truth: Truth, psi: Array) -> tuple[Array, Array]:
    """Ritz values and functions of the span of psi and the constant, from the exact moments over all edges."""
    psi = np.column_stack([np.ones(len(psi)), psi])
    C = psi.T @ (truth.pi[:, None] * psi)
    A = psi.T @ (truth.W @ psi) / truth.W.sum()
    variance, basis = np.linalg.eigh(C)
    kept = variance > 1e-10 * variance[-1]
    whiten = basis[:, kept] / np.sqrt(variance[kept])
    mu, vectors = np.linalg.eigh(whiten.T @ A @ whiten)
    return mu[::-1], (psi @ whiten @ vectors)[:, ::-1]


def principal_angle(truth: Truth, functions: Array, modes: int) -> float:
    """Largest angle in degrees between the first `modes` learned functions and as many true ones."""
    overlap = truth.phi[:, :modes].T @ (truth.pi[:, None] * functions[:, :modes])
    smallest = np.linalg.svd(overlap, compute_uv=False)[-1]
    return math.degrees(math.acos(min(1.0, float(smallest))))


def compare(truth: Truth, steps: int, batch_size: int, lr: float) -> dict[str, Any]:
    psi, seconds = learn(truth, steps, batch_size, lr)
    mu, functions = ritz(truth, psi)
    true = truth.mu[1:MODES]
    errors = np.abs(mu[1:MODES] - true) / (1 - true)
    gaps = truth.mu[8:MODES] - truth.mu[9 : MODES + 1]
    cut = 9 + int(gaps.argmax())
    return {
        "nodes": truth.walk.n_nodes,
        "edges": truth.walk.n_entries // 2,
        "seconds": seconds,
        "edges_drawn": steps * batch_size,
        "true": truth.mu[:MODES].tolist(),
        "learned": mu[:MODES].tolist(),
        "relative_errors_of_1_minus_mu": errors.tolist(),
        "largest_relative_error": float(errors.max()),
        "worst_mode": int(errors.argmax()) + 2,
        "goal_met": bool(errors.max() < GOAL),
        "cut": cut,
        "gap": float(gaps.max()),
        "principal_angle_degrees": principal_angle(truth, functions, cut),
        "smallest_eigenvalue": float(eigsh(_normalised(truth), k=1, which="SA", return_eigenvectors=False)[0]),
    }


def _normalised(truth: Truth) -> csr_matrix:
    root = diags((truth.pi * truth.W.sum()) ** -0.5)
    return root @ truth.W @ root


# Edge sampler against node blocks


def edge_estimate(truth: Truth, phi: Tensor, batch_size: int, step: int) -> Tensor:
    """The diagonal of R from edges."""
    x, x_plus, _ = GraphPairs(truth.walk, batch_size).batch(step)
    return (phi[x] * phi[x_plus]).mean(0)


def block_estimates(truth: Truth, phi: Tensor, blocks: NodeBlocks, step: int) -> tuple[Tensor, Tensor, int]:
    """The diagonal of R from a node block: rescaled so that it is unbiased, and as published; also its evaluations."""
    n, scale = truth.walk.n_nodes, torch.from_numpy(truth.pi).sqrt()[:, None]
    u = scale * phi  # features of the normalised adjacency: unit norm over all nodes
    x, x_plus, kernel = blocks.batch(step)
    assert kernel is not None
    K = kernel.double() / math.sqrt(kernel.shape[0] * kernel.shape[1])
    product = (u[x] * torch.sparse.mm(K, u[x_plus])).sum(0)
    unbiased = product * (n / blocks.batch_size) ** 2
    norms = (torch.cat([u[x], u[x_plus]]).square().mean(0) * math.sqrt(len(x) * len(x_plus))).clamp(min=1e-300)
    return unbiased, product / norms, len(x) + len(x_plus)


def samplers(truth: Truth, batch_size: int, draws: int) -> dict[str, Any]:
    """Relative bias and standard deviation of diag R; edges get as many evaluations as blocks of this size need."""
    phi = torch.from_numpy(truth.phi[:, 1 : MODES + 1].copy())
    mu = torch.from_numpy(truth.mu[1 : MODES + 1].copy())
    blocks = NodeBlocks(truth.walk, batch_size)
    all_unbiased, all_published, evaluations = zip(
        *(block_estimates(truth, phi, blocks, step) for step in range(draws)), strict=True
    )
    unbiased, published = torch.stack(all_unbiased), torch.stack(all_published)
    pairs = max(1, round(sum(evaluations) / draws / 2))
    edges = torch.stack([edge_estimate(truth, phi, pairs, step) for step in range(draws)])
    estimates = {"edges": edges, "node blocks, rescaled": unbiased, "node blocks, as published": published}
    return {
        "nodes_a_side": batch_size,
        "share_of_the_nodes": batch_size / truth.walk.n_nodes,
        "evaluations_a_draw": 2 * pairs,
        "draws": draws,
        "functions": "true phi_2 ... phi_33",
        **{
            name: {
                "relative_bias": float((found.mean(0) / mu - 1).mean()),
                "relative_deviation": float((found.std(0) / mu).mean()),
            }
            for name, found in estimates.items()
        },
    }


def spectrum(arguments: argparse.Namespace) -> None:
    graphs = {path.stem: load_graph(path).walk() for path in arguments.files}
    if arguments.indefinite:
        graphs["bipartite-ring"] = bipartite_ring()
    if not graphs:
        raise SystemExit("Give at least one graph file, or --indefinite.")
    for name, walk in graphs.items():
        truth = solve(walk)
        found = compare(truth, arguments.steps, arguments.batch_size, arguments.lr)
        block = max(16, truth.walk.n_nodes // 32)
        result = {
            "protocol": "largest component, one-hot features, table of free values, ritz-trace, exact moments; "
            f"{arguments.steps} steps of {arguments.batch_size} edges, lr {arguments.lr}, k = {COMPONENTS}, seed 0",
            **harness.environment(),
            "graph": name,
            "spectrum": found,
            "samplers": samplers(truth, block, arguments.draws),
        }
        harness.write(arguments.folder / f"graphs-spectrum-{name}.json", result)
        _print(name, found, result["samplers"])


def _print(name: str, found: dict[str, Any], of: dict[str, Any]) -> None:
    errors = found["relative_errors_of_1_minus_mu"]
    print(
        f"{name}: {found['nodes']:,} nodes, {found['edges']:,} edges, smallest eigenvalue "
        f"{found['smallest_eigenvalue']:.3f}; {found['seconds']:.0f} s"
    )
    print(
        f"  relative error of 1 - mu_j, j = 2 ... {MODES}: largest {found['largest_relative_error']:.3f} "
        f"(j = {found['worst_mode']}), median {float(np.median(errors)):.3f}; goal {GOAL}: "
        f"{'met' if found['goal_met'] else 'not met'}"
    )
    print(
        f"  largest principal angle, cut at {found['cut']} (gap {found['gap']:.4f}): "
        f"{found['principal_angle_degrees']:.1f} degrees"
    )
    print(
        f"  diag R, {of['evaluations_a_draw']:,} evaluations a draw, blocks of {of['share_of_the_nodes']:.1%} of nodes:"
    )
    for sampler in ("edges", "node blocks, rescaled", "node blocks, as published"):
        row = of[sampler]
        print(f"    {sampler:26s} bias {row['relative_bias']:+8.1%}  deviation {row['relative_deviation']:7.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("spectrum", help="learned eigenvalues against a sparse eigensolver")
    verb.add_argument("files", nargs="*", type=Path, metavar="FILE", help="graph files, see docs/graphs.md")
    verb.add_argument("--indefinite", action="store_true", help="also a random bipartite ring")
    verb.add_argument("--steps", type=int, default=1500)
    verb.add_argument("--batch-size", type=int, default=4096)
    verb.add_argument("--lr", type=float, default=0.03)
    verb.add_argument("--draws", type=int, default=1000)
    verb.add_argument("--folder", type=Path, default=harness.RESULTS, help="where the results go")
    verb.set_defaults(run=spectrum)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
