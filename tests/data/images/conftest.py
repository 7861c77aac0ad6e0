from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.photos import write_photos


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    write_photos(root, per_kind=4)
    # Names that sort differently as text and as trees, and a name that is not UTF-8.
    for name in ("disc-2.png", "disc.png", "disc0.png", "disc/a\udcff.png"):
        (root / name).write_bytes((root / "disc" / "1.png").read_bytes())
    (root / "notes.txt").write_text("no image")
    return root
