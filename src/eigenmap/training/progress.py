"""What a person sees while a network trains: a bar in a terminal, a line per check elsewhere, or nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, TextIO

from eigenmap.training.metrics import Record

if TYPE_CHECKING:
    from rich.console import Console


class Progress(Protocol):
    """Told how a run goes; `train` calls these in order, from the first process only."""

    def start(self, step: int, steps: int) -> None:
        """The run begins after `step` of `steps` steps."""

    def advance(self, step: int) -> None:
        """So many steps are done."""

    def report(self, record: Record, check: bool) -> None:
        """A line of metrics was written; `check` where the held-out pairs were looked at."""

    def stop(self) -> None:
        """The run is over, by itself or by an error."""


class Silent:
    """Shows nothing."""

    def start(self, step: int, steps: int) -> None:
        """Show nothing."""

    def advance(self, step: int) -> None:
        """Show nothing."""

    def report(self, record: Record, check: bool) -> None:
        """Show nothing."""

    def stop(self) -> None:
        """Show nothing."""


class Lines(Silent):
    """One line per check, for logs and pipes."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file
        self.steps = 0

    def start(self, step: int, steps: int) -> None:
        """Remember how many steps there are."""
        self.steps = steps

    def report(self, record: Record, check: bool) -> None:
        """Print the line of a check."""
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

    def report(self, record: Record, check: bool) -> None:
        """Update the numbers beside the bar; print the line of a check above it."""
        self.bar.update(self.task, status=speed(record))
        if check:
            self.bar.console.print(f"step {record['step']}  {health_summary(record)}", highlight=False)

    def stop(self) -> None:
        """Leave the bar as it is and give the terminal back."""
        self.bar.stop()


def progress_display(quiet: bool = False, file: TextIO | None = None) -> Progress:
    """What suits the place: nothing if `quiet`, a bar in a terminal, lines elsewhere (on standard error).

    train(network, relation, objective, config, progress=progress_display())
    """
    stream = file or sys.stderr
    if quiet or stream is None:  # closed before Python began
        return Silent()
    if stream.isatty():
        return Bar()
    return Lines(file)


def speed(record: Record) -> str:
    """Loss and throughput of a record."""
    return f"loss {record['loss']:.4g}  {record['images_per_second']:,.0f} pairs/s"


def health_summary(record: Record) -> str:
    """Loss, throughput and the health line: held-out effective rank and spectrum, monitors."""
    parts = [speed(record)]
    if "effective_rank" in record:
        mu = " ".join(f"{value:.2f}" for value in record["eigenvalues"])
        parts.append(f"held-out rank {record['effective_rank']:.1f} of {record['n_components']}  mu {mu}")
    parts += [f"{name} {value:.4g}" for name, value in record.get("monitor", {}).items() if value is not None]
    return "  ".join(parts)
