"""What a result says about the code that made it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.common import harness


def test_results_being_written_do_not_make_the_commit_dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, code, page = (tmp_path / name for name in ("benchmarks/vision/results", "src/code.py", "docs/page.md"))
    for folder in (results, code.parent, page.parent):
        folder.mkdir(parents=True)
    stored = results / "run.json"
    for file in (stored, code, page):
        file.write_text("before")

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    commit = git("describe", "--always")
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.delenv("EIGENMAP_COMMIT", raising=False)
    stored.write_text("after")
    page.write_text("after")
    assert harness.environment()["commit"] == commit
    code.write_text("after")
    assert harness.environment()["commit"] == f"{commit}-dirty"
    monkeypatch.setenv("EIGENMAP_COMMIT", "elsewhere")
    assert harness.environment()["commit"] == "elsewhere"
