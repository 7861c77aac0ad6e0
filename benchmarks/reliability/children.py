"""Commands as processes forked from a parent that has imported the libraries and computes nothing itself.

A fork saves the seconds of the imports, so that kills hit the actual work. Since the parent computes nothing, it has no
threads that a fork would lose.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

LIBRARIES = (
    *("torch", "torch.distributed", "torch.profiler", "lightning_fabric", "pydantic", "PIL.ImageFile", "faiss"),
    *("pyarrow.parquet", "psycopg", "scipy.sparse", "eigenmap.cli", "eigenmap.cli.embed", "eigenmap.cli.export"),
    *("eigenmap.cli.search.index", "eigenmap.cli.search.query", "eigenmap.fitting.images"),
    *("eigenmap.fitting.graph", "eigenmap.fitting.vectors"),
    *("eigenmap.search.approximate", "eigenmap.export.codes", "eigenmap.service.thumbnails"),
)
LIMIT_S = 300.0
"""Seconds after which a process counts as hanging."""


class Ended(NamedTuple):
    """Exit code and output of a command."""

    code: int
    err: str

    @property
    def is_refusal(self) -> bool:
        """Whether the command was refused with one sentence."""
        return self.code == 2 and self.err.count("\n") == 1 and self.err.startswith("Error: ")


def load_libraries() -> None:
    """Import everything that commands need, so that forked processes have it."""
    os.environ.update(COLUMNS="200", GLOO_SOCKET_IFNAME="lo")
    for name in LIBRARIES:
        import_module(name)
    import torch

    torch.set_num_threads(1)
    _command_line()


@cache
def _command_line() -> Any:
    """Build the command line, which takes as long as a small command, once for all forks."""
    import typer

    from eigenmap.cli import app

    return typer.main.get_command(app)


class Child:
    """A function in a forked process; its standard error is written to a file."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `ended`
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._work(work)

    def _work(self, work: Callable[[], object]) -> None:
        code = 1
        try:
            os.dup2(self.log.fileno(), 2)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), line_buffering=True)
            sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False))
            work()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def is_over(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> Ended:
        """Wait for the end; a process that hangs is killed and reported."""
        limit = time.monotonic() + LIMIT_S
        while not self.is_over():
            if time.monotonic() > limit:
                self.kill()
                os.waitpid(self.pid, 0)
                return Ended(-1, f"it did not end within {LIMIT_S:.0f} s")
            time.sleep(0.002)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.log.seek(0)
        err = self.log.read().decode(errors="replace")
        self.log.close()
        return Ended(code, err)


def start(words: Sequence[object]) -> Child:
    """Start `eigenmap WORDS`."""
    return Child(lambda: _command([str(word) for word in words]))


def _command(words: list[str]) -> None:
    from eigenmap.cli.streams import guarded_streams

    with guarded_streams():
        _command_line()(words, prog_name="eigenmap")


def eigenmap(*words: object) -> Ended:
    """Run a command to its end."""
    return start(words).ended()


def succeed(*words: object) -> None:
    """Run a command that must succeed."""
    ended = eigenmap(*words)
    if ended.code != 0:
        raise RuntimeError(f"eigenmap {' '.join(map(str, words))} ended with {ended.code}: {ended.err}")


def computed(work: Callable[[], Any]) -> Any:
    """Return the result of a function called in a separate process, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        ended = Child(lambda: answer.write_text(json.dumps(work()))).ended()
        if ended.code != 0:
            raise RuntimeError(ended.err.strip() or f"exit code {ended.code}")
        return json.loads(answer.read_text())
