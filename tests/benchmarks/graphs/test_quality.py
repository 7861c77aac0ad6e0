"""One run of every method on a small graph with known structure, and what its result has to hold."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.graphs import cost, quality
from benchmarks.graphs import jobs as graph_jobs
from benchmarks.graphs.jobs import BASE, FORMS, RELATIONS, RIVALS, Job
from benchmarks.graphs.rivals import bgrl, gcn, mlp, node2vec
from benchmarks.graphs.tasks import load_task, make_task
from eigenmap.data import Graph, load_graph
from eigenmap.evaluation.nodes import NodeSplit

N = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three communities; a node's features say little of its class, its neighbours' together much."""
    random = np.random.default_rng(0)
    y = np.arange(N) % 3
    chance = np.where(y[:, None] == y[None, :], 0.08, 0.005)
    first, second = np.nonzero(np.triu(random.random((N, N)) < chance, 1))
    edges = np.stack([np.concatenate([first, second]), np.concatenate([second, first])])
    x = (random.standard_normal((N, 12)) + 2.0 * np.eye(12)[y]).astype(np.float32)
    folder = tmp_path_factory.mktemp("sets")
    np.savez(folder / "planetoid_cora.npz", x=x, edge_index=edges, y=y)
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that take a second, not minutes."""
    monkeypatch.setattr(mlp, "GRID", (mlp.Fitting(width=32, epochs=10),))
    monkeypatch.setattr(gcn, "GRID", (gcn.Settings(hidden=16, epochs=10), gcn.Settings(hidden=8, epochs=4)))
    monkeypatch.setattr(bgrl, "GRID", (bgrl.Settings(hidden=16, dim=8, predictor=16, steps=5, warmup=1),))
    monkeypatch.setattr(node2vec.Settings, "__init__", _few_walks)
    monkeypatch.setattr(quality, "N_COMPONENTS", 12)
    monkeypatch.setattr(graph_jobs, "BASE", {**BASE, "width": 32})
    monkeypatch.setattr(graph_jobs, "LENGTH", dict.fromkeys(graph_jobs.SETS, (30, 256)))


def _few_walks(self: node2vec.Settings) -> None:
    object.__setattr__(self, "walks_per_node", 1)


def jobs() -> list[Job]:
    unseen = [Job("planetoid_cora", name, "unseen") for name in ("mlp", "laplacian", "gcn", "bgrl")]
    ours = [Job("planetoid_cora", "scl", setting, relation="walks-hidden") for setting in ("seen", "unseen")]
    return [*ours, *unseen, *(Job("planetoid_cora", name) for name in ("node2vec", "gcn-sampled"))]


@pytest.mark.parametrize("job", jobs(), ids=lambda job: f"{job.method}-{job.setting}")
def test_a_run_holds_every_split_and_share(folder: Path, job: Job) -> None:
    result = quality.run(job, folder, n_splits=2)
    json.dumps(result)
    runs = result["runs"]
    heads = dict.fromkeys(run["head"] for run in runs)
    assert {(run["split"], run["share"]) for run in runs} == {(s, f) for s in (0, 1) for f in (0.01, 0.1, 1.0)}
    assert len(runs) == 6 * len(heads)
    assert all(0 <= run[name] <= 1 for run in runs for name in ("validation", "seen"))
    counted = [run["labels"] for run in runs if run["share"] == 1.0]
    assert set(counted) == {32 if job.setting == "unseen" else 40}
    sees_new = job.setting == "unseen" and job.method != "laplacian"
    assert all((run["unseen"] is not None) == sees_new for run in runs)
    assert ("lengths" in result) == (job.method in ("bgrl",) or (job.ours and job.setting == "seen"))
    if job.ours:
        assert list(heads) == ["ridge", "logistic", "paper", "mlp"]
        best = max(run["seen"] for run in runs if run["share"] == 1.0)
        assert best > 0.6
    if job.method == "gcn":
        assert all(0 <= run["unseen_alone"] <= 1 for run in runs)
    assert job.method in quality.summary(result)


def test_screening_looks_at_no_test_label(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("planetoid_cora", "nested", relation="uniform", screening=True)
    result = quality.run(job, folder)
    assert "runs" not in result and set(result["validation"]) == {"logistic", "mlp", "mlp and raw"}

    def scrambled(*given: object) -> object:
        task = load_task(*given)  # type: ignore[arg-type]
        test = task.splits[0].test
        task.y[test] = (task.y[test] + 1) % 3
        return task

    monkeypatch.setattr(quality, "load_task", scrambled)
    assert quality.run(job, folder)["validation"] == result["validation"]


def test_costs_are_measured_for_all_test_nodes_and_for_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "SINGLES", 3)
    result = cost.measure(folder, "planetoid_cora", "cpu")
    assert result["test_nodes"] == 320 and len(result["timings"]) == 3
    monkeypatch.setattr(cost, "DENSE", ("planetoid_cora",))
    wide = cost.measure(folder, "planetoid_cora", "cpu")
    names = [f"ours, features only, width {width}" for width in ("256", "1,024", "2,048")]
    assert [row["method"] for row in wide["timings"]][:3] == names
    for row in result["timings"]:
        assert row["per_node_s"] == pytest.approx(row["all_test_nodes_s"] / 320) and row["one_node_s"] > 0
    assert "320 test nodes" in cost.summary(result)


def test_withheld_nodes_leave_no_trace_in_training(folder: Path) -> None:
    graph = load_graph(folder / "planetoid_cora.npz")
    task = load_task(folder, "planetoid_cora", "unseen", 1, 2)
    assert len(task.unseen) == 80 and len(task.kept) == 320
    assert not set(task.unseen.tolist()) & set(task.kept.tolist())
    kept = task.kept.numpy()
    np.testing.assert_array_equal(task.matrix.toarray(), task.whole.toarray()[np.ix_(kept, kept)])
    training = task.graph()
    assert len(training) == 320 and isinstance(training.x, torch.Tensor)
    # Standardised over the nodes that are there.
    torch.testing.assert_close(training.x.mean(0), torch.zeros(12), atol=1e-5, rtol=0)
    for split in task.splits:
        nodes = torch.cat(split)
        assert len(nodes.unique()) == len(nodes) == 320
    assert graph.y is not None and torch.equal(task.y, graph.y)
    other = load_task(folder, "planetoid_cora", "unseen", 2, 1)
    assert other.unseen.tolist() != task.unseen.tolist()


def test_an_official_split_is_kept_and_unseen_nodes_come_from_its_test_part(folder: Path) -> None:
    graph = load_graph(folder / "planetoid_cora.npz")
    official = NodeSplit(torch.arange(40), torch.arange(40, 80), torch.arange(80, N))
    task = make_task(graph, "unseen", 0, 2, official)
    assert int(task.unseen.min()) >= 80 and len(task.unseen) == 80
    for split in task.splits:
        assert task.kept[split.train].tolist() == list(range(40))
        assert sorted([*task.kept[split.test].tolist(), *task.unseen.tolist()]) == list(range(80, N))
    whole = make_task(graph, "seen", 0, 1, official)
    assert len(whole.unseen) == 0 and torch.equal(whole.splits[0].test, official.test)


def test_unlabelled_nodes_are_in_the_graph_and_in_no_split() -> None:
    y = torch.arange(30) % 2
    y[:6] = -1
    graph = Graph(torch.randn(30, 2), torch.stack([torch.arange(29), torch.arange(1, 30)]), y=y)
    task = make_task(graph, "unseen", 0, 1)
    assert (task.y[task.unseen] >= 0).all() and set(range(6)) <= set(task.kept.tolist())
    assert (task.seen_y[torch.cat(task.splits[0])] >= 0).all()


def test_names_tell_all_runs_apart() -> None:
    settings = product(RIVALS, ("seen", "unseen"), (0, 1))
    jobs = [Job("planetoid_cora", method, setting, seed) for method, setting, seed in settings]
    for form, relation, screening in product(FORMS, RELATIONS, (True, False)):
        jobs.append(Job("planetoid_cora", form, relation=relation, screening=screening))
    assert len({job.name for job in jobs}) == len(jobs)
