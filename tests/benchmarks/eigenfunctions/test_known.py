"""The benchmark runs what is missing and nothing else, and judges every method by the same rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.eigenfunctions import known, layouts, perturbation
from benchmarks.eigenfunctions.methods import METHODS, Default, Exact, Fit, Grease, Settings, Trained
from benchmarks.eigenfunctions.problems import PROBLEMS, Problem, Sample

TINY = Settings(n=60, held_out=40, width=16, steps=20, rates=(0.003, 0.01), seeds=(0, 1))
RBF = PROBLEMS["rbf-1d-1"]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are forks, for which this process, with threads of other tests, is no place."""
    monkeypatch.setattr(known, "apart", known.measure)


APART = """
import os
from benchmarks.eigenfunctions import known, methods, problems

settings = methods.Settings(n=60, held_out=40, width=16, steps=20)
job = (problems.PROBLEMS["rbf-1d-1"], methods.METHODS["trace"], 0, 0.01, settings)
known.warm_up()
found, here = known.apart(*job), known.measure(*job)
assert found["after"] == here["after"] and found["peak_mb"] >= 0, (found, here)
known.measure = lambda *job: os._exit(3)
known.apart(*job)
"""


def test_a_run_in_a_process_of_its_own() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", APART], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (1, "rbf-1d-1, trace, seed 0: the process ended with 3\n")


def runs(folder: Path, name: str = RBF.name) -> list[dict[str, Any]]:
    content = json.loads((folder / f"eigenfunctions-{name}.json").read_text())
    found: list[dict[str, Any]] = content["runs"]
    return found


def test_every_method_of_the_issue_is_there() -> None:
    kinds = {name: type(method) for name, method in METHODS.items()}
    assert kinds.pop("default") is Default and kinds.pop("grease") is Grease
    assert {kinds.pop("kernel-pca"), kinds.pop("nystroem")} == {Exact}
    assert set(kinds.values()) == {Trained}
    assert set(kinds) == {
        *("alpha-1", "alpha-10", "alpha-100", "shifted", "ratio", "gram", "nested", "trace", "logdet"),
        *("eigengame", "spin"),
    }


def test_a_run_holds_every_mode_before_and_after_and_what_it_cost(tmp_path: Path) -> None:
    known.run_missing(RBF, ["trace", "nystroem"], 0, TINY, tmp_path)
    trained, exact = runs(tmp_path)
    for part in (trained["before"], trained["after"], exact["after"]):
        assert len(part["alignment"]) == len(part["eigenvalue_error"]) == RBF.n_components
        assert 0 <= part["off_diagonal"] <= 1
    assert exact["before"] is None and exact["rate"] is None
    assert trained["seconds"] > 0 and trained["peak_mb"] >= 0 and trained["commit"]
    assert set(trained["tried"]) == {"0.003", "0.01"}
    assert trained["rate"] == float(max(trained["tried"], key=trained["tried"].get))


def test_what_is_there_is_not_run_again_and_later_seeds_keep_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.run_missing(RBF, ["trace"], 0, TINY, tmp_path)
    chosen = runs(tmp_path)[0]["rate"]
    known.run_missing(RBF, ["trace"], 1, TINY, tmp_path)
    assert [(run["seed"], run["rate"], len(run["tried"])) for run in runs(tmp_path)] == [(0, chosen, 2), (1, chosen, 1)]

    def never(*job: Any) -> None:
        raise AssertionError("a run that is there was done again")

    monkeypatch.setattr(known, "apart", never)
    known.run_missing(RBF, ["trace"], 0, TINY, tmp_path)
    known.run_missing(PROBLEMS["sbm"], ["grease"], 0, TINY, tmp_path)  # does not apply
    known.run_missing(RBF, ["nystroem"], 0, TINY, tmp_path, until=0.0)  # too late


def test_a_rival_that_breaks_down_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaks(Trained):
        def fit(self, problem: Problem, sample: Sample, seed: int, rate: float, settings: Settings) -> Fit:
            if rate == 0.01:
                raise torch.linalg.LinAlgError("singular")
            return super().fit(problem, sample, seed, rate, settings)

    trace = METHODS["trace"]
    assert isinstance(trace, Trained)
    monkeypatch.setitem(METHODS, "trace", Breaks(trace.title, trace.objective))
    known.run_missing(RBF, ["trace"], 0, TINY, tmp_path)
    (run,) = runs(tmp_path)
    assert run["rate"] == 0.003 and run["tried"]["0.01"] is None
    known.run_missing(RBF, ["trace"], 1, replace(TINY, rates=(0.01,)), tmp_path)
    assert "failed" not in runs(tmp_path)[1]  # the rate of the first seed
    known.run_missing(PROBLEMS["sbm"], ["trace"], 0, replace(TINY, rates=(0.01,)), tmp_path)
    (failed,) = runs(tmp_path, "sbm")
    assert failed["failed"] == "singular" and "failed" in known.line("trace", 0, failed)


def test_the_default_estimator_takes_kernels_functions_and_graphs() -> None:
    for name in ("rbf-1d-1", "sbm", "polynomial-sphere"):
        problem = PROBLEMS[name]
        found = known.measure(problem, METHODS["default"], 0, 0.0, replace(TINY, n=120))
        assert len(found["after"]["alignment"]) == problem.n_components and found["before"] is None
        assert found["after"]["eigenvalue_error"][0] < 0.2


def test_the_command_prints_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(known, "Settings", lambda **options: replace(TINY, seeds=(0,), **options))
    words = ["--problems", "rbf-1d-1", "--methods", "nystroem", "kernel-pca", "--folder", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["eigenfunctions.py", *words])
    known.main()
    first = runs(tmp_path)
    monkeypatch.setattr("sys.argv", ["eigenfunctions.py", *words, "--again"])
    known.main()
    assert [run["method"] for run in runs(tmp_path)] == [run["method"] for run in first]
    printed = capsys.readouterr().out
    table = printed[printed.index("RBF, length scale 1") :]
    assert "nystroem   seed 0 after  0.99" in table and "kernel-pca seed 0" in table


def test_the_study_of_layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "SETTINGS", replace(TINY, rates=(0.01,)))
    monkeypatch.setattr(layouts, "OBJECTIVES", ("trace",))
    found = layouts.run_missing(tmp_path / layouts.FILE, float("inf"))
    assert [(run["problem"], run["layout"], run["width"]) for run in found[:3]] == [
        ("rbf-1d-1", layouts.SHARED, 16),
        ("rbf-1d-1", layouts.NARROW, 5),
        ("rbf-1d-1", layouts.WIDE, 16),
    ]
    monkeypatch.setattr(layouts, "best", None)  # nothing is run again
    assert len(layouts.run_missing(tmp_path / layouts.FILE, float("inf"))) == len(found) == 6


def test_the_study_of_perturbations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"POINTS": 64, "FEATURES": 32, "WIDTH": 32, "STEPS": 10}.items():
        monkeypatch.setattr(perturbation, name, value)
    results = perturbation.Results(tmp_path)
    perturbation.run_missing(results, (4,), float("inf"))
    assert [run["variant"] for run in results.runs] == list(perturbation.VARIANTS)
    for run in results.runs:
        assert 0 <= run["before"]["leading_found"] <= run["before"]["found"] <= 4
    again = perturbation.Results(tmp_path)
    monkeypatch.setattr(perturbation, "measure", None)
    perturbation.run_missing(again, (4,), float("inf"))
    assert len(again.runs) == len(results.runs)


def test_the_exponential_kernel_of_the_study_has_its_known_eigenvalues() -> None:
    """exp(-|x - x'|) on [-a, a]: mu = 1 / (a (1 + w^2)) with w tan(w a) = 1 or w + tan(w a) = 0 (uniform measure)."""
    x, gram = perturbation.grid()
    mu = perturbation.truth(x, gram, 4).mu
    w = (1 / (2 * mu) - 1).sqrt()
    assert float((w[::2] * torch.tan(2 * w[::2]) - 1).abs().max()) < 0.02
    assert float((w[1::2] + torch.tan(2 * w[1::2])).abs().max()) < 0.02
