"""Parts of tools/fresh_clone.py; the whole of it installs everything and takes many minutes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_page_with_examples_is_followed() -> None:
    import fresh_clone
    import release

    assert [str(ROOT / page) for page in fresh_clone.PAGES] == release.PAGES


def test_uncommitted_changes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import fresh_clone

    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "new.txt").touch()
    monkeypatch.setattr(fresh_clone._git, "__kwdefaults__", {"place": tmp_path})
    monkeypatch.setattr(sys, "argv", ["fresh_clone.py"])
    assert fresh_clone.main() == 1
    assert "uncommitted" in capsys.readouterr().out


def test_commands_see_an_empty_home_and_no_python_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fresh_clone

    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    clone = tmp_path / "eigenmap"
    clone.mkdir()
    assert fresh_clone._run(["bash", "-c", "echo $HOME:$PYTHONPATH"], clone) == f"{tmp_path}/home:\n"
    with pytest.raises(SystemExit, match="exit code 3"):
        fresh_clone._run(["bash", "-c", "exit 3"], clone)


def test_a_transcript_names_no_folder_of_a_machine() -> None:
    """Paths that begin at the root of the file system are of one machine."""
    for path in (ROOT / "docs" / "transcripts").glob("*.txt"):
        found = re.findall(r"(?<![\w.:/~-])/(?:\w+/)+\w+", path.read_text(encoding="utf-8"))
        assert found == [], path.name
