"""Whether an open index was replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap.search.index_file import is_replaced
from eigenmap.search.open_folder import OpenFolder


def test_replaced_means_that_another_folder_is_there(tmp_path: Path) -> None:
    path = tmp_path / "an.index"
    path.mkdir()
    folder = OpenFolder(path)
    assert not is_replaced(folder, path)
    path.rename(tmp_path / "elsewhere")
    assert not is_replaced(folder, path)  # nothing is there: removed, or damaged
    path.mkdir()
    assert is_replaced(folder, path)


def test_the_end_of_a_replacement_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "an.index"
    path.mkdir()
    folder = OpenFolder(path)
    path.rename(tmp_path / "elsewhere")
    monkeypatch.setattr("eigenmap.search.index_file.recover", lambda target: target.mkdir())
    assert is_replaced(folder, path)
