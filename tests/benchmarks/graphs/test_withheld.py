"""Variants judged on nodes withheld from a graph without test nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.graphs import quality, withheld
from benchmarks.graphs.rivals import gcn
from benchmarks.graphs.tasks import load_task

N = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    y = np.arange(N) % 3
    chance = np.where(y[:, None] == y[None, :], 0.1, 0.005)
    index = np.stack(np.nonzero(np.triu(random.random((N, N)) < chance, 1)))
    # The last feature is a node's number: it tells which nodes are where.
    x = np.concatenate([random.standard_normal((N, 8)) + 2.5 * np.eye(8)[y], np.arange(N)[:, None]], 1)
    folder = tmp_path_factory.mktemp("sets")
    np.savez(folder / "planetoid_cora.npz", x=x.astype(np.float32), edge_index=index, y=y)
    return folder


def test_no_test_node_is_in_the_inner_task(folder: Path) -> None:
    outer, inner = load_task(folder, "planetoid_cora", "unseen", 1, 1), withheld.inner_task(folder, "planetoid_cora", 1)
    assert len(inner.y) == len(outer.kept) == N - len(outer.unseen)
    assert len(inner.unseen) == round(0.2 * len(outer.kept))
    torch.testing.assert_close(inner.y, outer.seen_y)


def test_a_run_is_continued_and_listed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gcn, "GRID", (gcn.Settings(hidden=16, epochs=20),))
    monkeypatch.setattr(quality, "N_COMPONENTS", 6)
    cheap = {"steps": 150, "width": 16, "batch_size": 128}
    few = {
        name: (words, {**how, **cheap})
        for name, (words, how) in withheld.VARIANTS.items()
        if name in ("default", "long")
    }
    monkeypatch.setattr(withheld, "VARIANTS", few)
    path = tmp_path / "withheld.json"
    words = ["run", "--data", str(folder), "--sets", "planetoid_cora", "--seeds", "0", "--result", str(path)]
    for variants in (["default"], ["default", "gcn"], ["long"]):
        monkeypatch.setattr("sys.argv", ["withheld", *words, "--variants", *variants])
        withheld.main()
    result = json.loads(path.read_text())
    assert [row["variant"] for row in result["rows"]] == ["default", "gcn", "long"]
    assert all(value > 0.4 for row in result["rows"] for value in row["accuracy"].values())
    assert "| default |" in capsys.readouterr().out
    text = "\n".join(withheld.section(path))
    assert "Joining averaged features adds, in points: Cora" in text and "Citeseer" not in withheld.listed(
        result["rows"]
    )
    assert list(withheld.section(tmp_path / "none.json")) == []
