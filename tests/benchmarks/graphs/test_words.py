from __future__ import annotations

import json
from pathlib import Path

from benchmarks.graphs.jobs import COST, Job
from benchmarks.graphs.plan import Finished
from benchmarks.graphs.words import findings, in_short

from .test_plan import runs, screened, write


def words(folder: Path) -> str:
    return "\n".join(findings(Finished(folder)))


def test_without_results_nothing_is_claimed(tmp_path: Path) -> None:
    page = words(tmp_path)
    assert "ahead of" not in page and "Ours is not run." in page
    rows = [line for line in page.splitlines() if line.startswith("| n")]
    assert len(rows) == 6 and all(row.count("| not run ") == 7 for row in rows)


def test_who_is_ahead_is_read_from_the_results(tmp_path: Path) -> None:
    for data, level in (("planetoid_cora", 0.8), ("planetoid_citeseer", 0.95)):
        screened(tmp_path, data, "hidden", "scl")
        write(tmp_path, Job(data, "scl", relation="hidden"), runs=runs("logistic", level) + runs("mlp", level - 0.1))
        write(tmp_path, Job(data, "gcn"), runs=runs("gcn", 0.9))
    page = words(tmp_path)
    (row,) = (
        line for line in page.splitlines() if line.startswith("| nodes of the training graph, features alone | 100 %")
    )
    assert [cell.strip() for cell in row.split("|")[3:8]] == ["not run"] * 3 + ["-10.0", "+5.0"]


def test_debian_has_its_figures_in_order(tmp_path: Path) -> None:
    data = "debian_bookworm"
    screened(tmp_path, data, "uniform", "nested")
    for method, seen, unseen in (("nested", 0.75, 0.7), ("mlp", 0.69, 0.68), ("gcn", 0.76, 0.74)):
        relation = "uniform" if method == "nested" else ""
        head = "logistic" if method == "nested" else method
        write(tmp_path, Job(data, method, relation=relation), runs=runs(head, seen))
        write(tmp_path, Job(data, method, "unseen", relation=relation), runs=runs(head, seen, unseen=unseen))
    write(tmp_path, Job(data, "node2vec"), runs=runs("mlp", 0.78))
    page = words(tmp_path)
    assert "All packages: node2vec + MLP 79.0, GCN 77.0, ours 76.0, MLP 70.0. Packages" in page
    assert "not in the training graph: GCN 74.0, ours 70.0, MLP 68.0." in page


def test_costs_are_times_of_the_cheapest_gcn_on_the_same_device(tmp_path: Path) -> None:
    def timing(method: str, device: str, everything: float, one: float) -> dict[str, str | float]:
        return {"method": method, "device": device, "all_test_nodes_s": everything, "one_node_s": one}

    timings = [
        timing("ours, features only, width 256", "cuda", 2.0, 0.5),
        timing("ours, features only, width 1,024", "cuda", 12.0, 0.6),
        timing("GCN, whole graph", "cuda", 1.0, 3.0),
        timing("GCN, 10 sampled neighbours a layer", "cuda", 50.0, 1.0),
        timing("ours, features only, width 256", "cpu", 4.0, 0.2),
        timing("GCN, whole graph", "cpu", 8.0, 1.0),
    ]
    assert "costs not run" in words(tmp_path)
    write(tmp_path, Job("debian_bookworm", COST), timings=timings)
    page = words(tmp_path)
    assert "on a GPU 2.0 to 12 times (Debian packages, features only, width 1,024)" in page
    assert "on a CPU 0.5 to 0.5 times" in page
    assert "takes at most 0.60 times as long" in page


def test_the_page_of_results_says_the_same(tmp_path: Path) -> None:
    rows = [line for line in in_short(Finished(tmp_path)).splitlines() if line.startswith("| n")]
    assert len(rows) == 3 and all(row.count("| not run ") == 5 for row in rows)


def with_edges(folder: Path, method: str, head: str, level: float, seed: int = 0) -> None:
    found = [{"share": 1.0, "split": 0, "head": head, "validation": 0.5, "seen": level, "unseen": level}]
    job = {"data": "planetoid_cora", "method": method, "setting": "unseen", "seed": seed}
    name = f"edges-planetoid_cora-{method}-unseen-s{seed}.json"
    (folder / name).write_text(json.dumps({"job": job, "runs": found, "teacher": found}))


def test_ours_with_edges_is_held_against_the_gcn_that_taught_glnn(tmp_path: Path) -> None:
    with_edges(tmp_path, "ours", "logistic", 0.84)
    with_edges(tmp_path, "glnn", "gcn", 0.83)
    lines = in_short(Finished(tmp_path)).splitlines()
    head, row = (line for line in lines if line.startswith(("| codes", "| new nodes, given")))
    assert row.split("|")[head.split("|").index(" Cora ")] == " +1.0 "


def test_the_page_begins_with_new_nodes_and_their_edges(tmp_path: Path) -> None:
    with_edges(tmp_path, "ours", "logistic", 0.84)
    with_edges(tmp_path, "glnn", "gcn", 0.83)
    first = words(tmp_path).splitlines()[1]
    assert first.startswith("New nodes with their edges: ours") and "some runs on Cora are of an earlier one" in first
    assert "at or above a tuned GCN on 1 of 1 graph, with all" in first
    assert "With edges, no other method is ahead of ours." in words(tmp_path)
    with_edges(tmp_path, "sign", "mlp", 0.86)
    assert "ahead of ours on 1 of 1 graphs: Cora (SIGN 86.0, ours 84.0)." in words(tmp_path)


def test_averaged_features_are_compared_seed_by_seed(tmp_path: Path) -> None:
    with_edges(tmp_path, "ours", "logistic", 0.84)
    assert "feature_hops" not in words(tmp_path)
    with_edges(tmp_path, "ours", "logistic", 0.5, seed=1)  # has no counterpart
    with_edges(tmp_path, "ours-hops", "logistic", 0.8)
    assert "in points: Cora -4.0 (1 seed)." in words(tmp_path)
