"""An `eigenmap embed` that is killed goes on where it was."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np

from tests.end_to_end.photos import pictures
from tests.end_to_end.process import eigenmap, finish, start

# The worst moment: the codes of the eighth shard are written, and the file that makes them count is not.
KILLED = """
import os, signal
from eigenmap.embedding import workspace

write_json = workspace.write_json
def dying(path, content):
    if path.name == "00007.json":
        os.kill(os.getpid(), signal.SIGKILL)
    write_json(path, content)
workspace.write_json = dying
"""


def test_a_killed_embed_keeps_its_finished_shards(fitted: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "pictures.npy", pictures(500))
    embed = ("embed", fitted / "runs" / "mine", tmp_path / "pictures.npy", "--device", "cpu")
    shards = ("--files", "npy", "--shard-size", 50)
    out, parts = tmp_path / "codes", tmp_path / ".codes.parts"
    assert finish(start(*embed, "--out", out, *shards, before=KILLED)).code == -signal.SIGKILL
    assert not out.exists()
    (parts,) = parts.glob("*/codes")
    assert (parts / "part-00007.npy").exists()
    written = {number: (parts / f"part-{number:05d}.npy").stat() for number in range(7)}

    result = eigenmap(*embed, "--out", out, *shards)
    assert "7 shards were there already" in result.err
    for number, status in written.items():
        kept = (out / f"part-{number:05d}.npy").stat()
        assert (kept.st_ino, kept.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    eigenmap(*embed, "--out", tmp_path / "whole.npy")
    codes = np.concatenate([np.load(part) for part in sorted(out.glob("part-*.npy"))])
    np.testing.assert_allclose(codes, np.load(tmp_path / "whole.npy"), atol=1e-6)
    assert not list(tmp_path.glob(".*"))
