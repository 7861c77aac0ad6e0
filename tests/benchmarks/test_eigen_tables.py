"""The page about eigenfunctions says what the results say, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import eigen_tables
import harness

ENVIRONMENT = {"device": "cpu", "torch": "2", "commit": "abc", "date": "2026-01-01"}


def part(alignment: list[float], error: list[float]) -> dict[str, Any]:
    return {"alignment": alignment, "eigenvalue_error": error, "eigenvalues": [0.5, 0.2], "off_diagonal": 0.1}


def run(method: str, alignment: list[float], error: list[float], seed: int = 0, **more: Any) -> dict[str, Any]:
    costs = {"seconds": 1.5, "peak_mb": 20.0, "rate": None, "before": None}
    return {"method": method, "seed": seed, "after": part(alignment, error), **costs, **ENVIRONMENT, **more}


def write(folder: Path, *runs: dict[str, Any], name: str = "rbf-1d-1") -> str:
    problem = {"name": name, "title": "rBF, a test", "eigenvalues": [0.5, 0.2], "groups": [[1], [2, 3]]}
    content = {"problem": problem, "settings": {"n": 512}, "runs": list(runs)}
    (folder / f"eigenfunctions-{name}.json").write_text(json.dumps(content))
    page = eigen_tables.page(folder)
    return page[page.index("## RBF, a test") :]


def row(page: str, label: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_page_is_what_the_committed_results_give() -> None:
    assert eigen_tables.PAGE.read_text(encoding="utf-8") == eigen_tables.page(harness.RESULTS)


def test_without_results_everything_is_not_run(tmp_path: Path) -> None:
    page = eigen_tables.page(tmp_path)
    assert page.count("Not run.") == 6
    assert row(page, "shift c = 0.5, alpha 1") == ["not run"] * 6


def test_means_over_seeds_and_what_did_not_run(tmp_path: Path) -> None:
    before = part([0.5, 0.1], [0.5, 9.0])
    page = write(
        tmp_path,
        run("trace", [1.0, 0.9], [0.01, 0.2], rate=0.01, before=before),
        run("trace", [1.0, 0.98], [0.03, 0.4], seed=1, rate=0.01, before=before),
        run("grease", [], [], failed="singular") | {"after": None},
    )
    cells = row(page, "trace")
    assert cells[:6] == ["1.5 of 2", "0 of 2", "0.940 ± 0.057", "0.100 ± 0.000", "30 %", "30 %"]
    assert cells[6:] == ["0.100", "0.100", "1.5", "20", "0.01", "2"]
    assert row(page, "GrEASE (its own graph)")[0] == "failed"
    assert row(page, "SpIN")[0] == "not run"
    assert "Modes compared as eigenspaces: 2–3." in page and "seeds 0, 1" in page
    modes = page[page.index("Alignment of every mode") :]
    assert row(modes, "trace") == ["1.000", ".940"]


def test_the_default_against_nystroem_is_said_plainly(tmp_path: Path) -> None:
    exact = run("nystroem", [0.99, 0.98], [0.01, 0.1])
    met = write(tmp_path, exact, run("default", [0.985, 0.98], [0.02, 0.105]))
    assert "Met in all 2 cases. Largest deficit in alignment 0.0050." in met
    assert "No method is ahead of the default" in met
    missed = write(tmp_path, exact, run("default", [0.99, 0.96], [0.01, 0.1]))
    assert "Missed in 1 of 2: mode 2 (seed 0)." in missed
    assert "Ahead of the default by more than 0.01, in the mean over the seeds: Nystroem, exact (mode 2)." in missed
    other_seed = write(tmp_path, exact, run("default", [0.9, 0.9], [0.1, 0.1], seed=1))
    assert "No method is ahead of the default" in other_seed and "exact Nystroem: not run" in other_seed
    blurred = write(tmp_path, run("nystroem", [0.99, 0.9], [0, 0]), run("default", [0.9, 0.9], [0, 0]))
    assert "Exact Nystroem itself is below 0.95 in mode 2:" in blurred
    worse = write(tmp_path, exact, run("default", [0.99, 0.98], [0.01, 0.12]))
    assert "Missed in 1 of 2: mode 2 (seed 0)." in worse


def test_choices_are_means_over_seeds(tmp_path: Path) -> None:
    runs = [
        {"choice": "probes", "seed": seed, "figures": {"without": 0.5, "with": value}, **ENVIRONMENT}
        for seed, value in enumerate((0.9, 1.0))
    ]
    (tmp_path / "eigen-choices.json").write_text(json.dumps({"runs": runs}))
    page = eigen_tables.page(tmp_path)
    lines = [line for line in page.splitlines() if line.startswith("| probes in the last layer")]
    assert [line.split("|")[2:5] for line in lines] == [
        [" without ", " 0.5000 ± 0.0000 ", " 2 "],
        [" with ", " 0.9500 ± 0.0707 ", " 2 "],
    ]
    assert "| offset of the log-det on blocks (16-D): captured spectrum | not run |" in page
