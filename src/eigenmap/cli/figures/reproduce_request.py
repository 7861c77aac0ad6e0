"""The options that all items of `eigenmap reproduce` have that train on images, declared once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, get_type_hints

from eigenmap.cli.console import log_function, print_result, progress_bar
from eigenmap.cli.figures.reproduce import reproduce
from eigenmap.cli.figures.reproduce_options import (
    DataOption,
    DryRunOption,
    MachinesOption,
    ProcessesOption,
    RunsFolderOption,
    ScaleName,
    ScaleOption,
    SeedOption,
    check_files,
    write_item,
)
from eigenmap.cli.options import Device, DeviceOption, ForceOption, JsonOption, QuietOption, check_device
from eigenmap.core.logging import LogFunction

if TYPE_CHECKING:
    from eigenmap.data.images.released import Released
    from eigenmap.recipes import Recipe
    from eigenmap.reproduce.dry_run import DryRow
    from eigenmap.reproduce.runs import Runs
    from eigenmap.reproduce.searches import Search

P = ParamSpec("P")
Command = Callable[..., None]


@dataclass(frozen=True)
class Request:
    """The item asked for, and the values of the shared options."""

    item: str
    scale: ScaleOption = ScaleName.small
    data: DataOption = None
    runs_folder: RunsFolderOption = None
    dry_run: DryRunOption = False
    devices: ProcessesOption = 1
    nodes: MachinesOption = 1
    seed: SeedOption = 0
    device: DeviceOption = Device.auto
    json: JsonOption = None
    force: ForceOption = False
    quiet: QuietOption = False

    @property
    def say(self) -> LogFunction:
        """The function to call with notes."""
        return log_function(self.quiet)

    def check_outputs(self, *files: Path) -> None:
        """Refuse to replace files, or that of `--json`, without `--force`."""
        check_files(*files, self.json, force=self.force)

    def load_runs(self) -> Runs:
        """Read the images of the scale and return the runs on them."""
        from eigenmap.reproduce import load_sets
        from eigenmap.reproduce.runs import Runs

        check_device(self.device)
        with progress_bar("reading", self.quiet) as reading:
            sets = load_sets(self.scale.value, self.data, reading)
        return Runs(sets, self.seed, self.device.value, self.devices, self.nodes, self.runs_folder, self.say)

    def load_searches(self, runs: Runs, search: Sequence[str], top: int) -> list[Search]:
        """Read the sets named by `--search`; without any, the test images are searched for in the training images."""
        from eigenmap.reproduce.searches import load_searches

        with progress_bar("reading", self.quiet) as reading:
            return load_searches(self.scale.value, runs.sets, list(search), top, reading)

    def estimate(
        self,
        recipes: Sequence[Recipe],
        searches: Mapping[str, Released] | None = None,
        more: Callable[[float], list[DryRow]] | None = None,
    ) -> None:
        """Check the data, measure for a minute, and print memory, steps and hours with their arithmetic.

        `more` measures further rows of an item in the given seconds.
        """
        from eigenmap.cli.figures.reproduce_dry_run import hours, print_rows, seconds_of
        from eigenmap.reproduce.dry_run import dry_run, find_data

        check_device(self.device)
        found = find_data(self.scale.value, self.data)
        devices, seconds = self.devices * self.nodes, seconds_of(self.scale)
        print_result(f"Data: {found.in_words()}.")
        for name, lists in (searches or {}).items():
            print_result(f"Search: {name}: {len(lists.queries):,} queries, {len(lists.gallery):,} images with labels.")
        rows = dry_run(recipes, found.train, devices, self.device.value, seconds, self.say)
        rows += more(seconds) if more is not None else []
        print_rows(rows, devices)
        content: dict[str, object] = {"devices": devices, "data": found.counts, "hours": hours(rows), "rows": rows}
        write_item(self.json, self.item, self.scale, content)

    def write(self, content: Mapping[str, object]) -> None:
        """Write the result of the item as JSON."""
        write_item(self.json, self.item, self.scale, {"seed": self.seed, **content})


def item_command(item: str, *examples: str) -> Callable[[Callable[Concatenate[Request, P], None]], Command]:
    """Register a command that has its function's options and those of `Request`, which it gets as first argument.

    `examples` are the options of example calls.
    """

    def register(function: Callable[Concatenate[Request, P], None]) -> Command:
        hints = get_type_hints(Request, include_extras=True)
        scale, data, *rest = (
            Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
            for each in fields(Request)
            if each.name != "item"
        )
        _, *own = signature(function, eval_str=True).parameters.values()

        def command(**given: Any) -> None:
            request = Request(item, **{each.name: given.pop(each.name) for each in (scale, data, *rest)})
            function(request, **given)  # type: ignore[call-arg]

        command.__doc__ = function.__doc__
        # typer reads the options from the signature.
        command.__signature__ = Signature(  # type: ignore[attr-defined]
            [scale, data, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own), *rest]
        )
        lines = "\n\n".join(f"[cyan]  eigenmap reproduce {item} {words}[/cyan]" for words in examples)
        title = "Example" if len(examples) == 1 else "Examples"
        reproduce.command(item, epilog=f"\n{title}:\n\n{lines}\n")(command)
        return command

    return register
