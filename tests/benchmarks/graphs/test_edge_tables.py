"""The page's part on codes with edges, from results written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.graphs import edge_goals, edge_tables, edges
from benchmarks.graphs.plan import Finished

ABOUT = {"device": "a card", "torch": "2", "commit": "abc", "date": "2026-01-01", "seconds_training": 1.0}
SHARES = (0.01, 0.1, 1.0)


def runs(head: str, level: float, validation: float = 0.5) -> list[dict[str, Any]]:
    return [
        {"share": share, "split": split, "head": head, "validation": validation, "seen": level, "unseen": level}
        for share in SHARES
        for split in (0, 1)
    ]


def write(folder: Path, job: edges.EdgeJob, **content: Any) -> None:
    (folder / f"{job.name}.json").write_text(json.dumps({"job": vars(job), **ABOUT, **content}))


def result_of_ours(folder: Path, data: str, setting: Any, level: float, alone: float, way: str = "S2") -> None:
    lengths = [{"code": "with edges", "dim": dim, "accuracy": level - 0.02 * (dim == 8)} for dim in (8, 128)]
    for seed in (0, 1, 2):
        found = runs("logistic", level, 0.7) + runs("mlp", 0.99, 0.6) + runs("few", 0.5)
        job = edges.EdgeJob(data, "ours", setting, seed)
        neighbours = {"chosen": way, "scores": [{"way": way, "restart": 0.0, "rank": 0.3}]}
        write(folder, job, runs=found, alone=runs("logistic", alone), neighbours=neighbours, lengths=lengths)


def text(folder: Path, part: Any) -> str:
    return "\n\n".join(part(Finished(folder)))


PARTS = (edge_tables.with_edges, edge_tables.own_graphs, edge_tables.twenty_labels, edge_tables.edge_costs)


def test_without_results_nothing_is_said_and_with_some_the_others_are_missing(tmp_path: Path) -> None:
    assert not any(text(tmp_path, part) for part in PARTS)
    result_of_ours(tmp_path, "planetoid_cora", "unseen", 0.8, 0.7)
    assert "not run" in text(tmp_path, edge_tables.with_edges) and not text(tmp_path, edge_tables.own_graphs)


def test_tables_of_other_graphs_and_of_twenty_labels(tmp_path: Path) -> None:
    result_of_ours(tmp_path, "made-cycle", "unseen", 0.8, 0.7, way="S2")
    result_of_ours(tmp_path, "planetoid_cora-official", "seen", 0.81, 0.7)
    assert "| made-cycle | S2 | 70.0 ± 0.0 | 80.0 ± 0.0 | not run | not run |" in text(tmp_path, edge_tables.own_graphs)
    found = text(tmp_path, edge_tables.twenty_labels)
    assert "| Cora, official split | 81.0 ± 0.0 | 50.0 ± 0.0 | 70.0 ± 0.0 | not run | not run |" in found
    job = edges.EdgeJob("planetoid_cora-official", "glnn", "seen", 0)
    write(tmp_path, job, runs=runs("glnn", 0.4), teacher=runs("gcn", 0.79))
    assert "| 70.0 ± 0.0 | 79.0 (1 seed) | not run |" in text(tmp_path, edge_tables.twenty_labels)


def test_devices_and_results_that_have_to_be_repeated_are_named(tmp_path: Path) -> None:
    result_of_ours(tmp_path, "planetoid_cora", "unseen", 0.8, 0.7)
    page = text(tmp_path, edge_tables.with_edges)
    assert "Ours was trained: unseen nodes on a GPU for Cora." in page
    assert "Ours has to be repeated on unseen nodes of Cora:" in page
    for seed in (0, 1, 2):
        path = tmp_path / f"edges-planetoid_cora-ours-unseen-s{seed}.json"
        size = {"size": {"width": 512, "blocks": 0}, "device": "cpu, 1 threads"}
        ranks = {256: 0.2, 512: 0.3, 1024: 0.3, 2048: 0.3}
        sizes = [{"width": width, "blocks": 0, "rank": rank, "cost": width} for width, rank in ranks.items()]
        path.write_text(json.dumps({**json.loads(path.read_text()), **size, "sizes": sizes}))
    page = text(tmp_path, edge_tables.with_edges)
    assert "unseen nodes on a CPU for Cora." in page and "has to be repeated" not in page


def test_made_graphs_where_a_gcn_uses_edges_and_ours_does_not_are_named(tmp_path: Path) -> None:
    for data, way in (("made-blocks", "none"), ("made-words", "S2")):
        result_of_ours(tmp_path, data, "unseen", 0.8, 0.8, way)
        write(tmp_path, edges.EdgeJob(data, "glnn", "unseen", 0), runs=[], teacher=runs("gcn", 0.9))
    page = text(tmp_path, edge_tables.own_graphs)
    assert "and a GCN that uses them is ahead, on made-blocks (90.0 against 80.0)." in page


def test_a_classifier_that_only_some_results_have_does_not_count(tmp_path: Path) -> None:
    result_of_ours(tmp_path, "planetoid_cora", "unseen", 0.8, 0.7)
    path = tmp_path / "edges-planetoid_cora-ours-unseen-s0.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "runs": found["runs"] + runs("joined", 0.9, 0.9)}))
    shown = edge_tables.values(Finished(tmp_path), "planetoid_cora", edge_tables.OURS, "unseen", 1.0)
    assert shown == pytest.approx([80.0] * 6)


def test_one_split_counts_once(tmp_path: Path) -> None:
    result_of_ours(tmp_path, "actor", "unseen", 0.4, 0.3)
    found = Finished(tmp_path)
    assert len(edge_tables.values(found, "actor", edge_tables.OURS, "unseen", 1.0)) == 3
    assert len(edge_tables.values(found, "actor", edge_tables.OURS, "unseen", 0.1)) == 6


@pytest.mark.parametrize(("seconds", "met"), [(0.03, 1), (0.04, 0)])
def test_costs_are_held_against_a_gcn(tmp_path: Path, seconds: float, met: int) -> None:
    rows = [
        {"method": "ours, features alone, float32", "all_nodes_s": 0.05, "one_node_s": 1e-5, "working_mb": 1.0},
        {"method": "ours, features alone, bfloat16", "all_nodes_s": seconds, "one_node_s": 1e-4, "working_mb": 1.0},
        {"method": "ours with edges, S, bfloat16", "failed": "out of memory"},
        {"method": "ours with edges, pagerank, restart 0.1, bfloat16", "all_nodes_s": 0.02, "working_mb": 3.0},
        {"method": "GCN, full batch", "all_nodes_s": 0.01, "working_mb": 2.0},
        {"method": "GCN, 10 sampled neighbours a layer", "one_node_s": 2e-4},
    ]
    timings = [{"device": "cuda", "inputs_mb": 3.0, **row} for row in rows]
    result = {**ABOUT, "nodes": 2708, "timings": timings}
    (tmp_path / "edge-cost-planetoid_cora.json").write_text(json.dumps(result))
    page = text(tmp_path, edge_tables.edge_costs)
    line = next(line for line in page.splitlines() if line.startswith("| Cora"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:10] == ["cuda", "earlier default", "10", f"{100 * seconds:.1f}", "–", "–", "–", "2.0", "0.50 / 1.5"]
    assert cells[10:] == ["0.2", "0.05", "–"]
    goals = {goal.name: goal for goal in edge_goals._cheap(Finished(tmp_path))}
    every, one = goals.values()
    assert every.name.startswith("All nodes on a GPU in at most 3 times") and every.met is False
    assert every.figures == f"features alone on {met} of 1 graph; pagerank, restart 0.1 on 0 of 1 graph"
    assert one.met and one.figures == "features alone on 1 of 1 graph"


def test_whether_rows_on_a_cpu_are_of_todays_passes_is_said(tmp_path: Path) -> None:
    row = {"method": "ours, features alone, float32", "device": "cpu", "all_nodes_s": 1.0}
    for more, told in (({}, True), ({"at_a_time": 512}, False)):
        result = {**ABOUT, "nodes": 3327, "width": 256, "blocks": 0, "timings": [{**row, **more}]}
        (tmp_path / "edge-cost-planetoid_citeseer-cpu.json").write_text(json.dumps(result))
        assert (edge_tables.EARLIER_ROWS in text(tmp_path, edge_tables.edge_costs)) == told


def test_rows_of_a_later_run_on_a_cpu_take_the_place_of_those_beside_a_gpu(tmp_path: Path) -> None:
    def rows(device: str, seconds: float) -> list[dict[str, Any]]:
        methods = ("ours, features alone, float32", "GCN, full batch")
        return [
            {"method": name, "device": device, "all_nodes_s": part}
            for name, part in zip(methods, (seconds, 1.0), strict=True)
        ]

    both = {**ABOUT, "nodes": 3327, "timings": rows("cuda", 2.0) + rows("cpu", 4.0)}
    alone = {**ABOUT, "nodes": 3327, "width": 1024, "blocks": 0, "timings": rows("cpu", 0.5)}
    (tmp_path / "edge-cost-planetoid_citeseer.json").write_text(json.dumps(both))
    (tmp_path / "edge-cost-planetoid_citeseer-cpu.json").write_text(json.dumps(alone))
    page = text(tmp_path, edge_tables.edge_costs)
    lines = [line.split(" | ")[1:5] for line in page.splitlines() if line.startswith("| Citeseer")]
    assert lines == [["cuda", "earlier default", "1e+03", "2.0"], ["cpu", "1,024, 0", "1e+03", "0.50"]]
    assert "have to be measured again" in page
