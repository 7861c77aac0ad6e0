from __future__ import annotations

import tarfile
import time
from pathlib import Path

import pytest

from benchmarks.common.archive import archived


def content(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_the_archive_has_the_results_so_far_even_if_the_work_fails(tmp_path: Path) -> None:
    folder, file = tmp_path / "out", tmp_path / "all.tar.gz"
    (folder / "graphs").mkdir(parents=True)
    (folder / "codes.npz").write_bytes(b"large")
    with pytest.raises(ValueError, match="ends"), archived(folder, file, every=0.05):
        (folder / "graphs" / "a.json").write_text("{}")
        until = time.monotonic() + 30
        while not file.exists() or not content(file):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert content(file) == {"graphs/a.json": b"{}"}
        (folder / "said.txt").write_text("fine")
        raise ValueError("it ends")
    assert content(file) == {"graphs/a.json": b"{}", "said.txt": b"fine"}
    assert list(tmp_path.glob("*.partial")) == []
