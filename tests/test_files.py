"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap.errors import EigenmapError
from eigenmap.files import require_writable, whole, whole_file


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with whole(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_leaves_nothing_but_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(error), whole(path) as partial:
        partial.write_text("half of")
        raise error
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_place_is_tried_without_leaving_a_trace(tmp_path: Path) -> None:
    require_writable(tmp_path / "new" / "file")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(EigenmapError, match="cannot be written"):
        require_writable(tmp_path / "file" / "below")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), whole_file(tmp_path / "a") as file:
        file.write(b"half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with pytest.raises(EigenmapError, match="cannot be written"), whole_file(tmp_path / "gone" / "a"):
        pass
