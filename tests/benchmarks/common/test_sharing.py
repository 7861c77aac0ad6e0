from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.common import sharing
from benchmarks.common.sharing import CONTROL, LOGS, PIPES, shared_gpu, without_sharing


def control(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Path:
    """Put a stand-in for the command on the path, which notes how it was called; return the notes."""
    notes = folder / "notes"
    command = folder / CONTROL
    command.write_text(f'#!/bin/sh\necho "$@ $(cat) ${PIPES}" >> {notes}\nexit {code}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.delenv(LOGS, raising=False)
    monkeypatch.setattr(sharing, "FIRST_CONTEXT", f"import os, sys; sys.exit({PIPES!r} not in os.environ)")
    return notes


def test_the_service_runs_while_the_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = control(tmp_path, monkeypatch)
    with shared_gpu() as shared:
        folder = os.environ[PIPES]
        assert shared and Path(folder).is_dir() and os.environ[LOGS] == folder
        with shared_gpu() as again:
            assert again and os.environ[PIPES] == folder
        assert PIPES not in without_sharing(os.environ) and "PATH" in without_sharing(os.environ)
    assert PIPES not in os.environ and not Path(folder).exists()
    started, ended = notes.read_text().splitlines()
    assert started.split() == ["-d", folder] and ended.split() == ["quit", folder]


def test_a_service_that_does_not_start_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control(tmp_path, monkeypatch, code=1)
    with shared_gpu() as shared:
        assert not shared and PIPES not in os.environ


@pytest.mark.parametrize("program", ["1 / 0", "import time; time.sleep(60)"], ids=["fails", "hangs"])
def test_a_service_that_does_not_answer_is_ended(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = control(tmp_path, monkeypatch)
    monkeypatch.setattr(sharing, "FIRST_CONTEXT", program)
    monkeypatch.setattr(sharing, "PATIENCE", 0.5)
    with shared_gpu() as shared:
        assert not shared and PIPES not in os.environ
    assert "quit" in notes.read_text()


def test_without_the_command_processes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(PIPES, raising=False)
    with shared_gpu() as shared:
        assert not shared


def test_it_ends_if_the_block_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = control(tmp_path, monkeypatch)
    with pytest.raises(ValueError, match="in the block"), shared_gpu():
        raise ValueError("in the block")
    assert PIPES not in os.environ and "quit" in notes.read_text()
