"""Running the command line as a user does: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.run import Result

# One thread: two commands may run at once, and small matrices are not faster on more.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

LIMIT = 300.0
"""Seconds after which a process hangs, however busy the machine: less than a test may take, so that it is heard."""


def command(*args: object, before: str = "") -> list[str]:
    """The words of `eigenmap ARGS`; `before` is run first in its process."""
    program = f"{before}\nfrom eigenmap.cli import main; main()"
    return [sys.executable, "-W", "error", "-c", program, *map(str, args)]


def start(*args: object, cwd: Path | None = None, before: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*args, before=before),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        cwd=cwd,
    )


def finish(process: subprocess.Popen[str]) -> Result:
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"no end after {LIMIT:g} s: {process.communicate()}") from None
    return Result(process.returncode, out, err)


def eigenmap(*args: object, cwd: Path | None = None) -> Result:
    """Run a command that must succeed."""
    result = finish(start(*args, cwd=cwd))
    assert result.code == 0, result.err
    return result


@contextmanager
def serving(*args: object, before: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`eigenmap serve ARGS` on a free port: the process, which does not outlive the block, and its address."""
    with start("serve", *args, "--port", 0, before=before) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), finish(process)
            yield process, address
        finally:
            process.kill()
