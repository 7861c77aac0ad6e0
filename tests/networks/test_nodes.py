from __future__ import annotations

import copy

import numpy as np
import scipy.sparse
import torch

from eigenmap.networks import Network, NodeFeatures, NodeNetwork, ResidualMLP, SparseRows


def test_node_numbers_stand_for_their_features() -> None:
    torch.manual_seed(0)
    x = torch.rand(20, 6)
    network = Network(ResidualMLP(6, width=8, blocks=1), n_components=3).eval()
    sparse = SparseRows.of(scipy.sparse.csr_matrix(x.numpy()))
    nodes = torch.tensor([4, 4, 19, 0])
    expected = network(x[nodes])
    for features in (x, sparse, x.half()):
        found = NodeNetwork(network, NodeFeatures(features)).eval()(nodes)
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=2e-3)


def test_it_shares_the_weights_and_knows_no_features_in_its_state(tmp_path: object) -> None:
    network = Network(ResidualMLP(6, width=8, blocks=1), n_components=3)
    features = NodeFeatures(torch.from_numpy(np.zeros((5, 6), np.float32)))
    nodes = NodeNetwork(network, features)
    assert list(nodes.state_dict()) == list(network.state_dict())
    assert all(a is b for a, b in zip(nodes.parameters(), network.parameters(), strict=True))
    assert copy.deepcopy(nodes).features is features
