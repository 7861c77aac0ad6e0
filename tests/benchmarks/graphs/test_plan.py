"""What is missing, in which order, and what the generated page makes of results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.common.plan import Job as PlannedJob
from benchmarks.common.plan import Place
from benchmarks.graphs import plan, quality, study, tables
from benchmarks.graphs.jobs import CANDIDATES, COST, DENSE, FORMS, FURTHER, RELATIONS, RIVALS, SETS, Job
from benchmarks.graphs.plan import Finished, missing

ABOUT = {"device": "a card", "torch": "2", "commit": "abc", "date": "2026-01-01"}


def write(folder: Path, job: Job, **content: object) -> None:
    folder.mkdir(exist_ok=True)
    made = {"job": vars(job), "seconds_training": 2.0, "seconds": 3.0, **ABOUT, **content}
    (folder / f"{job.name}.json").write_text(json.dumps(made))


def screened(folder: Path, data: str, best_relation: str, best_form: str) -> None:
    """The screening of one set, all of it at 0.5 but for what is to be chosen."""
    for relation in RELATIONS:
        score = 0.7 if relation == best_relation else 0.5
        write_screen(folder, Job(data, "scl", relation=relation, screening=True), score)
    for form in CANDIDATES:
        write_screen(folder, Job(data, form, relation=best_relation, screening=True), 0.8 if form == best_form else 0.7)


def write_screen(folder: Path, job: Job, score: float) -> None:
    write(folder, job, validation={"logistic": score, "mlp": 0.1, "mlp and raw": score})


def runs(head: str, level: float, unseen: float | None = None, **further: float) -> list[dict[str, object]]:
    """Three shares, two splits, 0.02 apart."""
    return [
        {"split": split, "share": share, "labels": 10, "head": head, "validation": level, "seen": level + 0.02 * split}
        | {"unseen": unseen, **further}
        for split in (0, 1)
        for share in (0.01, 0.1, 1.0)
    ]


def row(page: str, label: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_without_results_screening_rivals_and_costs_are_missing(tmp_path: Path) -> None:
    jobs = missing(Finished(tmp_path))
    assert len(jobs) == len(set(jobs))
    kinds = [(job.screening, job.method in RIVALS, job.method == COST) for job in jobs]
    assert kinds.index((True, False, False)) == 0 and (False, True, False) in kinds and (False, False, True) in kinds
    # What needs a choice waits.
    assert all(job.screening for job in jobs if job.ours)
    assert len([job for job in jobs if job.screening]) == len(RELATIONS) * len(SETS) + len(FURTHER) * len(DENSE)


def test_choices_open_what_waited_for_them(tmp_path: Path) -> None:
    screened(tmp_path, "planetoid_cora", "walks-uniform", "nested")
    finished = Finished(tmp_path)
    assert (finished.relation("planetoid_cora"), finished.form("planetoid_cora")) == ("walks-uniform", "nested")
    assert finished.relation("coauthor_physics") is None and finished.form("coauthor_physics") is None
    jobs = [job for job in missing(finished) if job.data == "planetoid_cora"]
    ours = Job("planetoid_cora", "nested", relation="walks-uniform")
    unseen = Job("planetoid_cora", "nested", "unseen", relation="walks-uniform")
    assert jobs.index(ours) < jobs.index(Job("planetoid_cora", "gcn")) < jobs.index(unseen)
    assert Job("planetoid_cora", "nested", "unseen", 2, "walks-uniform") in jobs
    assert Job("planetoid_cora", "neuralef", relation="walks-uniform") in jobs
    write(tmp_path, ours, runs=runs("logistic", 0.5))
    assert ours not in missing(Finished(tmp_path))


def test_further_relations_are_chosen_from_where_they_ran(tmp_path: Path) -> None:
    screened(tmp_path, "debian_bookworm", "walks-uniform", "nested")
    assert Finished(tmp_path).relation("debian_bookworm") == "walks-uniform"
    write_screen(tmp_path, Job("debian_bookworm", "scl", relation="walks", screening=True), 0.9)
    assert Finished(tmp_path).relation("debian_bookworm") == "walks"
    assert Finished(tmp_path).form("debian_bookworm") is None  # not screened on that relation yet


def test_a_collapse_is_never_chosen(tmp_path: Path) -> None:
    screened(tmp_path, "planetoid_cora", "walks-uniform", "trace")
    write(tmp_path, Job("planetoid_cora", "trace", relation="walks-uniform", screening=True), collapsed="it collapsed")
    assert Finished(tmp_path).form("planetoid_cora") == "scl"


def test_estimates_are_longer_on_a_cpu_and_shorter_for_screening() -> None:
    job = Job("amazon_computers", "scl", relation="walks-uniform")
    assert plan.seconds(job, "cpu") > plan.seconds(job) > 0
    screen = Job("amazon_computers", "scl", relation="walks-uniform", screening=True)
    assert plan.seconds(screen) < plan.seconds(job)
    assert all(plan.seconds(Job(data, method)) > 0 for data in SETS for method in (*RIVALS, COST))


def test_the_command_of_a_job_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, tmp_path, device="cpu")
    seen: list[Job] = []

    def pretend(job: Job, data: Path, *, n_splits: int, device: str) -> dict[str, object]:
        seen.append(job)
        assert (data, n_splits, device) == (tmp_path, 2, "cpu")
        return {"job": vars(job), "collapsed": "pretended", **ABOUT}

    monkeypatch.setattr(quality, "run", pretend)
    jobs = [
        Job("planetoid_cora", "gcn", "unseen", 1),
        Job("planetoid_cora", "nested", "seen", 2, "walks-uniform"),
        Job("planetoid_cora", "scl", relation="uniform", screening=True),
    ]
    for job in jobs:
        planned = PlannedJob(job.name, "graphs.quality", study.words_of(job))
        monkeypatch.setattr(sys, "argv", planned.command(place)[2:])
        quality.main()
        assert seen[-1] == job and (tmp_path / f"{job.name}.json").is_file()


def test_a_cost_is_measured_by_the_one_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On a graph of 60 nodes."""
    random = np.random.default_rng(0)
    edges = random.integers(0, 60, (2, 200))
    np.savez(tmp_path / "planetoid_cora.npz", x=random.random((60, 3)), edge_index=edges, y=np.arange(60) % 3)
    words = ["graphs", "run", "cost-planetoid_cora", "--again", "--device", "cpu", "--data", str(tmp_path)]
    assert main([*words, "--results", str(tmp_path / "results"), "--seconds", "1"]) == 0  # no time
    assert capfd.readouterr().out == ""
    assert main([*words, "--results", str(tmp_path / "results")]) == 0
    said = capfd.readouterr().out.splitlines()
    assert (said[0], said[-1]) == ("start  cost-planetoid_cora", "done   cost-planetoid_cora")
    result = json.loads((tmp_path / "results" / "cost-planetoid_cora.json").read_text())
    assert result["test_nodes"] == 48


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    page = tables.page(tmp_path)
    assert row(page, "MLP on features") == ["no", *["not run"] * 7]
    assert row(page, "node2vec + MLP") == ["transductive", *["not run"] * 3, "–", "–", "–", "not run"]
    assert "Cora, the pilot's gap of 12.4 points to GCN at least halved: not run." in page
    assert row(page, "Cora, seen") == ["not run"] * 5
    assert row(page, "Cora, unseen") == ["not run", "–", "–", "not run", "not run"]


def test_rows_are_means_over_seeds_and_splits(tmp_path: Path) -> None:
    screened(tmp_path, "planetoid_cora", "walks-uniform", "nested")
    for seed in (0, 1):
        ours = Job("planetoid_cora", "nested", "seen", seed, "walks-uniform")
        aligned = {"code": "aligned", "probe": "logistic", "share": 1.0, "validation": 0.5}
        curve = [{**aligned, "dim": 8, "accuracy": 0.7}, {**aligned, "dim": 128, "accuracy": 0.8}]
        made = [*runs("logistic", 0.80 + 0.1 * seed), *runs("mlp", 0.5), *runs("ridge", 0.4), *runs("paper", 0.3)]
        write(tmp_path, ours, runs=made, lengths=curve)
        write(tmp_path, Job("planetoid_cora", "gcn", "seen", seed), runs=runs("gcn", 0.9))
    write(
        tmp_path, Job("planetoid_cora", "nested", "unseen", 0, "walks-uniform"), runs=runs("logistic", 0.6, unseen=0.55)
    )
    write(tmp_path, Job("planetoid_cora", "gcn", "unseen", 0), runs=runs("gcn", 0.9, unseen=0.8, unseen_alone=0.4))
    page = tables.page(tmp_path)
    cora = next(part for part in page.split("\n### ") if part.startswith("Cora"))
    ours = row(cora, "**ours: nested moments (ordered)**, logistic probe")
    assert ours == ["**no**", *["86.0 ± 5.9"] * 3, *["55.0 ± 0.0"] * 3, "2.0"]
    assert row(cora, "GCN, full batch") == ["yes", *["**91.0 ± 1.2**"] * 3, *["**80.0 ± 0.0**"] * 3, "2.0"]
    assert row(cora, "GCN, full batch, without edges at inference")[4:] == [*["40.0 ± 0.0"] * 3, "2.0"]
    assert (
        "Our relation, chosen on validation labels: walks-uniform (go_on = 0.7, start = uniform)" in cora
        and "6 runs." in cora
    )
    assert "at least halved: yes (86.0 against 91.0, a gap of +5.0)" in page
    lengths = page.split("## Accuracy against code length")[1].split("### Cora")[1]
    assert row(lengths, "ours, aligned") == ["70.0 ± 0.0", "–", "–", "–", "80.0 ± 0.0", "80.0 ± 0.0"]
    assert row(page, "Cora, seen")[3] == "-5.0 / -5.0 / -5.0"
    probes = page.split("## Three linear probes")[1]
    assert row(probes, "Cora")[0] == "41.0 ± 1.2"


def test_seconds_of_a_card_and_of_a_cpu_are_not_mixed(tmp_path: Path) -> None:
    job = Job("planetoid_cora", "mlp", seed=1)
    write(tmp_path, job, runs=runs("mlp", 0.7), seconds_training=50.0, device="cpu, 1 threads")

    def seconds() -> str:
        cora = next(part for part in tables.page(tmp_path).split("\n### ") if part.startswith("Cora"))
        return row(cora, "MLP on features")[-1]

    assert seconds() == "50.0 (CPU)"
    write(tmp_path, Job("planetoid_cora", "mlp"), runs=runs("mlp", 0.7))
    assert seconds() == "2.0"


def test_the_one_split_of_a_set_counts_once_with_all_labels(tmp_path: Path) -> None:
    write(tmp_path, Job("debian_bookworm", "mlp"), runs=runs("mlp", 0.7))
    debian = next(part for part in tables.page(tmp_path).split("\n### ") if part.startswith("Debian"))
    assert row(debian, "MLP on features")[1:4] == ["71.0 ± 1.4", "71.0 ± 1.4", "71.0"]


def test_missed_goals_are_said(tmp_path: Path) -> None:
    screened(tmp_path, "amazon_computers", "uniform", "scl")
    curve = ((8, 0.7), (16, 0.85), (32, 0.88), (128, 0.9))
    rows = [
        {"code": code, "probe": probe, "share": 1.0, "dim": dim, "accuracy": accuracy, "validation": validation}
        for probe in ("logistic", "mlp")
        for code, validation in (("aligned", 0.8), ("PCA", 0.7))  # better on test nodes does not count
        for dim, accuracy in (curve if code == "aligned" else [(dim, 0.95) for dim, _ in curve])
    ]
    ours = Job("amazon_computers", "scl", relation="uniform")
    write(tmp_path, ours, runs=runs("logistic", 0.8) + runs("mlp", 0.85), lengths=rows)
    write(tmp_path, Job("amazon_computers", "gcn"), runs=runs("gcn", 0.9))
    page = tables.page(tmp_path)
    assert "Amazon Computers, above a tuned GCN: missed (86.0 against 91.0)." in page
    assert 'Logistic of the code "aligned": 8: 70.0 (missed), 16: 85.0 (missed), 32: 88.0 (yes), all: 90.0' in page
    assert "eight directions are few for them" in page
    assert "with 1, 10 and 100 % of the training labels. Not run: Amazon Computers," in page
    write(tmp_path, Job("amazon_computers", "mlp"), runs=runs("mlp", 0.9))
    shorter = [{**row, "code": "PCA", "accuracy": 0.6} for row in rows if row["dim"] in (8, 16, 32)]
    whole = [{**shorter[0], "dim": 256, "accuracy": 0.9}]
    write(tmp_path, Job("amazon_computers", "bgrl"), runs=runs("logistic", 0.5), lengths=shorter + whole)
    page = tables.page(tmp_path)
    assert "Missed: Amazon Computers (MLP at 1 %, 86.0 against 91.0; " in page
    assert "the same cut costs BGRL 30.0 points." in page


def test_every_form_has_a_name() -> None:
    assert set(tables.FORM_NAMES) == set(FORMS)
