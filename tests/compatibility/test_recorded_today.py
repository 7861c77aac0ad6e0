"""Models of vectors, staged image models and codes of nodes, as they were first written, open and give the same."""

from __future__ import annotations

import numpy as np
import pytest

import eigenmap as em
from eigenmap.embedding.node_store import NodeCodes
from tests.compatibility.recording import graph
from tests.compatibility.recording_today import NEW_EDGES, RECORDED, expected, new_nodes

CLOSE = {"rtol": 1e-5, "atol": 1e-6}
NAMES = ("linear", "two-spaces", "staged", "nodes")


def test_every_model_gives_the_codes_it_gave() -> None:
    codes = expected({name: em.Eigenmap.load(RECORDED / name) for name in NAMES})
    with np.load(RECORDED / "expected.npz") as recorded:
        for name, rows in codes.items():
            np.testing.assert_allclose(rows, recorded[name], **CLOSE, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_is_whole(name: str) -> None:
    em.Eigenmap.verify(RECORDED / name)


def test_stored_codes_of_nodes_open_and_serve_new_nodes() -> None:
    stored = NodeCodes.open(RECORDED / "stored")
    assert len(stored.verify()) > 4 and len(stored) == len(graph()[0])
    with np.load(RECORDED / "expected.npz") as recorded:
        np.testing.assert_array_equal(stored.codes, recorded["stored"])
        codes = em.Eigenmap.load(RECORDED / "nodes").encode(new_nodes(), edges=NEW_EDGES, stored=stored)
        np.testing.assert_allclose(codes, recorded["new nodes"], **CLOSE)
