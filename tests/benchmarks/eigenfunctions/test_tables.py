"""The page about eigenfunctions says what the results say, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.eigenfunctions import tables, verdicts

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
    page = tables.page(folder)
    return page[page.index("## RBF, a test") :]


def row(page: str, label: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_without_results_everything_is_not_run(tmp_path: Path) -> None:
    page = tables.page(tmp_path)
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
    assert cells[:6] == ["1.5 of 2", "0 of 2", "0.940 ± 0.057", "0.100 ± 0.000", "16 %", "30 %"]
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
    assert "more than 0.01, in the mean over the seeds:\n\n- Nystroem, exact: mode 2\n" in missed
    other_seed = write(tmp_path, exact, run("default", [0.9, 0.9], [0.1, 0.1], seed=1))
    assert "No method is ahead of the default" in other_seed and "exact Nystroem: not run" in other_seed
    blurred = write(tmp_path, run("nystroem", [0.99, 0.9], [0, 0]), run("default", [0.9, 0.9], [0, 0]))
    assert "Exact Nystroem itself is below 0.95 in mode 2. The points blur" in blurred
    worse = write(tmp_path, exact, run("default", [0.99, 0.98], [0.01, 0.12]))
    assert "Missed in 1 of 2: mode 2 (seed 0)." in worse


def test_choices_are_means_over_seeds(tmp_path: Path) -> None:
    runs = [
        {"choice": "probes", "seed": seed, "figures": {"without": 0.5, "with": value}, **ENVIRONMENT}
        for seed, value in enumerate((0.9, 1.0))
    ]
    (tmp_path / "eigen-choices.json").write_text(json.dumps({"runs": runs}))
    page = tables.page(tmp_path)
    lines = [line for line in page.splitlines() if line.startswith("| probes in the last layer")]
    assert [line.split("|")[2:5] for line in lines] == [
        [" without ", " 0.5000 ± 0.0000 ", " 2 "],
        [" with ", " 0.9500 ± 0.0707 ", " 2 "],
    ]
    assert "| offset of the log-det on blocks (16-D): captured spectrum | not run |" in page


def test_costs_on_a_processor_and_on_a_card(tmp_path: Path) -> None:
    fit = {"method": "eigenmap", "n": 1000, "processor_seconds": 2.5, "peak_mb": 300.0, "captured": 0.66}
    fit |= {"transform_points_per_processor_second": 12345.0, "steps": 50}
    failed = {"method": "nystroem", "n": 64000, "failed": "MemoryError: Unable to allocate 15.3 GiB for an array"}
    few = {**fit, "method": "nystroem", "landmarks": 50}
    content = {"environment": ENVIRONMENT, "fits": [fit, failed], "transform": {"nystroem": [few]}}
    (tmp_path / "kernel-cost-cpu.json").write_text(json.dumps(content))
    page = tables.page(tmp_path)
    assert row(page, "**default estimator**") == ["1,000", "2.5", "300", "0.6600", "12,345"]
    assert row(page, "Nystroem") == ["64,000", "Unable to allocate 15.3 GiB", "–", "–", "–"]
    assert row(page, "Nystroem, 50 landmarks")[0] == "1,000"
    assert "- 1,000 points: 50 steps of 50 ms\n" in page
    assert "On a GPU (`--device cuda`): not run." in page
    stream = {"precision": "bf16", "points": 100, "points_per_s": 5e6, "operations_per_s": 7e13, "captured": 0.9}
    stream |= {"product_peak": 7e14, "share_of_matrix_product_peak": 0.1, "share_of_data_sheet": None}
    content = {"environment": ENVIRONMENT, "stream": {"k": 256, "width": 1024}, "streams": [stream]}
    content |= {"transform": [{"method": "eigenmap, bf16", "points_per_s": 1e8, "captured": 0.9}]}
    (tmp_path / "kernel-cost-cuda.json").write_text(json.dumps(content))
    page = tables.page(tmp_path)
    assert row(page, "bf16") == ["100", "5,000,000", "70.0", "10.0% of 700", "–", "0.9000"]
    assert row(page, "eigenmap, bf16") == ["100,000,000", "0.9000"]


def test_lost_problems_come_first(tmp_path: Path) -> None:
    exact = run("nystroem", [0.99, 0.98], [0.01, 0.1])
    write(tmp_path, exact, run("default", [0.99, 0.96], [0.01, 0.1]))
    top = tables.page(tmp_path).split("## What was measured")[0]
    assert "behind Nystroem in 1 of 2 cases, some rival is ahead in mode 2." in top
    assert "As good as" not in top
    write(tmp_path, exact, run("default", [0.99, 0.975], [0.01, 0.1]))
    top = tables.page(tmp_path).split("## What was measured")[0]
    assert "behind" not in top and "As good as exact Nystroem in every mode" in top


def test_numbers_in_a_row_become_a_range() -> None:
    assert verdicts._numbers([1, 2, 4, 5, 6, 9]) == "1, 2, 4 to 6, 9"
