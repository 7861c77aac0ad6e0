"""Width and depth judged on held-out edges: one small run, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.graphs import quality, sizes
from benchmarks.graphs.sizes import SizeJob
from eigenmap.fitting.size import SIZES


def test_a_run_and_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    y = np.arange(200) % 2
    source = random.integers(200, size=1200)
    index = np.stack([source, (source + 2 * random.integers(100, size=1200)) % 200])
    x = (random.standard_normal((200, 8)) + 2 * np.eye(8)[y]).astype(np.float32)
    np.savez(tmp_path / "planetoid_cora.npz", x=x, edge_index=index, y=y)
    monkeypatch.setattr(quality, "N_COMPONENTS", 4)
    job = SizeJob("planetoid_cora", 16, 0, 0)
    result = sizes.run(job, tmp_path, steps=60, batch_size=64)
    (tmp_path / f"{job.name}.json").write_text(json.dumps(result))
    assert 0 < result["rank"] <= 1 and result["validation"]["alone"] > 0.6
    row = sizes.listed(tmp_path).splitlines()[-1]
    assert row.startswith(f"| planetoid_cora | 16 | 0 | 0 | default | {result['quality']:.4f} |")


def test_every_size_of_every_graph_is_planned() -> None:
    jobs = list(sizes.jobs())
    assert len({job.name for job in jobs}) == len(jobs) == 2 * 7 * len(SIZES)
