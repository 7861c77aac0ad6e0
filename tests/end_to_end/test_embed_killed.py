"""An `eigenmap embed` that is killed goes on where it was."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np

from tests.end_to_end.photos import pictures
from tests.end_to_end.process import eigenmap, finish, start


def test_a_killed_embed_keeps_its_finished_shards(fitted: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "pictures.npy", pictures(2000))
    embed = ("embed", fitted / "runs" / "mine", tmp_path / "pictures.npy", "--files", "npy", "--device", "cpu")
    out, parts = tmp_path / "codes", tmp_path / ".codes.parts"
    process = start(*embed, "--out", out, "--shard-size", 50)
    while len(list(parts.glob(".progress/0*.json"))) < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    assert not out.exists()
    finished = [int(path.stem) for path in parts.glob(".progress/0*.json")]
    assert 3 <= len(finished) < 40
    written = {number: (parts / f"part-{number:05d}.npy").stat() for number in finished}

    result = eigenmap(*embed, "--out", out, "--shard-size", 50)
    assert f"{len(finished)} shards were there already" in result.err
    for number, status in written.items():
        kept = (out / f"part-{number:05d}.npy").stat()
        assert (kept.st_ino, kept.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    eigenmap(*embed, "--out", tmp_path / "whole.npy")
    codes = np.concatenate([np.load(part) for part in sorted(out.glob("part-*.npy"))])
    np.testing.assert_allclose(codes, np.load(tmp_path / "whole.npy"), atol=1e-6)
    assert not list(tmp_path.glob(".*"))
