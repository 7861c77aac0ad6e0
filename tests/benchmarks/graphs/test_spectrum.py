"""The comparison of spectra and samplers runs, and finds what is known."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.graphs import spectrum
from eigenmap.data import build_adjacency
from eigenmap.relations.graph import NodeBlocks


@pytest.fixture(scope="module")
def ring() -> spectrum.Truth:
    return spectrum.solve(spectrum.bipartite_ring(side=60, degree=6))


def test_the_truth_has_unit_functions_and_honest_values(ring: spectrum.Truth) -> None:
    gram = ring.phi.T @ (ring.pi[:, None] * ring.phi)
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-10)
    shared = ring.phi.T @ (ring.W @ ring.phi) / ring.W.sum()
    np.testing.assert_allclose(shared, np.diag(ring.mu), atol=1e-10)
    assert ring.mu[0] == pytest.approx(1) and bool((np.diff(ring.mu) <= 1e-12).all())


def test_only_the_largest_component_counts() -> None:
    n = 50
    around = torch.stack([torch.arange(n), torch.arange(1, n + 1) % n])
    truth = spectrum.solve(build_adjacency(torch.cat([around, torch.tensor([[n], [n + 1]])], 1), n + 3))
    assert truth.walk.n_nodes == n
    expected = np.sort(np.cos(2 * np.pi * np.arange(n) / n))[::-1]
    np.testing.assert_allclose(truth.mu, expected[: len(truth.mu)], atol=1e-8)


def test_ritz_values_of_the_true_functions_are_true(ring: spectrum.Truth) -> None:
    mixed = ring.phi[:, 1:8] @ np.random.default_rng(0).normal(size=(7, 7))
    mu, functions = spectrum.ritz(ring, mixed)
    np.testing.assert_allclose(mu[:8], ring.mu[:8], atol=1e-8)
    assert spectrum.principal_angle(ring, functions, 8) < 0.1


def test_learned_eigenvalues_are_within_a_tenth() -> None:
    truth = spectrum.solve(graphs_small)
    for psi, _ in (spectrum.learn_edges(truth, 200, 1024, 0.03, "balanced"), spectrum.learn_whole(truth, 60)):
        found = spectrum.compare(truth, psi)
        assert found["goal_met"] and found["largest_relative_error"] < 0.1
        assert found["principal_angle_degrees"] < 30


def test_edges_are_unbiased_and_published_blocks_are_not(ring: spectrum.Truth) -> None:
    rows = spectrum.samplers(ring, batch_size=8, draws=1000)["rows"]
    assert abs(rows["edges, evaluations of all rows"]["relative_bias"]) < 0.1
    assert rows["node blocks, as published"]["relative_bias"] < -0.4
    edges, blocks = rows["edges, evaluations of all rows"], rows["node blocks, rescaled"]
    assert edges["relative_deviation"] < blocks["relative_deviation"]


def test_blocks_are_those_of_the_adjacency_also_with_more_rows_than_columns(ring: spectrum.Truth) -> None:
    phi = torch.from_numpy(ring.phi[:, 1:4].copy())
    u = torch.from_numpy(ring.pi).sqrt()[:, None] * phi
    degree = np.asarray(ring.W.sum(1)).ravel()
    A = torch.from_numpy(ring.W.toarray() / np.sqrt(np.outer(degree, degree)))
    blocks = NodeBlocks(ring.walk, 13, seed=1)
    unequal = 0
    for step in range(8):
        x, x_plus, _ = blocks.batch(step)
        product = torch.einsum("bj,bc,cj->j", u[x], A[x][:, x_plus], u[x_plus])
        size = (u[x].square().sum(0) + u[x_plus].square().sum(0)) / 2
        unbiased, published, evaluations = spectrum.block_estimates(ring, phi, blocks, step)
        torch.testing.assert_close(unbiased, product * (ring.walk.n_nodes / 13) ** 2, rtol=1e-5, atol=1e-9)
        torch.testing.assert_close(published, product / size, rtol=1e-5, atol=1e-9)
        assert evaluations == len(x) + len(x_plus)
        unequal += len(x) != len(x_plus)
    assert unequal


def test_the_command_writes_and_prints_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spectrum, "bipartite_ring", lambda: graphs_small)
    options = ["--indefinite", "--steps", "60", "--batch-size", "512", "--draws", "20", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["graphs.py", "spectrum", *options])
    spectrum.main()
    result = json.loads((tmp_path / "graphs-spectrum-bipartite-ring.json").read_text())
    assert [len(run["relative_errors_of_1_minus_mu"]) for run in result["runs"].values()] == [31, 31, 31]
    assert result["smallest_eigenvalue"] == pytest.approx(-1, abs=1e-4)
    assert "relative error of 1 - mu_j" in capsys.readouterr().out


graphs_small = spectrum.bipartite_ring(side=100, degree=8)
