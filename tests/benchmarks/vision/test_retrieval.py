"""A job of the study from images to its JSON file, in small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import harness
from benchmarks.common.plan import Job as PlannedJob
from benchmarks.common.plan import Place
from benchmarks.vision import retrieval, sets, study
from benchmarks.vision.jobs import Job
from benchmarks.vision.plan import REMEDIES
from benchmarks.vision.sets import DataSet
from eigenmap.core.errors import EigenmapError
from eigenmap.fitting import pipeline
from eigenmap.training import CollapseError, TrainingConfig
from tests.end_to_end.photos import pictures

SIZE, TRAIN, TEST = 12, 160, 24


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sets of tiny pictures: one with classes, one with several labels an image, trained with a small network."""
    images, labels = pictures(TRAIN + TEST, SIZE), np.arange(TRAIN + TEST) % 4
    both = np.eye(4, dtype=bool)[labels] | np.eye(4, dtype=bool)[(labels + 1) % 4]
    for name, y in (("tiny", labels), ("coco", both)):
        parts = {"train_x": images[:TRAIN], "train_y": y[:TRAIN], "test_x": images[TRAIN:], "test_y": y[TRAIN:]}
        np.savez(tmp_path / f"{name}.npz", **parts)
    monkeypatch.setitem(sets.SETS, "tiny", DataSet("laptop", TRAIN, "weak", top=(5, 10), transfer="coco"))
    monkeypatch.setitem(sets.SETS, "coco", DataSet("laptop", TRAIN, "weak", top=(5, 10, 20)))
    monkeypatch.setitem(sets.QUERIES, "tiny", 10)
    return tmp_path


def test_a_job_measures_every_code_and_what_else_it_is_for(data: Path) -> None:
    job = Job("tiny", "scl", 0.01, 1, n_components=8, batch_size=32)
    result = retrieval.run(job, data, compiled=False, study=True, codes=data / "codes.npz")
    own = [f"{source} {kind}" for source in ("encoder", "projector") for kind in ("PCA centred", "PCA uncentred")]
    own += ["projector own order", "encoder aligned", "projector aligned"]
    own += ["encoder random features", "projector random features"]
    for tables, cut in ((result["retrieval"], 10), (result["transfer"]["coco"], 20)):
        assert sorted(tables) == sorted(own)
        for rows in tables.values():
            assert rows[0]["dim"] == 2 and all(0 <= row[f"map_over_found@{cut}"] <= 1 for row in rows)
    assert result["chosen_source"] in ("encoder", "projector")
    assert len(result["study"]) == 60
    assert all(0 <= value <= 1 for row in result["agreement"].values() for value in row.values())
    assert {0 <= result[name] <= 1 for name in ("knn_held_out", "knn_test", "knn_code_test", "linear_ridge_test")} == {
        True
    }
    assert result["protocol"].startswith("mAP and precision of the first 10 test images")
    assert "study" in result["seconds_of_parts"]
    codes = np.load(data / "codes.npz")
    assert codes["gallery"].shape == (TRAIN, len(codes["eigenvalues"])) and len(codes["queries"]) == 10
    assert codes["gallery_labels"].shape == (TRAIN,)
    harness.write(data / "results" / f"{job.name}.json", result)
    assert not list((data / "results").glob("*.partial"))


def test_a_projector_may_have_a_rate_of_its_own(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def start(config: TrainingConfig) -> None:
        given.append(config.projector_lr_scale)
        raise CollapseError("seen enough")

    monkeypatch.setattr(pipeline, "start", start)
    for method in ("scl", "scl-slow-projector", "scl-fast-projector"):
        retrieval.run(Job("tiny", method, 0.01, 1, n_components=8, batch_size=32), data, compiled=False)
    assert given == [1.0, 0.3, 3.0]


@pytest.mark.parametrize("method", REMEDIES)
def test_every_remedy_for_large_batches_trains(data: Path, method: str) -> None:
    job = Job("tiny", method, 0.01, 2, n_components=8, batch_size=64, part="robustness")
    result = retrieval.run(job, data, compiled=False)
    assert 0 <= result["knn_test"] <= 1 and result["recipe"]["batch_size"] == 64


def test_several_labels_allow_for_retrieval_alone(data: Path) -> None:
    result = retrieval.run(Job("coco", "scl", 0.01, 1, n_components=4, batch_size=32), data, compiled=False)
    assert "map_over_found@20" in result["retrieval"]["projector aligned"][0]
    assert not any(name.startswith(("knn", "linear", "study", "transfer")) for name in result)


def test_robustness_measures_accuracy_alone(data: Path) -> None:
    job = Job("tiny", "gram-lars", 0.1, 1, n_components=4, batch_size=32, part="robustness")
    result = retrieval.run(job, data, compiled=False)
    assert result["benchmark"] == "robustness" and result["recipe"]["optimizer"] == "lars"
    assert 0 <= result["linear_ridge_test"] <= 1 and "retrieval" not in result


def test_a_collapse_is_a_result(data: Path) -> None:
    """Black images leave nothing to tell apart."""
    arrays = dict(np.load(data / "tiny.npz"))
    np.savez(data / "tiny.npz", **arrays | {"train_x": np.zeros_like(arrays["train_x"])})
    result = retrieval.run(Job("tiny", "scl", 0.01, 16, n_components=4, batch_size=32), data, compiled=False)
    assert result["collapsed"].startswith("the network collapsed") and "retrieval" not in result
    assert [record["effective_rank"] for record in result["history"]][-3:] == [0.0] * 3


def test_a_job_waits_for_all_sets_it_needs(data: Path) -> None:
    (planned, *_) = (job for job in study.jobs(Place(data)) if job.stage == "tiny")
    assert planned.lacks(data) == []
    (data / "coco.npz").unlink()
    assert planned.lacks(data) == ["coco.npz"]
    with pytest.raises(EigenmapError, match=r"coco.npz does not exist: make it with benchmarks/vision/prepare.py"):
        sets.load(data, "coco")


def test_the_command_of_a_job_describes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path / "results", tmp_path)
    job = Job("cifar10", "paper", 0.6, 10, 1, 128, 256, part="robustness")
    done: list[Job] = []

    def run(job: Job, data: Path, *, compiled: bool, study: bool, codes: Path | None) -> dict[str, object]:
        done.append(job)
        assert (data, compiled, study, codes) == (tmp_path, False, False, None)
        return {"job": vars(job), "collapsed": "not run"}

    monkeypatch.setattr(retrieval, "run", run)
    planned = PlannedJob(job.name, "vision.retrieval", study.words_of(job))
    further = ["--eager", "--default-codes", str(tmp_path)]
    monkeypatch.setattr("sys.argv", planned.command(place, further)[2:])
    retrieval.main()
    assert done == [job] and (tmp_path / "results" / f"{job.name}.json").is_file()
