from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

import pytest
from rich.table import Table

from eigenmap.cli.console import complain, duration, log_function, note, print_result, printable, progress_bar
from eigenmap.training.progress import Bar
from tests.cli.run import Terminal


def test_results_go_to_standard_output_and_notes_to_standard_error() -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        print_result("a result [bold]as it is[/bold]")
        note("a note [1, 2]")
        log_function(quiet=True)("nothing")
        log_function(quiet=False)("something")
    assert out.getvalue() == "a result [bold]as it is[/bold]\n"
    assert err.getvalue() == "a note [1, 2]\nsomething\n"


def test_a_complaint_is_one_line_with_one_full_stop() -> None:
    for message in ("it is " + "very " * 100 + "wrong", "it is " + "very " * 100 + "wrong."):
        err = io.StringIO()
        with redirect_stderr(err):
            complain(message)
        assert err.getvalue() == "Error: it is " + "very " * 100 + "wrong.\n"


def test_a_complaint_that_ends_with_a_question_has_no_full_stop() -> None:
    err = io.StringIO()
    with redirect_stderr(err):
        complain("there is no setting epoch; did you mean epochs?")
    assert err.getvalue() == "Error: there is no setting epoch; did you mean epochs?\n"


def test_a_complaint_is_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    err = Terminal()
    with redirect_stderr(err):
        complain("it is wrong")
    assert err.getvalue().startswith("\x1b[1;31mError: ")


def test_a_note_is_printed_above_what_is_on_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    err = Terminal()
    with redirect_stderr(err), Bar().waiting("ordering the features"):
        while "ordering" not in err.getvalue():  # drawn by another thread
            time.sleep(0.01)
        note("a note [1, 2]")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err.getvalue()).splitlines()
    assert "a note [1, 2]" in lines, lines


def test_long_names_are_not_cut_in_a_pipe() -> None:
    name = "folder/" * 40 + "photo.jpg"
    table = Table("file")
    table.add_row(name)
    out = io.StringIO()
    with redirect_stdout(out):
        print_result(table)
    assert name in out.getvalue()


def test_names_that_are_no_text_can_be_printed() -> None:
    assert printable("caf\udce9.jpg") == r"caf\xe9.jpg"
    assert printable("half\ud83d.jpg") == r"half\ud83d.jpg"
    assert printable("café.jpg") == "café.jpg"


STEERING = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202a\u202b\u202c\u202d\u202e", *"\u2066\u2069"]


@pytest.mark.parametrize("tell", [print_result, note, complain])
def test_names_cannot_steer_the_terminal(tell: Callable[[str], None]) -> None:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        for character in STEERING:
            tell(f"a{character}b.jpg")
    assert not set(out.getvalue()) & (set(STEERING) - {"\n"})
    assert out.getvalue().count("\n") == len(STEERING)
    assert r"a\x1bb.jpg" in out.getvalue() and r"a\nb.jpg" in out.getvalue() and r"a\u202eb.jpg" in out.getvalue()


def test_cells_of_a_table_cannot_steer_the_terminal() -> None:
    table = Table("file")
    for character in STEERING:
        table.add_row(f"a{character}b.jpg")
    out = io.StringIO()
    with redirect_stdout(out):
        print_result(table)
    assert not set(out.getvalue()) & (set(STEERING) - {"\n"})


def test_there_is_no_bar_where_nobody_looks() -> None:
    err = io.StringIO()
    with redirect_stderr(err), progress_bar("reading") as tick:
        assert tick is None
    with redirect_stderr(Terminal()), progress_bar("reading", quiet=True) as tick:
        assert tick is None


def test_a_bar_lasts_from_the_first_tick_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    err = Terminal()
    with redirect_stderr(err), progress_bar("reading") as tick:
        assert tick is not None
        assert err.getvalue() == ""
        tick(1, 2)
        tick(2, 2)
        drawn = err.getvalue()
        assert "reading" in drawn and "1/2" in drawn
    assert err.getvalue() == drawn


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 second"), (42, "42 seconds"), (200, "3.3 minutes"), (9000, "2.5 hours")]
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words
