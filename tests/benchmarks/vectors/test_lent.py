"""The missing rows on a lent machine: tasks, their processes, and the way back."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import harness
from benchmarks.common.plan import Place
from benchmarks.vectors import lent, paired, study, translated, unlabelled, upgrade, variants
from benchmarks.vectors.lent import Task

from .data import write


@pytest.fixture
def every_set(tmp_path: Path) -> Path:
    """Files of all sets, of 9,000 rows."""
    for name, model in product(("debian", "wordnet", *translated.SETS, "cisi", "dbpedia"), ("minilm", "wordllama")):
        (tmp_path / name).mkdir(exist_ok=True)
        for side in ("queries", "documents") if name in ("cisi", "dbpedia") else ("left", "right"):
            np.save(tmp_path / name / f"{side}.{model}.npy", np.zeros((9_000, 1), np.float16))
    return tmp_path


def test_tasks_are_all_rows_of_their_jobs(every_set: Path) -> None:
    made = list(lent.tasks(every_set))
    rows = {(task.name, method) for task in made for method in task.methods}
    assert len(rows) == sum(len(task.methods) for task in made)
    methods = {"paired": paired.ALL_PAIRS, "translated": translated.METHODS, "unlabelled": unlabelled.METHODS}
    methods |= {"upgrade": upgrade.METHODS, "variants": tuple(variants.VARIANTS)}
    every = study.jobs(Place(every_set / "none"))
    jobs = [job for job in every if job.stage in methods and not job.name.startswith("few-")]  # of a few minutes
    assert {(job.name, method) for job in jobs for method in methods[job.stage]} <= rows
    assert all(dict(task.protocol)["pairs"] == 5_000 for task in made if task.name.startswith("paired"))
    assert len({task.file for task in made}) == len(made)


def test_without_vectors_there_are_no_tasks(tmp_path: Path) -> None:
    assert list(lent.tasks(tmp_path)) == []


def test_a_row_is_missing_unless_it_was_measured_on_the_same_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lent, "RESULTS", tmp_path / "old")
    task = Task("a-s0", "paired", (), ("pca", "cca"), 1.0, protocol=(("pairs", 7),))
    rows = [{"method": "pca"}, {"method": "cca"}]
    for pairs, kept, again, missing in ((7, 2, (), False), (7, 1, (), True), (8, 2, (), True), (7, 2, ("cca",), True)):
        harness.write(tmp_path / "old" / "a-s0.json", {"protocol": {"pairs": pairs}, "rows": rows[:kept]})
        assert lent.missing(task, tmp_path / "new", again) is missing
    harness.write(tmp_path / "new" / task.file, {"protocol": {"pairs": 7}, "rows": rows[1:]})
    assert not lent.missing(task, tmp_path / "new", ("cca",))


def test_a_row_of_other_settings_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent, "RESULTS", tmp_path)
    harness.write(tmp_path / "a-s0.json", {"rows": [{"method": "neural", "settings": {"width": 8}}]})
    for width, missing in ((8, False), (16, True)):
        task = Task("a-s0", "paired", (), ("neural",), 1.0, current=paired.of_settings({"width": width}))
        assert lent.missing(task, tmp_path / "new") is missing


def test_a_row_of_other_texts_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent, "RESULTS", tmp_path)
    for known, counts, missing in (("t", (), False), ("u", (), True), (None, (), True), (None, (("pairs", 7),), False)):
        row = {"method": "pca"} | ({} if known is None else {"texts": known})
        harness.write(tmp_path / "a-s0.json", {"protocol": {"pairs": 7}, "rows": [row]})
        task = Task("a-s0", "paired", (), ("pca",), 1.0, protocol=counts, texts="t")
        assert lent.missing(task, tmp_path / "new") is missing


def test_a_result_of_other_texts_is_only_replaced_as_a_whole(tmp_path: Path) -> None:
    results, file = tmp_path / "r", tmp_path / "into" / "upgrade-s0.json"
    protocol = {"things": 5}
    harness.write(file, {"protocol": protocol, "rows": [{"method": name} for name in ("old", "cca", "neural")]})
    before = file.read_text()
    for methods in (("old", "cca"), ("neural",)):
        assert file.read_text() == before
        rows = [{"method": name, "texts": "t"} for name in methods]
        harness.write(results / f"upgrade-s0.{methods[0]}.json", {"protocol": protocol, "rows": rows})
        lent.main(["merge", str(results), "--into", str(file.parent)])
    assert {row["method"] for row in json.loads(file.read_text())["rows"] if row["texts"] == "t"} == {
        "old",
        "cca",
        "neural",
    }


def test_heads_on_the_gpu_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[str] = []

    @contextmanager
    def service() -> Iterator[bool]:
        shared.append("begins")
        yield True
        shared.append("ends")

    def sweep(*given: object) -> list[str]:
        shared.append("sweep")
        return []

    monkeypatch.setattr(lent, "shared_gpu", service)
    monkeypatch.setattr(lent, "tasks", lambda data: [])
    monkeypatch.setattr(lent, "_sweep", sweep)
    for heads in ("0", "3"):
        lent.main(["run", "--results", str(tmp_path), "--gpu", heads])
    assert shared == ["sweep", "begins", "sweep", "ends"]


def test_rows_come_back_in_one_file_and_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, results, into = write(tmp_path / "data"), tmp_path / "r", tmp_path / "into"
    words = ("--set", "small", "--model", "minilm", "--test", "100")
    quick, long = Task("a-s0", "paired", words, ("prefix", "pca"), 1.0), Task("b-s0", "paired", words, ("cca",), 1e6)
    wrong = Task("c-s0", "paired", ("--set", "absent", "--model", "minilm"), ("pca",), 1.0)
    monkeypatch.setattr(lent, "tasks", lambda data: [quick, long, wrong])
    for _ in range(2):  # the second time, only the task that failed is tried again
        lent.main(["run", "--results", str(results), "--data", str(data), "--cores", "2", "--seconds", "300"])
    log = (results / "lent.log").read_text()
    assert log.count("start  a-s0") == 1 and "start  b-s0" not in log and log.count("FAILED c-s0") == 2
    with tarfile.open(results / "results.tar.gz") as archive:
        assert {"a-s0.prefix.json", "a-s0.prefix.log", "lent.log"} <= set(archive.getnames())
    new = json.loads((results / "a-s0.prefix.json").read_text())
    for protocol, methods, expected in (
        (new["protocol"], ("linear", "pca"), {"linear", "prefix", "pca"}),
        ({"pairs": 1}, ("pca",), {"prefix", "pca"}),
    ):
        old = {"protocol": protocol, "rows": [{"method": method, "scores": {}} for method in methods]}
        harness.write(into / "a-s0.json", old)
        lent.main(["merge", str(results), "--into", str(into)])
        merged = {row["method"]: row for row in json.loads((into / "a-s0.json").read_text())["rows"]}
        assert set(merged) == expected and merged["pca"]["scores"]


def test_what_runs_at_the_end_of_the_time_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("a-s0", "paired", ("--set", "small", "--model", "minilm", "--test", "100"), ("neural",), 0.1)
    monkeypatch.setattr(lent, "tasks", lambda data: [task])
    data = write(tmp_path / "data")
    lent.main(["run", "--results", str(tmp_path / "r"), "--data", str(data), "--cores", "1", "--seconds", "2"])
    assert "out of time: 1 stopped, 0 not started" in (tmp_path / "r" / "lent.log").read_text()
    assert not (tmp_path / "r" / task.file).exists()
