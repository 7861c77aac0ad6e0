"""Averages over neighbours on a device are those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenmap.data.graphs.adjacency import build_adjacency
from eigenmap.relations import device_propagation, neighbour_codes
from eigenmap.relations.device_propagation import columns_that_fit, on_device
from eigenmap.relations.neighbour_codes import Cut, NeighbourCodes
from eigenmap.relations.propagation import Propagation, Smoothing, Way

N, K = 40, 6


def graph(weighted: bool) -> Smoothing:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(N - 2, (2, 150), generator=generator)  # the last two nodes have no edges
    weights = torch.rand(150, generator=generator) + 0.1 if weighted else None
    return Smoothing.of(build_adjacency(index, N, weights))


def codes() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, K)).astype(np.float32)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("way", ["S", "S2", "concat", "pagerank"])
def test_the_same_as_on_the_cpu(way: Way, weighted: bool) -> None:
    how = Propagation(way, 0.2 if way == "pagerank" else 0.0)
    smooth, own = graph(weighted), codes()
    found = on_device(how, smooth, own, torch.device("cpu"))
    np.testing.assert_array_equal(own, codes())  # averages are computed in place, but not in the codes
    np.testing.assert_allclose(found, how.apply(smooth, own), atol=2e-6)


def test_a_few_columns_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    how, smooth, own = Propagation("S2"), graph(True), codes()
    monkeypatch.setattr(device_propagation, "columns_that_fit", lambda *given: 4)
    np.testing.assert_allclose(on_device(how, smooth, own, torch.device("cpu")), how.apply(smooth, own), atol=2e-6)


def test_room_is_counted_and_concat_needs_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    smooth, device = graph(False), torch.device("cuda")
    free = 40 * smooth.walk.n_entries + 24 * N + 4 * 5 * N * 3
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (int(free / 0.6) + 2, 1 << 40))
    assert columns_that_fit(smooth, (N, K), Propagation("S"), device) == 3
    assert columns_that_fit(smooth, (N, K), Propagation("concat"), device) == 0
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (100, 1 << 40))
    assert columns_that_fit(smooth, (N, K), Propagation("S"), device) == 0


def test_without_room_codes_are_averaged_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(neighbour_codes, "on_device", lambda *given: asked.append(given[3]))
    smooth, own = graph(False), codes()
    how = NeighbourCodes(Propagation("S"))
    rows, columns = smooth.walk.edges()
    y = how.of_graph(own, torch.stack([rows, columns]), None, Cut(K, normalize=False), torch.device("cuda"))
    assert asked == [torch.device("cuda")]
    np.testing.assert_allclose(y, Propagation("S").apply(smooth, own), atol=1e-6)
