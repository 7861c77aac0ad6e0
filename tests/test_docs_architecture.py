"""The worked examples of CONTRIBUTING.md run, and do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eigenmap as em
from eigenmap.search.backend import IndexSpec, Stage
from eigenmap.search.filters import conditions
from eigenmap.search.flat import FlatBackend

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
TEXT = PAGE.read_text(encoding="utf-8")


def examples(heading: str) -> dict[str, Any]:
    """Run the Python blocks of a section, and return the names they make."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {}
    for indent, block in re.findall(r"^( *)```python\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL):
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        exec(compile("\n".join(lines), str(PAGE), "exec"), names)
    return names


def test_the_relation_is_a_function_of_the_step_and_can_be_trained_on() -> None:
    names = examples("Add a relation")
    ring = names["Ring"](names["x"], batch_size=16)
    assert torch.equal(ring.batch(3).x, ring.batch(3).x) and not torch.equal(ring.batch(3).x, ring.batch(4).x)
    a, b = np.cos(np.pi / 10), np.cos(2 * np.pi / 10)
    np.testing.assert_allclose(names["mu"], [a, a, b, b], atol=0.05)


def test_the_objective_rewards_agreement() -> None:
    objective = examples("Add an objective")["Decorrelated"]()
    psi = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    other = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
    assert objective(psi, psi) < objective(psi, other)


@pytest.mark.parametrize("metric", ["cosine", "inner"])
def test_the_back_end_finds_what_ours_finds(metric: str) -> None:
    about = IndexSpec(6, metric, None, "float32", None, None)
    backends = [examples("Add a back end")["DictBackend"](about), FlatBackend.create(about, None, 2**20)]
    rng = np.random.default_rng(0)
    codes, ids = rng.normal(size=(40, 6)).astype("f4"), [f"item {row}" for row in range(40)]
    for backend in backends:
        backend.write("add", codes, ids, [{"even": row % 2 == 0} for row in range(40)])
        backend.delete(ids[5:7])
        backend.write("update", codes[:1] + 1, ids[:1], None)
        with pytest.raises(em.EigenmapError, match="item 1"):
            backend.write("add", codes[:1], ids[1:2], None)
    queries = rng.normal(size=(3, 6)).astype("f4")
    for where in (None, {"even": True}):
        stages = [Stage(2, 12), Stage(6, 4)]
        ours, theirs = (backend.search(queries, stages, conditions(where), True) for backend in backends)
        assert ours.ids == theirs.ids
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-5)
    assert backends[0].ids() == backends[1].ids() and len(backends[0]) == 38
    assert [len(batch.ids) for batch in backends[0].batches(30)] == [30, 8]
    assert backends[0].sample(5, 0).codes.shape == (5, 6)


def test_an_encoder_of_ones_own_is_taken() -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 12))
    pixels = np.random.default_rng(0).integers(255, size=(40, 16, 16, 3), dtype=np.uint8)
    model = em.fit_images(pixels, 4, encoder=module, steps=2, batch_size=16, device="cpu", progress=False)
    assert model.encode(pixels[:2]).shape == (2, model.n_components)
