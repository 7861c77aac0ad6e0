"""An `eigenmap embed` that is killed goes on where it was."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import numpy as np
import pytest

from eigenmap.embedding.shards import Codebook
from tests.cli.run import assert_refused
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
    assert "7 shards" in result.err
    for number, status in written.items():
        kept = (out / f"part-{number:05d}.npy").stat()
        assert (kept.st_ino, kept.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    eigenmap(*embed, "--out", tmp_path / "whole.npy")
    codes = np.concatenate([np.load(part) for part in sorted(out.glob("part-*.npy"))])
    np.testing.assert_allclose(codes, np.load(tmp_path / "whole.npy"), atol=1e-6)
    assert not list(tmp_path.glob(".*"))


# Clean-up has begun: the folder of unfinished work is renamed, and half deleted.
KILLED_IN_CLEAN_UP = """
import os, shutil, signal
from pathlib import Path

def dying(folder, **_):
    next(path for path in Path(folder).rglob("*") if path.is_file()).unlink()
    os.kill(os.getpid(), signal.SIGKILL)
shutil.rmtree = dying
"""
# The codes have their name, and clean-up has not begun.
KILLED_BEFORE_CLEAN_UP = """
import os, signal
from eigenmap.embedding.workspace import Workspace

Workspace.discard = lambda self: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("out", ["codes", "codes.npy"])
@pytest.mark.parametrize("killed", [KILLED_BEFORE_CLEAN_UP, KILLED_IN_CLEAN_UP], ids=["before", "in"])
def test_a_kill_around_clean_up(fitted: Path, tmp_path: Path, out: str, killed: str) -> None:
    """It blocked every later run, also with --force."""
    np.save(tmp_path / "pictures.npy", pictures(60))
    embed = ("embed", fitted / "runs" / "mine", tmp_path / "pictures.npy", "--device", "cpu", "--shard-size", 20)
    assert finish(start(*embed, "--out", tmp_path / out, before=killed)).code == -signal.SIGKILL
    assert len(list(tmp_path.glob(".*"))) == 1
    again = finish(start(*embed, "--out", tmp_path / out))
    if killed is KILLED_BEFORE_CLEAN_UP:
        assert again.code == 0 and "3 shards" in again.err, again.err
    else:
        assert again.code == 2 and re.search(f"{out} exists.*--force", again.err), again.err
    assert not list(tmp_path.glob(".*"))
    eigenmap(*embed, "--out", tmp_path / out, "--force")
    eigenmap(*embed, "--out", tmp_path / "whole.npy")
    if out == "codes":
        codes = np.concatenate([codes for _, codes in Codebook.open(tmp_path / out)])
    else:
        codes = np.load(tmp_path / out)
    np.testing.assert_array_equal(codes, np.load(tmp_path / "whole.npy"))
    assert not list(tmp_path.glob(".*"))


def test_two_commands_with_one_output(fitted: Path, tmp_path: Path) -> None:
    """They mixed shards of different lengths, and both ended with 0."""
    np.save(tmp_path / "pictures.npy", pictures(500))
    embed = (
        "embed",
        fitted / "runs" / "mine",
        tmp_path / "pictures.npy",
        "--out",
        tmp_path / "codes",
        "--device",
        "cpu",
    )
    both = {dim: start(*embed, "--dim", dim, "--shard-size", 50) for dim in (4, 8)}
    results = {dim: finish(process) for dim, process in both.items()}
    assert sorted(result.code for result in results.values()) == [0, 2], results
    ((done, _), (_, refused)) = sorted(results.items(), key=lambda item: item[1].code)
    assert_refused(refused)
    assert "another process" in refused.err or "exists" in refused.err
    made = Codebook.open(tmp_path / "codes")
    assert made.plan.dim == done and made.verify() and len(made) == 500
    assert not list(tmp_path.glob(".*"))
