"""Training progress: a bar in a terminal, one line per check elsewhere, or nothing."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, TextIO

from eigenmap.training.metrics import Record

if TYPE_CHECKING:
    from rich.console import Console


class Progress(Protocol):
    """Receiver of the progress of a run; `train` calls these methods in order, in the first process only."""

    def start(self, step: int, steps: int) -> None:
        """Start after `step` of `steps` steps."""

    def advance(self, step: int) -> None:
        """Report the number of steps done."""

    def report(self, record: Record, check: bool) -> None:
        """Report a line of metrics; `check` is true if the held-out pairs were evaluated."""

    def stop(self) -> None:
        """End, normally or after an error."""


class Silent:
    """No display."""

    def start(self, step: int, steps: int) -> None:
        """Show nothing."""

    def advance(self, step: int) -> None:
        """Show nothing."""

    def report(self, record: Record, check: bool) -> None:
        """Show nothing."""

    def stop(self) -> None:
        """Show nothing."""

    def replan(self, steps: int) -> None:
        """Correct the number of steps, which a deadline changes; custom displays may omit this method."""

    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Show that something after training goes on; custom displays may omit this method."""
        return nullcontext()


class Lines(Silent):
    """One line per check, for logs and pipes."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file
        self.steps = 0

    def start(self, step: int, steps: int) -> None:
        """Remember the number of steps."""
        self.steps = steps

    def replan(self, steps: int) -> None:
        """Remember the new number of steps."""
        self.steps = steps

    def report(self, record: Record, check: bool) -> None:
        """Print a line for a check."""
        if check:
            print(
                f"step {record['step']}/{self.steps}  {health_summary(record)}",
                file=self.file or sys.stderr,
                flush=True,
            )


class Bar(Silent):
    """A bar with loss, pairs per second and time left; the line of each check scrolls above it."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(
            TextColumn("training"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console or Console(stderr=True),
        )

    def start(self, step: int, steps: int) -> None:
        """Draw the bar."""
        self.task = self.bar.add_task("training", completed=step, total=steps, status="")
        self.bar.start()

    def advance(self, step: int) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=step)

    def replan(self, steps: int) -> None:
        """Change the length of the bar."""
        self.bar.update(self.task, total=steps)

    def report(self, record: Record, check: bool) -> None:
        """Update the numbers beside the bar; print the line of a check above it."""
        self.bar.update(self.task, status=speed(record))
        if check:
            self.bar.console.print(f"step {record['step']}  {health_summary(record)}", highlight=False)

    def stop(self) -> None:
        """Leave the bar on screen and release the terminal."""
        self.bar.stop()

    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Show a spinner."""
        return self.bar.console.status(what)


def waiting(progress: Progress | None, what: str) -> AbstractContextManager[object]:
    """Show what goes on after training, if the display can."""
    show = getattr(progress, "waiting", None)
    return nullcontext() if show is None else show(what)


def progress_display(quiet: bool = False, file: TextIO | None = None) -> Progress:
    """Choose a display: nothing if `quiet`, a bar in a terminal, lines elsewhere (on standard error).

    train(network, relation, objective, config, progress=progress_display())
    """
    stream = file or sys.stderr
    if quiet or stream is None:  # standard error was closed before Python started
        return Silent()
    if stream.isatty():
        return Bar()
    return Lines(file)


def speed(record: Record) -> str:
    """Format loss and throughput of a record."""
    return f"loss {record['loss']:.4g}  {record['images_per_second']:,.0f} pairs/s"


def health_summary(record: Record) -> str:
    """Format loss, throughput, held-out effective rank and spectrum, and monitors."""
    parts = [speed(record)]
    if "effective_rank" in record:
        mu = " ".join(f"{value:.2f}" for value in record["eigenvalues"])
        parts.append(f"held-out rank {record['effective_rank']:.1f} of {record['n_components']}  mu {mu}")
    parts += [f"{name} {value:.4g}" for name, value in record.get("monitor", {}).items() if value is not None]
    return "  ".join(parts)
