from __future__ import annotations

import io

import pytest
from rich.console import Console

from eigenmap.objectives import build
from eigenmap.training import TrainingConfig, progress, train
from eigenmap.training.metrics import Record
from eigenmap.training.progress import Bar, Lines, Silent, health_summary, progress_display, waiting
from tests.training.toys import ToyNetwork, ToyRelation, held_out

CHECK = Record(
    step=50,
    loss=-1.23456,
    images_per_second=1540.4,
    effective_rank=37.24,
    n_components=128,
    eigenvalues=[0.98, 0.911, 0.5],
    monitor={"knn": 0.75, "undefined": None},
)
PLAIN = Record(step=60, loss=-2.0, images_per_second=900.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_health_line() -> None:
    assert health_summary(CHECK) == "loss -1.235  1,540 pairs/s  held-out rank 37.2 of 128  mu 0.98 0.91 0.50  knn 0.75"
    assert health_summary(PLAIN) == "loss -2  900 pairs/s"


def test_lines_are_printed_at_checks_only() -> None:
    file = io.StringIO()
    lines = Lines(file)
    lines.start(0, 100)
    lines.advance(50)
    lines.report(CHECK, check=True)
    lines.report(PLAIN, check=False)
    lines.stop()
    assert file.getvalue() == f"step 50/100  {health_summary(CHECK)}\n"


def test_the_bar_shows_loss_speed_and_the_health_line() -> None:
    file = Terminal()
    bar = Bar(Console(file=file, force_terminal=True, width=100))
    bar.start(40, 100)
    bar.advance(60)
    bar.report(CHECK, check=True)
    bar.report(PLAIN, check=False)
    bar.stop()
    shown = file.getvalue()
    assert "held-out rank 37.2 of 128" in shown and "loss -2  900 pairs/s" in shown and "60/100" in shown
    assert "left" in shown


def test_the_display_suits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(progress_display(quiet=True)) is Silent
    assert type(progress_display(file=io.StringIO())) is Lines
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    assert type(progress_display()) is Bar


class Spy:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def start(self, step: int, steps: int) -> None:
        self.calls.append(("start", step, steps))

    def advance(self, step: int) -> None:
        self.calls.append(("advance", step))

    def report(self, record: Record, check: bool) -> None:
        self.calls.append(("report", record["step"], check))

    def stop(self) -> None:
        self.calls.append(("stop",))


def test_the_loop_reports_its_progress() -> None:
    spy = Spy()
    config = TrainingConfig(steps=4, log_every=2, check_every=3, accelerator="cpu")
    train(ToyNetwork(), ToyRelation(), build("nested"), config, held_out=held_out, progress=spy)
    assert spy.calls == [
        ("start", 0, 4),
        ("advance", 1),
        ("advance", 2),
        ("report", 2, False),
        ("advance", 3),
        ("report", 3, True),
        ("advance", 4),
        ("report", 4, True),
        ("stop",),
    ]


def test_without_progress_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    config = TrainingConfig(steps=2, precision="bf16-mixed", accelerator="cpu")
    train(ToyNetwork(), ToyRelation(), build("nested"), config, held_out=held_out)
    assert capfd.readouterr() == ("", "")


def test_the_bar_is_put_away_when_a_run_fails() -> None:
    spy = Spy()

    def monitor(*_: object) -> dict[str, float]:
        raise RuntimeError("monitor failed")

    config = TrainingConfig(steps=2, accelerator="cpu")
    with pytest.raises(RuntimeError, match="monitor failed"):
        train(ToyNetwork(), ToyRelation(), build("nested"), config, monitor=monitor, progress=spy)
    assert spy.calls[-1] == ("stop",)


def test_where_standard_error_is_closed_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert isinstance(progress_display(), Silent)


def test_what_follows_training_is_shown_in_a_terminal() -> None:
    file = Terminal()
    with waiting(Bar(Console(file=file, force_terminal=True, width=100)), "ordering the features"):
        pass
    assert "ordering the features" in file.getvalue()
    file = io.StringIO()
    for silent in (Lines(file), Silent(), None, object()):
        with waiting(silent, "ordering the features"):  # type: ignore[arg-type]
            pass
    assert file.getvalue() == ""
