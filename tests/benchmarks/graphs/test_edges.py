"""One run of every method that uses edges on a small graph with known structure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.common.plan import Place
from benchmarks.graphs import edges, neighbours, pool, quality, study
from benchmarks.graphs.edges import EdgeJob
from benchmarks.graphs.rivals import appnp, gcn, glnn, mlp
from benchmarks.graphs.rivals.propagation import adjacency, gcn_operator
from benchmarks.graphs.tasks import load_task

N = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three communities; a node's features say little of its class, its neighbours' together much."""
    random = np.random.default_rng(0)
    y = np.arange(N) % 3
    chance = np.where(y[:, None] == y[None, :], 0.1, 0.005)
    first, second = np.nonzero(np.triu(random.random((N, N)) < chance, 1))
    index = np.stack([np.concatenate([first, second]), np.concatenate([second, first])])
    x = (random.standard_normal((N, 12)) + 2.5 * np.eye(12)[y]).astype(np.float32)
    folder = tmp_path_factory.mktemp("sets")
    parts = np.split(random.permutation(N), [150, 240])
    splits = dict(zip(("train_idx", "val_idx", "test_idx"), parts, strict=True))
    np.savez(folder / "planetoid_cora.npz", x=x, edge_index=index, y=y)
    np.savez(folder / "actor.npz", x=x, edge_index=index, y=y, **splits)
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that take a second, not minutes."""
    head = mlp.Fitting(width=16, layers=2, epochs=30)
    monkeypatch.setattr(mlp, "GRID", (head,))
    monkeypatch.setattr(gcn, "GRID", (gcn.Settings(hidden=16, epochs=20),))
    monkeypatch.setattr(appnp, "GRID", (appnp.Settings(head=head), appnp.Settings(restart=0.3, head=head)))
    monkeypatch.setattr(glnn, "GRID", (glnn.Settings(head=head), glnn.Settings(labels=0.5, head=head)))
    monkeypatch.setattr(quality, "N_COMPONENTS", 6)
    cheap = {"steps": 150, "width": 16, "batch_size": 128}
    monkeypatch.setattr(edges, "OURS", {name: {**how, **cheap} for name, how in edges.OURS.items()})


@pytest.mark.parametrize("method", ["ours", "ours-hops", "sign", "appnp", "glnn"])
@pytest.mark.parametrize("setting", ["seen", "unseen"])
def test_a_run_holds_every_share_and_beats_chance(folder: Path, method: str, setting: edges.Setting) -> None:
    result = edges.run(EdgeJob("planetoid_cora", method, setting, 0), folder, n_splits=1)
    json.dumps(result)
    heads = {run["head"] for run in result["runs"]}
    assert heads == (
        {"logistic", "joined", "few", "mlp"} if "ours" in method else {"mlp" if method == "sign" else method}
    )
    assert {run["share"] for run in result["runs"]} == {0.01, 0.1, 1.0}
    place = "unseen" if setting == "unseen" else "seen"
    assert ("teacher" in result) == (method == "glnn")
    assert all(run["head"] == "gcn" and run[place] > 0.2 for run in result.get("teacher", []))
    best = max(run[place] for run in result["runs"] if run["share"] == 1.0)
    assert best > (0.5 if method == "glnn" else 0.6)
    if method == "ours":
        alone = max(run[place] for run in result["alone"] if run["share"] == 1.0)
        assert result["neighbours"]["chosen"] != "none" and best > alone
        assert {row["code"] for row in result["lengths"]} == {"with edges", "features alone"}


def test_a_published_split_leaves_test_nodes_in_the_graph(folder: Path) -> None:
    task = load_task(folder, "actor", "unseen", 0, 1)
    assert len(task.unseen) == 30 and len(task.splits[0].test) == 30
    result = edges.run(EdgeJob("actor", "mlp", "unseen", 0), folder, n_splits=1)
    assert all(0 <= run["unseen"] <= 1 for run in result["runs"])


def test_a_set_with_its_published_split(folder: Path) -> None:
    np.savez(folder / "planetoid_citeseer.npz", **np.load(folder / "actor.npz"))
    task = load_task(folder, "planetoid_citeseer-official", "seen", 0, 1)
    assert [len(part) for part in task.splits[0]] == [150, 90, 60]


def test_propagated_features_of_withheld_nodes_come_from_the_whole_graph(folder: Path) -> None:
    task = load_task(folder, "planetoid_cora", "unseen", 0, 1)
    _, once, twice = edges.propagated(task, 2)
    whole = gcn_operator(task.whole).to_dense()
    training = gcn_operator(task.matrix).to_dense()
    assert isinstance(task.x, torch.Tensor) and isinstance(once, torch.Tensor) and isinstance(twice, torch.Tensor)
    torch.testing.assert_close(twice[task.unseen], (whole @ whole @ task.x)[task.unseen])
    torch.testing.assert_close(once[task.kept], training @ task.x[task.kept])


def test_personalised_pagerank_is_the_closed_form() -> None:
    index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    S = gcn_operator(adjacency(index, 5))
    scores = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    exact = 0.6 * torch.linalg.solve(torch.eye(5) - 0.4 * S.to_dense(), scores)
    torch.testing.assert_close(appnp.spread(scores, S, 0.6), exact, atol=1e-3, rtol=1e-3)


def test_a_repeated_split_is_not_run_twice_with_all_labels(folder: Path) -> None:
    task = load_task(folder, "actor", "seen", 0, 2)
    found = [(number, share) for number, _, share, _ in quality.few(task)]
    assert found == [(0, 0.01), (0, 0.1), (0, 1.0), (1, 0.01), (1, 0.1)]
    assert len(list(quality.few(load_task(folder, "planetoid_cora", "seen", 0, 2)))) == 6


def test_a_sweep_of_named_jobs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_by_one(tasks: list[pool.Task], run: pool.Run, results: Path, *, seconds: float, workers: int) -> list[str]:
        for task in tasks:
            (results / f"{task.name}.json").write_text(json.dumps(run(task.given)))
        return []

    monkeypatch.setattr(pool, "sweep", one_by_one)
    words = ["--data", str(folder), "--results", str(tmp_path), "--splits", "1", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", ["edges", "sweep", *words, "--only", "edges-actor-mlp-unseen-s?", "--again"])
    edges.main()
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == [
        f"edges-actor-mlp-unseen-s{seed}" for seed in "012"
    ]


def test_the_first_pattern_that_matches_gives_the_place_of_a_job() -> None:
    found = [job.name for job in edges.in_order(["*cora-ours-seen*", "*cora-*-seen*"])]
    assert found[:3] == [f"edges-planetoid_cora-ours-seen-s{seed}" for seed in "012"]
    assert len(found) == len(set(found)) > 3 and all("cora-" in name and "-seen-" in name for name in found)
    assert edges.in_order(["nothing"]) == []


def test_a_result_of_ours_without_a_size_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, rival = "edges-actor-ours-seen-s0", "edges-actor-ours-seen-s1", "edges-actor-sign-seen-s0"
    neighbours = {"scores": [], "chosen": "none"}
    size_and_scores = {"size": {"width": 64, "blocks": 0}, "sizes": None, "neighbours": neighbours}
    for name, size in ((old, {}), (new, size_and_scores), (rival, {})):
        method = name.split("-")[2]
        (tmp_path / f"{name}.json").write_text(json.dumps({"job": {"method": method}, **size}))
    for name, size in (("edge-cost-actor", {}), ("edge-cost-squirrel_filtered", {"width": 64, "blocks": 0})):
        (tmp_path / f"{name}.json").write_text(json.dumps(size))
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    done = {job.name: job.done for job in study.jobs(Place(tmp_path, tmp_path, "cuda"))}
    assert not done[old] and done[new] and done[rival]
    assert not done["edge-cost-actor"] and done["edge-cost-squirrel_filtered"]
    on_cpu = {job.name for job in study.jobs(Place(tmp_path, tmp_path, "cpu"))}
    assert "edge-cost-actor-cpu" in on_cpu and "edge-cost-actor" not in on_cpu
    assert {name for name, result in edges.stored(tmp_path).items() if edges.outdated(result)} == {old}


def test_a_result_that_the_fit_would_not_choose_today_is_outdated() -> None:
    def result(chosen: int, ranks: Sequence[float], way: str = "S", doubled: bool = True) -> dict[str, object]:
        sizes = [{"width": 64 << place, "blocks": 0, "rank": rank} for place, rank in enumerate(ranks)]
        costs = [{"cost": score["width"] ** (2 if doubled else 1)} for score in sizes]
        scores = [{"way": way, "restart": 0.0, "rank": rank} for way, rank in (("S", 0.2), ("concat", 0.19))]
        return {
            "job": {"method": "ours"},
            "size": {"width": chosen, "blocks": 0},
            "sizes": [score | cost for score, cost in zip(sizes, costs, strict=True)],
            "neighbours": {"scores": scores, "chosen": way},
        }

    little, enough = (0.1, 0.108, 0.104, 0.09), (0.1, 0.115, 0.11, 0.09)
    assert edges.outdated(result(128, little)), "8 % for four times the cost"
    assert not edges.outdated(result(128, little, doubled=False)), "8 % for twice the cost"
    assert not edges.outdated(result(128, enough)) and not edges.outdated(result(64, little))
    assert edges.outdated(result(128, (0.01, 0.02, 0.02, 0.02))), "hardly an edge is found"
    assert edges.outdated(result(128, enough[:3])), "today's search would go on"
    assert not edges.outdated(result(64, (0.1, 0.116, 0.11))), "it was not certain"
    assert not edges.outdated(result(128, (0.1, 0.12, 0.119, 0.145))), "its last gain was not certain"
    assert edges.outdated(result(128, enough, "concat"))
    without_costs = result(128, enough)
    for score in without_costs["sizes"]:  # type: ignore[attr-defined]
        del score["cost"]
    assert edges.outdated(without_costs)


def test_every_job_can_be_run_by_its_words(tmp_path: Path) -> None:
    jobs = list(study.with_edges("cuda"))
    assert len({job.name for job in jobs}) == len(jobs) > 100
    command = jobs[0].command(Place(tmp_path, tmp_path, "cpu"))
    assert command[2] == "benchmarks.graphs.edges" and jobs[0].name.split("-")[1] in jobs[0].words
    assert all(job.seconds > 0 and (job.needs or "made-" in job.name) for job in jobs)


def test_what_each_criterion_picks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "STEPS", {"planetoid_cora": 40})
    monkeypatch.setattr(neighbours, "FITTING", {"n_components": 6, "width": 16, "held_out": 0.1, "device": "cpu"})
    monkeypatch.setattr(neighbours, "LENGTHS", (2, 6))
    run = neighbours.measure(folder, "planetoid_cora", 0)
    json.dumps(run)
    assert [row["way"] for row in run["rows"]][:4] == ["none", "S", "S2", "concat"]
    assert "Cora, 1 seed" in neighbours.table({"runs": [run]})
