"""Processes that are killed at any point, or that meet at one output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.process import ENVIRONMENT, LIMIT

ROUNDS = int(os.environ.get("EIGENMAP_CRASH_ROUNDS", "0"))
"""How many rounds, and a kill at every point; by default 100, and a kill at every ninth."""


def rounds(name: str, folder: Path, **arguments: object) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.embedding.crashes", name, str(folder / "round"), json.dumps(arguments)],
        cwd=Path(__file__).parents[2],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT + 10 * ROUNDS,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("plain_renames", [False, True], ids=["renameat2", "plain renames"])
def test_a_kill_at_any_point_is_made_good_by_the_same_command(tmp_path: Path, plain_renames: bool) -> None:
    """Nothing torn, nothing mixed, the result of an undisturbed run, and nothing left behind."""
    assert rounds("every_point", tmp_path, apart=1 if ROUNDS else 9, plain_renames=plain_renames) >= 30


def test_a_kill_at_any_moment(tmp_path: Path) -> None:
    assert rounds("any_moment", tmp_path, rounds=ROUNDS or 100) >= 100


def test_of_two_processes_with_one_output_one_is_refused(tmp_path: Path) -> None:
    assert rounds("two_at_once", tmp_path, rounds=ROUNDS or 100) >= 100


def test_whoever_takes_the_name_of_the_output_keeps_it(tmp_path: Path) -> None:
    assert rounds("an_intruder", tmp_path, rounds=ROUNDS or 100) >= 100
