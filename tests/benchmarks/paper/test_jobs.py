"""The prepared jobs of every item, tried with tiny settings by their own commands, and what is shared."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path

import pytest

from benchmarks.common.plan import Job, Place, Stored
from benchmarks.paper import RESULTS, coco_ap, more_sections, ours, probes, reasons, sections, study, verdicts
from benchmarks.vision import RESULTS as VISION
from eigenmap.detection.average_precision import average_precision
from eigenmap.reproduce import recipe_of
from eigenmap.reproduce.sweeps import Run

TRIED = {
    "probe-cifar10-barlow-twins-l0.0102-b2048-k2048-e20-s0": "linear_ridge_test",
    "probe-cifar10-unordered-linear-b2048-k2048-e20-s0": "linear_ridge_test",
    "small-k-cifar10-s0": "retrieval",
    "table-6-planetoid_cora-s0": "rows",
    "table-5-tiny-random-s0": "box",
    "test-cost": "rows",
    "pictures-cifar10": "optimised",
    "figure-rbf-s0": "paper",
}
"""Jobs of every module, and what their results must have."""


def planned(place: Place) -> list[Job]:
    return list(study.jobs(place))


@pytest.mark.parametrize("name", TRIED)
def test_the_commands_work(name: str, tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path, "cpu")
    (job,) = (job for job in planned(place) if job.name == name)
    words = job.command(place)
    module = importlib.import_module(words[2])
    module.main([*words[3:], "--scale", "tiny"])
    result = json.loads((tmp_path / f"{name}.json").read_text())
    assert result[TRIED[name]] and result["scale"] == "tiny" and result["commit"]
    (again,) = (job for job in planned(place) if job.name == name)
    assert again.done


def test_items_in_the_order_of_the_issue_and_every_module_tried() -> None:
    jobs = planned(Place(Path("nowhere")))
    stages = list(dict.fromkeys(job.stage for job in jobs))
    assert stages == [
        *("table-1", "figure-retrieval", "table-6", "table-4", "table-2", "table-3", "table-5"),
        *("test-cost", "figures"),
    ]
    modules = {job.module for job in jobs if job.name in TRIED} | {"paper.table_1", "vision.retrieval"}
    assert {job.module for job in jobs} <= modules


def test_runs_of_other_studies_are_used_where_settings_are_equal() -> None:
    stored = Stored(VISION, RESULTS)
    names = {job.name for job in planned(Place(Path("nowhere")))}
    shared = probes.Job.of(Run("unordered", epochs=50))
    assert probes.stored_result(shared, stored) is not None and shared.name not in names
    ours_, theirs = shared.run.recipe("small"), recipe_of("unordered", "small")
    for setting in ("lr", "batch_size", "epochs", "objective_options", "views", "optimizer", "hidden", "n_components"):
        assert getattr(ours_, setting) == getattr(theirs, setting), setting
    simsiam = probes.Job.of(Run("simsiam", epochs=50))  # to be run for table 1
    assert simsiam.name not in names and set(simsiam.others) & names
    linear = probes.Job.of(Run("unordered", 512, 2048, 20, projector="linear"))
    assert linear.others == []


def test_a_job_describes_the_recipe_of_its_run() -> None:
    for job, item in probes.every().items():
        recipes = [run.recipe("small") for run in probes.ITEMS[item]("small") if probes.Job.of(run) == job]
        assert recipes and job.run.recipe("small") == recipes[0]


def test_the_page_follows_results(tmp_path: Path) -> None:
    run = Run("scl", 256, 2048, 20)
    result = {"linear_ridge_test": 0.5, "knn_test": 0.4, "knn_held_out": 0.3}
    (tmp_path / f"{probes.Job.of(run).name}.json").write_text(json.dumps(result))
    assert "| 256 | 63.0 | 50.0 | 57.6 | not run |" in sections.table_2(Stored(VISION, tmp_path))
    for lambda_, held_out in ((0.0051, 0.2), (0.0102, 0.7), (0.0204, 0.5)):
        job = probes.Job.of(Run("barlow-twins", 256, 2048, 20, lambda_))
        content = {"linear_ridge_test": lambda_ * 10, "knn_held_out": held_out}
        (tmp_path / f"{job.name}.json").write_text(json.dumps(content))
    assert "| 57.6 | 10.2 (0.0102) |" in sections.table_2(Stored(VISION, tmp_path))
    fallen = probes.Job.of(Run("unordered", 2048, 2048, 20, projector="none"))
    (tmp_path / f"{fallen.name}.json").write_text(json.dumps({"collapsed": "rank 1"}))
    assert "| no projector | failed or poor | collapsed |" in sections.table_3(Stored(VISION, tmp_path))
    figures = dict.fromkeys(("AP", "AP50", "AP75"), 0.25)
    (tmp_path / "table-5-tiny-random-s0.json").write_text(json.dumps({"box": figures, "mask": figures}))
    assert "| random weights |  | 25.0 / 25.0 / 25.0 / 25.0 / 25.0 / 25.0 |" in more_sections.table_5(Stored(tmp_path))
    rows = [{"method": "m", "share": share, "accuracy": share / 2, "spread": 0} for share in (1.0, 0.1, 0.01)]
    (tmp_path / "table-6-planetoid_cora-s0.json").write_text(json.dumps({"rows": rows}))
    text = more_sections.table_6(Stored(tmp_path))
    assert "With 1% of the labels:\n\n| method | Cora |\n| --- | ---: |\n| m | 0.5 ± 0.0 |" in text
    cost = [{"method": "x", "whole_set_s": 1.5, "per_node_s": 1e-6, "one_node_s": 1e-3}]
    (tmp_path / "test-cost.json").write_text(json.dumps({"rows": cost, "device": "GPU"}))
    assert "| x | 1.5000 s | 1.000 us | 1.000 ms |" in more_sections.test_cost(Stored(tmp_path))
    rbf = {"alignment": [0.9, 0.8, 0.7], "largest_off_diagonal": 0.1}
    learned = {"ours": rbf, "paper": rbf | {"alpha": 5.0, "width": 256, "steps": 600}}
    (tmp_path / "figure-rbf-s1.json").write_text(json.dumps(learned))
    assert "| the paper's objective | 0.900 | 0.800 | 0.700 | 0.100 | 1 |" in more_sections.gaussian_kernel(
        Stored(tmp_path)
    )
    listed = json.loads(ours.text(tmp_path))
    assert listed["test-cost"] == "ours 0.0010 s for one node, 1.50 s for all"
    assert listed["figure-rbf"] == "alignment 0.900, 0.800, 0.700"
    assert listed["table-2"].startswith("CIFAR-10: not run") and "(SCL 50.0 / " in listed["table-2"]
    assert "random weights 25.0, 25.0; supervised not run" in listed["table-5"]


def test_reasons_follow_the_figures() -> None:
    text = " ".join(reasons.section(Stored(VISION, RESULTS)).split())
    assert "collapsed at 4 of 7 rates, all from 0.6 on" in text and "4,350 in table 1 and 420 at batch 2,048" in text
    assert "From 50 to 200 epochs" in text
    assert "From 50 to 200 epochs" not in " ".join(reasons.section(Stored(VISION)).split())  # without table 4's runs


def test_the_answer_counts_comparisons() -> None:
    assert verdicts.score([0.6, -0.4, -0.5, 2.0], 0.5) == "ahead in 2, behind in 1 of 4"
    assert verdicts.score([], 0.5) == "not run"
    text = verdicts.in_short(Stored(VISION, RESULTS))
    assert text.startswith("**In short**") and "| – | ahead in 0, behind in 3 of 3 |" in text


def test_the_hours_are_the_arithmetic_of_the_stored_speed() -> None:
    rate = json.loads((VISION / "speed-resnet50-224.json").read_text())["rows"][0]["images_per_second"]
    text = more_sections.hours(Stored(VISION))
    assert f"= {8 * 100 * 1_281_167 / (8 * rate) / 3600:.1f} hours of 8 H200" in text


def test_scores_of_cocos_tools_must_agree_with_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = {"images": [], "categories": [], "annotations": []}
    monkeypatch.setattr(
        coco_ap, "by_cocos_tools", lambda truth, found, kind: dict(average_precision(truth, found, kind))
    )
    (tmp_path / "detections").mkdir()
    name = "table-5-tiny-random-s0.json"
    content = json.dumps({"truth": truth, "detections": []}).encode()
    (tmp_path / "detections" / f"{name}.gz").write_bytes(gzip.compress(content))
    (tmp_path / name).write_text("{}")
    coco_ap.main(["--results", str(tmp_path)])
    assert json.loads((tmp_path / name).read_text())["pycocotools"]["box"]["AP"] == 0
    monkeypatch.setattr(coco_ap, "by_cocos_tools", lambda truth, found, kind: {"AP": 0.5})
    with pytest.raises(SystemExit, match="differ"):
        coco_ap.main(["--results", str(tmp_path)])
