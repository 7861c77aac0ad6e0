"""Running the command line as a user does: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.run import Result

COMMAND = [sys.executable, "-W", "error", "-c", "from eigenmap.cli import main; main()"]
# One thread: two commands may run at once, and small matrices are not faster on more.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def start(*args: object, cwd: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        cwd=cwd,
    )


def finish(process: subprocess.Popen[str]) -> Result:
    out, err = process.communicate(timeout=120)
    return Result(process.returncode, out, err)


def eigenmap(*args: object, cwd: Path | None = None) -> Result:
    """Run a command that must succeed."""
    result = finish(start(*args, cwd=cwd))
    assert result.code == 0, result.err
    return result
