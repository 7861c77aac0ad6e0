"""Running the command line inside this process, which is much faster than starting a new one."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from eigenmap.cli import app


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    """Text that believes to be seen by somebody."""

    def isatty(self) -> bool:
        return True


def run(*args: object, terminal: bool = False) -> Result:
    """Run `eigenmap ARGS` and return its exit code and what it printed."""
    out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
    with redirect_stdout(out), redirect_stderr(err):
        try:
            app([str(arg) for arg in args], prog_name="eigenmap")
            code: object = 0
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int)
    return Result(code, out.getvalue(), err.getvalue())


def succeed(*args: object, terminal: bool = False) -> Result:
    result = run(*args, terminal=terminal)
    assert result.code == 0, result.err
    return result


def refused(*args: object) -> str:
    """Run a command that must fail, and return the one sentence it says."""
    result = run(*args)
    assert_refused(result)
    return result.err.removeprefix("Error: ").strip()


def assert_refused(result: Result) -> None:
    assert result.code == 2, result
    assert result.err.startswith("Error: ") and result.err.endswith((".\n", "?\n")), result.err
    assert result.err.count("\n") == 1 and "Traceback" not in result.err, result.err
    assert result.out == ""
