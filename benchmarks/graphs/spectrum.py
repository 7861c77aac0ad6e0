"""Learned spectra of real graphs compared with a sparse eigensolver, and two ways to sample graphs.

    python -m benchmarks.graphs.spectrum spectrum FILE.npz [FILE.npz ...] [--indefinite] [--steps 1000]

On the largest connected component of each graph (and, with `--indefinite`, on a random bipartite ring, whose spectrum
is symmetric about zero), with one-hot features, for which the network is a table of free values: train, collect the
exact moments over all edges, solve for the Ritz values. Trained on exact moments (the whole graph is one block) and on
sampled edges, whose noise has to average out before modes on few nodes show: drawn by degree, and balanced (nodes of
low degree more often, with smaller weights; every expectation stays that of the degree measure).

- Relative error of 1 - mu_j for j = 2 ... 32 against ARPACK; mu_1 = 1 is the constant. Goal: below 10 %.
- Largest principal angle between the learned and the true space, cut at the largest gap between mu_9 and mu_33.
- Edge sampler against node blocks of the paper's share of the nodes (16,384 of 2,449,029), for the same functions (the
  true phi_2 ... phi_33) at the same number of network evaluations per draw: relative bias and standard deviation of the
  diagonal of R, over many draws. A block's evaluations are counted twice: all of its rows, and only those that have an
  edge in it, which is enough if rows are dropped before the network sees them.
"""

from __future__ import annotations

import argparse
import json
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

from benchmarks.common import harness
from benchmarks.common.pages import table
from benchmarks.graphs import RESULTS
from eigenmap import load_graph
from eigenmap.data import Adjacency, build_adjacency
from eigenmap.fitting.options import RunOptions
from eigenmap.objectives import build
from eigenmap.recipes.graph import GraphRecipe
from eigenmap.relations import Batch, GraphPairs, NodeBlocks
from eigenmap.relations.graph import Start
from eigenmap.training import TrainingConfig, start, train

Array = npt.NDArray[np.float64]

MODES, MOST = 32, 40
"""Numbers of eigenvalues compared and computed; more are computed to see a gap after the last."""
COMPONENTS = 64
GOAL = 0.1
PAPER_SHARE = 16_384 / 2_449_029


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
    """One-hot node -> psi, one free value per node and feature: a linear network on one-hot features."""

    def __init__(self, nodes: int, n_components: int, std: float) -> None:
        super().__init__()
        self.values = nn.Embedding(nodes, n_components)
        nn.init.normal_(self.values.weight, std=std)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        psi = self.values(x)
        return psi, psi

    def table(self) -> Array:
        return self.values.weight.detach().cpu().double().numpy()


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


def learn_edges(truth: Truth, steps: int, batch_size: int, lr: float, start_of_walks: Start) -> tuple[Array, float]:
    """The values psi of every node after training on sampled edges, and the seconds it took."""
    config = _config(steps, lr=lr, warmup=0.05)
    network, fabric = Table(truth.walk.n_nodes, COMPONENTS, std=0.1), start(config)
    pairs = GraphPairs(truth.walk.to(fabric.device), batch_size, start=start_of_walks)
    began = time.perf_counter()
    train(network, pairs, build("ritz-trace", ridge=1e-3), config, fabric=fabric)
    return network.table(), time.perf_counter() - began


class Whole:
    """The whole graph as one node block, in every step: exact moments of the normalised adjacency, no sampling."""

    def __init__(self, walk: Adjacency) -> None:
        self.all = NodeBlocks(walk, walk.n_nodes).batch(0)

    def batch(self, step: int) -> Batch:
        return self.all


def learn_whole(truth: Truth, steps: int) -> tuple[Array, float]:
    """Learn from exact moments. Eigenvectors of D^-1/2 W D^-1/2 are eigenfunctions of the walk times sqrt(pi)."""
    nodes = truth.walk.n_nodes
    config = _config(steps, optimizer="sgd", lr=0.5, warmup=0.0, final_lr_fraction=1.0)
    network, fabric = Table(nodes, COMPONENTS, std=nodes**-0.5), start(config)
    whole = Whole(truth.walk.to(fabric.device))
    began = time.perf_counter()
    train(network, whole, build("ritz-trace", ridge=1e-5, centre=False), config, fabric=fabric)
    return network.table() / np.sqrt(truth.pi)[:, None], time.perf_counter() - began


def _config(steps: int, **settings: Any) -> TrainingConfig:
    """Return settings of a graph recipe for a table of free values, without weight decay; seed the table."""
    torch.manual_seed(0)
    return RunOptions(seed=0).config(GraphRecipe(weight_decay=0.0, clip_norm=None, **settings), steps)


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


def compare(truth: Truth, psi: Array) -> dict[str, Any]:
    """Ritz values in the span of psi against the true eigenvalues, and the angle between the spaces."""
    mu, functions = ritz(truth, psi)
    true = truth.mu[1:MODES]
    errors = np.abs(mu[1:MODES] - true) / (1 - true)
    gaps = truth.mu[8:MODES] - truth.mu[9 : MODES + 1]
    cut = 9 + int(gaps.argmax())
    return {
        "learned": mu[:MODES].tolist(),
        "relative_errors_of_1_minus_mu": errors.tolist(),
        "largest_relative_error": float(errors.max()),
        "median_relative_error": float(np.median(errors)),
        "worst_mode": int(errors.argmax()) + 2,
        "goal_met": bool(errors.max() < GOAL),
        "cut": cut,
        "gap": float(gaps.max()),
        "principal_angle_degrees": principal_angle(truth, functions, cut),
    }


def _normalised(truth: Truth) -> csr_matrix:
    root = diags((truth.pi * truth.W.sum()) ** -0.5)
    return root @ truth.W @ root


# Edge sampler against node blocks


def edge_estimate(pairs: GraphPairs, phi: Tensor, step: int) -> Tensor:
    """The diagonal of R from edges."""
    x, x_plus, weights = pairs.batch(step)
    products = phi[x] * phi[x_plus]
    return (products if weights is None else weights[:, None] * products).mean(0)


def block_estimates(truth: Truth, phi: Tensor, blocks: NodeBlocks, step: int) -> tuple[Tensor, Tensor, int]:
    """The diagonal of R from a node block: rescaled so that it is unbiased, and as published; also its evaluations."""
    n, scale = truth.walk.n_nodes, torch.from_numpy(truth.pi).sqrt()[:, None]
    u = scale * phi  # features of the normalised adjacency: unit norm over all nodes
    x, x_plus, kernel = blocks.batch(step)
    assert kernel is not None
    rows, columns = len(x), len(x_plus)
    A = kernel.double() * (rows + columns) / (2 * rows * columns)  # `NodeBlocks` scales the block for our objectives
    product = (u[x] * torch.sparse.mm(A, u[x_plus])).sum(0)
    unbiased = product * (n / blocks.batch_size) ** 2
    norms = (torch.cat([u[x], u[x_plus]]).square().sum(0) / 2).clamp(min=1e-300)
    return unbiased, product / norms, rows + columns


def samplers(truth: Truth, batch_size: int, draws: int) -> dict[str, Any]:
    """Relative bias and deviation of diag R: node blocks, and edges at either count of a block's evaluations."""
    phi = torch.from_numpy(truth.phi[:, 1 : MODES + 1].copy())
    mu = torch.from_numpy(truth.mu[1 : MODES + 1].copy())
    blocks = NodeBlocks(truth.walk, batch_size)
    unbiased, published, kept = zip(*(block_estimates(truth, phi, blocks, step) for step in range(draws)), strict=True)
    few = max(1, round(sum(kept) / draws / 2))

    def edges(count: int, start: Start = "degree") -> Tensor:
        pairs = GraphPairs(truth.walk, count, start=start)
        return torch.stack([edge_estimate(pairs, phi, step) for step in range(draws)])

    def row(found: Tensor, evaluations: int) -> dict[str, float]:
        bias, deviation = (found.mean(0) / mu - 1).mean(), (found.std(0) / mu).mean()
        return {"evaluations": evaluations, "relative_bias": float(bias), "relative_deviation": float(deviation)}

    return {
        "nodes_a_side": batch_size,
        "share_of_the_nodes": batch_size / truth.walk.n_nodes,
        "draws": draws,
        "functions": "true phi_2 ... phi_33",
        "rows": {
            "edges, evaluations of all rows": row(edges(batch_size), 2 * batch_size),
            "edges, of rows with an edge": row(edges(few), 2 * few),
            "edges, balanced, of rows with an edge": row(edges(few, "balanced"), 2 * few),
            "node blocks, rescaled": row(torch.stack(unbiased), 2 * few),
            "node blocks, as published": row(torch.stack(published), 2 * few),
        },
    }


def given_graphs(arguments: argparse.Namespace) -> dict[str, Adjacency]:
    graphs = {path.stem: load_graph(path).walk() for path in arguments.files}
    if arguments.indefinite:
        graphs["bipartite-ring"] = bipartite_ring()
    if not graphs:
        raise SystemExit("Give at least one graph file, or --indefinite.")
    return graphs


def sampling(arguments: argparse.Namespace) -> None:
    """Measure the samplers again and leave the rest of a stored result as it is."""
    for name, walk in given_graphs(arguments).items():
        file = arguments.folder / f"graphs-spectrum-{name}.json"
        result = json.loads(file.read_text(encoding="utf-8"))
        truth = solve(walk)
        result["samplers"] = samplers(truth, max(16, round(PAPER_SHARE * truth.walk.n_nodes)), arguments.draws)
        harness.write(file, result)
        _print(result)


def spectrum(arguments: argparse.Namespace) -> None:
    for name, walk in given_graphs(arguments).items():
        truth = solve(walk)
        runs = {}
        sampled = arguments.steps, arguments.batch_size, arguments.lr
        for how, (psi, seconds) in {
            "exact moments": learn_whole(truth, arguments.whole_steps),
            "sampled edges, by degree": learn_edges(truth, *sampled, "degree"),
            "sampled edges, balanced": learn_edges(truth, *sampled, "balanced"),
        }.items():
            runs[how] = {"seconds": seconds, **compare(truth, psi)}
        smallest = eigsh(_normalised(truth), k=1, which="SA", return_eigenvectors=False)[0]
        result = {
            "protocol": "largest component, one-hot features, table of free values, ritz-trace, seed 0, "
            f"k = {COMPONENTS}; exact moments: {arguments.whole_steps} steps of SGD on the whole graph; sampled edges: "
            f"{arguments.steps} steps of AdamW, {arguments.batch_size} edges each, lr {arguments.lr}",
            **harness.environment(),
            "graph": name,
            "nodes": truth.walk.n_nodes,
            "edges": truth.walk.n_entries // 2,
            "true": truth.mu[:MODES].tolist(),
            "smallest_eigenvalue": float(smallest),
            "edges_drawn": arguments.steps * arguments.batch_size,
            "runs": runs,
            "samplers": samplers(truth, max(16, round(PAPER_SHARE * truth.walk.n_nodes)), arguments.draws),
        }
        harness.write(arguments.folder / f"graphs-spectrum-{name}.json", result)
        _print(result)


def _print(result: dict[str, Any]) -> None:
    print(
        f"{result['graph']}: {result['nodes']:,} nodes, {result['edges']:,} edges, smallest eigenvalue "
        f"{result['smallest_eigenvalue']:.3f}"
    )
    for how, found in result["runs"].items():
        print(
            f"  {how} ({found['seconds']:.0f} s): relative error of 1 - mu_j, j = 2 ... {MODES}: largest "
            f"{found['largest_relative_error']:.3f} (j = {found['worst_mode']}), median "
            f"{found['median_relative_error']:.3f}; goal {GOAL}: {'met' if found['goal_met'] else 'not met'}; largest "
            f"principal angle, cut at {found['cut']} (gap {found['gap']:.4f}): "
            f"{found['principal_angle_degrees']:.1f} degrees"
        )
    of = result["samplers"]
    print(f"  diag R over {of['draws']:,} draws; blocks of {of['nodes_a_side']:,} nodes per side:")
    for sampler, row in of["rows"].items():
        print(
            f"    {sampler:40s} {row['evaluations']:5,} evaluations  bias {row['relative_bias']:+8.1%}  "
            f"deviation {row['relative_deviation']:7.1%}"
        )


def tables(folder: Path) -> str:
    """Return the results as the tables of docs/graphs.md."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("graphs-spectrum-*.json"))]
    learned = [
        [
            result["graph"],
            f"{result['nodes']:,}",
            (f"{result['edges_drawn']:,} " if how.startswith("sampled") else "") + how,
            f"{found['largest_relative_error']:.1%}",
            f"{found['median_relative_error']:.1%}",
            f"{found['principal_angle_degrees']:.1f} degrees of {found['cut']} functions",
        ]
        for result in results
        for how, found in result["runs"].items()
    ]
    sampled = [
        [
            result["graph"],
            sampler,
            str(row["evaluations"]),
            f"{row['relative_bias']:+.0%}",
            f"{row['relative_deviation']:.0%}",
        ]
        for result in results
        for sampler, row in result["samplers"]["rows"].items()
    ]
    head = ["graph", "nodes", "trained on", "largest error of 1 - mu", "median", "largest principal angle"]
    of_samplers = ["diagonal of R", "sampler", "evaluations per draw", "relative bias", "relative deviation"]
    return f"{table(head, learned)}\n\n{table(of_samplers, sampled)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    again = verbs.add_parser("samplers", help="measure only the samplers again, in stored results")
    again.set_defaults(run=sampling)
    verb = verbs.add_parser("spectrum", help="learned eigenvalues against a sparse eigensolver")
    for each in (verb, again):
        each.add_argument("files", nargs="*", type=Path, metavar="FILE", help="graph files, see docs/graphs.md")
        each.add_argument("--indefinite", action="store_true", help="also a random bipartite ring")
        each.add_argument("--draws", type=int, default=1000)
        each.add_argument("--folder", type=Path, default=RESULTS, help="folder of results")
    verb.add_argument("--whole-steps", type=int, default=500, help="on the whole graph")
    verb.add_argument("--steps", type=int, default=1600, help="on sampled edges")
    verb.add_argument("--batch-size", type=int, default=16_384)
    verb.add_argument("--lr", type=float, default=0.03)
    verb.set_defaults(run=spectrum)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
