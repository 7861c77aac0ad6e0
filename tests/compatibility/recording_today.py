"""Formats that version 0.1.0 did not have, recorded once: models of vectors, staged image models, codes of nodes.

    python -m tests.compatibility.recording_today      # in the repository's root

As in `recording`, inputs are made from seeds, and what is recorded must never be written again by a later version.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import eigenmap as em
from eigenmap.embedding.node_store import NodeCodes
from eigenmap.embedding.nodes import embed_nodes
from tests.compatibility.recording import fit_blocks, fit_pictures, graph, pictures

RECORDED = Path(__file__).parent / "v0_2"
NEW_EDGES = [[120, 120, 121], [3, 40, 7]]


def pairs(count: int = 300) -> tuple[Any, Any]:
    """Two spaces that share four directions."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(count, 4))
    left = shared @ rng.normal(size=(4, 8)) + 0.3 * rng.normal(size=(count, 8))
    right = shared @ rng.normal(size=(4, 6)) + 0.3 * rng.normal(size=(count, 6))
    return left.astype(np.float32), right.astype(np.float32)


def new_nodes() -> Any:
    return np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)


def models(folder: Path) -> dict[str, em.Eigenmap]:
    """One model of each kind, saved."""
    left, right = pairs()
    made = {
        "linear": em.fit_vectors(left, pairs=left + right[:, :1], n_components=4, progress=False),
        "two-spaces": em.fit_vectors(left, pairs=right, n_components=4, progress=False),
        "staged": fit_pictures(),
        "nodes": fit_blocks(neighbours="S"),
    }
    for name, model in made.items():
        model.save(folder / name)
    return made


def expected(made: dict[str, em.Eigenmap]) -> dict[str, Any]:
    """Codes that later versions have to give."""
    left, right = pairs()
    two = made["two-spaces"]
    assert two.right is not None
    return {
        "linear": made["linear"].encode(left[:20]),
        "two-spaces": two.encode(left[:20]),
        "two-spaces right": two.right.encode(right[:20]),
        "staged": made["staged"].encode(pictures(12, seed=1)),
        "nodes": made["nodes"].encode(graph()[0]),
    }


def record(to: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = models(Path(folder))
        codes = expected(made)
        graph_of = em.load_graph(graph())
        embed_nodes(made["nodes"], graph_of.x, graph_of.walk(), Path(folder) / "stored")
        stored = NodeCodes.open(Path(folder) / "stored")
        codes["stored"] = np.array(stored.codes)
        codes["new nodes"] = made["nodes"].encode(new_nodes(), edges=NEW_EDGES, stored=stored)
        np.savez(Path(folder) / "expected.npz", **codes)
        shutil.copytree(folder, to)


if __name__ == "__main__":
    record(RECORDED)
