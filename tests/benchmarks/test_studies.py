"""Every study by the one command: its jobs, its pages, its README, and how its results are written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import ROOT
from benchmarks.__main__ import load, main, results_of, studies
from benchmarks.common import jsontext
from benchmarks.common.plan import Job, Place

NAMES = tuple(studies())


def jobs(study: str, tmp_path: Path) -> list[Job]:
    return list(load(study).jobs(Place(tmp_path, tmp_path)))


def test_the_studies_of_the_repository_are_found() -> None:
    known = {"catalogue", "eigenfunctions", "graphs", "scale", "search", "service", "vision"}
    assert known <= set(NAMES) and all(studies().values())


@pytest.mark.parametrize("study", NAMES)
def test_the_pages_are_what_the_committed_results_give(study: str) -> None:
    pages = list(load(study).pages())
    assert pages
    for path, text in pages:
        assert path.read_text(encoding="utf-8") == text, path


@pytest.mark.parametrize("study", NAMES)
def test_every_job_has_a_name_and_a_command_of_its_own(study: str, tmp_path: Path) -> None:
    planned = jobs(study, tmp_path)
    assert len({job.name for job in planned}) == len(planned) > 0
    for job in planned:
        command = job.command(Place(tmp_path, tmp_path, "cpu"))
        assert command[:2] == [sys.executable, "-m"] and not any("{" in word for word in command)
        assert (ROOT / f"{command[2].replace('.', '/')}.py").is_file() and job.seconds >= 0
        assert (job.seconds > 0) or job.done


@pytest.mark.parametrize("study", NAMES)
def test_a_job_is_done_if_its_result_is_stored(study: str, tmp_path: Path) -> None:
    # The runs of the stage "known" of eigenfunctions are rows of the files of their problems.
    done = {job.name for job in jobs(study, tmp_path) if job.done and job.stage != "known"}
    assert done and done <= {path.stem for path in results_of(study).glob("*.json")}


@pytest.mark.parametrize("study", NAMES)
def test_a_study_says_in_short_what_it_is(study: str) -> None:
    lines = (ROOT / "benchmarks" / study / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ") and len(lines) <= 40
    assert f"python -m benchmarks {study} " in "\n".join(lines)


@pytest.mark.parametrize("study", NAMES)
def test_results_have_their_lists_of_numbers_on_one_line(study: str) -> None:
    files = sorted(results_of(study).glob("*.json"))
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text == jsontext.text(json.loads(text)) + "\n", path


LAZY = (
    *("faiss", "fastapi", "grease", "httpx", "hypothesis", "networkx", "onnx", "pandas", "polars", "psycopg"),
    *("pydantic", "ray", "requests", "schemathesis", "timm", "usearch", "uvicorn"),
)


@pytest.mark.parametrize("study", ["vision", "graphs", "eigenfunctions"])
def test_a_lent_gpu_needs_few_packages(study: str) -> None:
    """Listing jobs and importing what they run loads none of the packages that such a machine has not got."""
    code = f"""
import importlib, json, sys
from pathlib import Path
from benchmarks.__main__ import load
from benchmarks.common.plan import Place

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LAZY!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
jobs = list(load({study!r}).jobs(Place(Path("nowhere"))))
for module in sorted({{job.module for job in jobs}}):
    importlib.import_module("benchmarks." + module)
import benchmarks.common.gpu_run
print(len(jobs))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_pages_are_written_only_where_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(load("scale"), "pages", lambda: [(page, "text\n")])
    for said in ("written", "unchanged"):
        assert main(["scale", "page"]) == 0
        assert capsys.readouterr().out == f"{page}: {said}\n" and page.read_text() == "text\n"
