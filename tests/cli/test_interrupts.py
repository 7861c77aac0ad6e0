"""Start and end of the process: Ctrl-C during imports, and an exit without teardown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eigenmap.cli.interrupts import prompt_interrupts

SWALLOWING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException:
    pass
"""


def python(program: str, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, words)]
    path = os.pathsep.join([*sys.path, str(cwd)])
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": path}, check=False
    )


def test_an_interrupt_during_an_import_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "swallowing.py").write_text(SWALLOWING)
    program = (
        "import signal\nfrom eigenmap.cli.interrupts import prompt_interrupts\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in jobs in the background
        "{}import swallowing; print('went on')"
    )
    ended = python(program.format("with prompt_interrupts(): "), cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Error: stopped.\n")
    assert python(program.format(""), cwd=tmp_path).stdout == "went on\n"


@pytest.fixture
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_handler")
def test_other_interrupts_are_raised_and_the_handler_is_put_back() -> None:
    with pytest.raises(KeyboardInterrupt), prompt_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not interrupted")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with prompt_interrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["nonsense"], 2)])
def test_exit_handlers_run_and_modules_are_not_torn_down(words: list[str], code: int, tmp_path: Path) -> None:
    program = (
        "import atexit\nfrom eigenmap.__main__ import main\n"
        "class Freed:\n    def __del__(self): print('freed')\n"
        "kept = Freed()\n"
        "import eigenmap.cli as cli\nrun = cli.main\n"
        "def later(began):\n    atexit.register(print, 'exit handler')\n    run(began)\n"
        "cli.main = later\n"
        "main()\n"
    )
    ended = python(program, *words, cwd=tmp_path)
    assert ended.returncode == code
    assert ended.stdout.endswith("exit handler\n") and "freed" not in ended.stdout
    assert ("nonsense" in ended.stderr) == (code == 2)


def test_a_traceback_ends_as_usual(tmp_path: Path) -> None:
    program = (
        "from eigenmap.__main__ import main\nimport eigenmap.cli as cli\n"
        "def broken(began):\n    raise ValueError('ours')\n"
        "cli.main = broken\nmain()\n"
    )
    ended = python(program, cwd=tmp_path)
    assert ended.returncode == 1 and ended.stderr.endswith("ValueError: ours\n")


def test_an_interrupt_of_the_first_imports_has_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    command = "import sys; sys.path.insert(0, '.'); from eigenmap.__main__ import main; main()"
    ended = python(command, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Error: stopped.\n")
