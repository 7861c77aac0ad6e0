"""`eigenmap reproduce figure-grid`, `figure-excite`, `figure-optimise`: the paper's pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from eigenmap.cli.console import log_function, print_result, progress_bar
from eigenmap.cli.figures.reproduce import figure_files, reproduce
from eigenmap.cli.figures.reproduce_options import (
    DataOption,
    DryRunOption,
    ModelOption,
    RunsFolderOption,
    ScaleName,
    ScaleOption,
    SearchOption,
    SeedOption,
    check_files,
    load_runs,
    write_item,
)
from eigenmap.cli.options import (
    HOW,
    OUTPUT,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    QuietOption,
    option,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eigenmap.data.images.released import Released
    from eigenmap.reproduce.runs import Runs

OUT = "Output: STEM.svg and STEM.png."


class Picture(NamedTuple):
    """A figure, its content as numbers and names, and lines to print."""

    figure: Figure
    content: dict[str, object]
    lines: list[str]


class Request(NamedTuple):
    """Options that all pictures share, in the order of the commands."""

    out: Path
    scale: ScaleName
    data: Path | None
    runs_folder: Path | None
    dry_run: bool
    seed: int
    device: Device
    json: Path | None
    force: bool
    quiet: bool


def _example(item: str) -> str:
    return f"\nExample:\n\n[cyan]  eigenmap reproduce {item} --scale small --data CIFAR10/[/cyan]\n"


def _write_picture(
    item: str,
    draw: Callable[[Runs], Picture],
    asked: Request,
    searches: Mapping[str, Released] | None = None,
) -> None:
    """Read the images, draw, and write the figure and its content; in a dry run, say what training would take."""
    from eigenmap.figures.style import save

    scale, data, device, quiet = asked.scale, asked.data, asked.device, asked.quiet
    stem, files = figure_files(asked.out)
    check_files(*files, asked.json, force=asked.force)
    if asked.dry_run:
        from eigenmap.cli.figures.reproduce_dry_run import print_dry_run
        from eigenmap.reproduce import recipe_of

        recipes = [recipe_of("ordered", scale.value)]
        print_dry_run(item, scale, data, recipes, device, 1, asked.json, log_function(quiet), searches=searches)
        return
    runs = load_runs(scale, data, seed=asked.seed, device=device, quiet=quiet, folder=asked.runs_folder)
    picture = draw(runs)
    save(picture.figure, stem)
    write_item(asked.json, item, scale, {"seed": asked.seed, **picture.content})
    for line in (*picture.lines, f"Figure: {', '.join(map(str, files))}"):
        print_result(line)


@reproduce.command("figure-grid", epilog=_example("figure-grid"))
def figure_grid_command(
    out: Annotated[Path, option("--out -o STEM", OUT, OUTPUT, shown=True)] = Path("figures/paper-grid"),
    scale: ScaleOption = ScaleName.small,
    data: DataOption = None,
    model: ModelOption = None,
    search: SearchOption = None,
    runs_folder: RunsFolderOption = None,
    dry_run: DryRunOption = False,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draw the ten nearest images by the first 4, 8, 16, 32 and 64 features, as in figure 1."""
    from eigenmap.reproduce.pictures import ordered_model, result_grid
    from eigenmap.reproduce.searches import check_searches, load_searches

    lists = check_searches(scale.value, search or [])

    def draw(runs: Runs) -> Picture:
        with progress_bar("reading", quiet) as reading:
            searched = load_searches(scale.value, runs.sets, search or [], 10, reading)[0]
        figure, found = result_grid(ordered_model(scale.value, runs, model), searched)
        lines = []
        for rows in found:
            shares = ", ".join(f"{row['dim']}: {row['right']:.0%}" for row in rows)
            lines.append(f"{rows[0]['query']}: share of results in its class, by number of features: {shares}")
        return Picture(figure, {"search": searched.name, "results": found}, lines)

    asked = Request(out, scale, data, runs_folder, dry_run, seed, device, json, force, quiet)
    _write_picture("figure-grid", draw, asked, lists)


@reproduce.command("figure-excite", epilog=_example("figure-excite"))
def figure_excite_command(
    out: Annotated[Path, option("--out -o STEM", OUT, OUTPUT, shown=True)] = Path("figures/paper-excite"),
    scale: ScaleOption = ScaleName.small,
    data: DataOption = None,
    model: ModelOption = None,
    runs_folder: RunsFolderOption = None,
    dry_run: DryRunOption = False,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draw the ten test images that excite each of the first 8 features most."""
    from eigenmap.reproduce.pictures import exciting_grid, ordered_model

    def draw(runs: Runs) -> Picture:
        figure, names = exciting_grid(ordered_model(scale.value, runs, model), runs.sets.test)
        return Picture(figure, {"images": names}, [])

    asked = Request(out, scale, data, runs_folder, dry_run, seed, device, json, force, quiet)
    _write_picture("figure-excite", draw, asked)


@reproduce.command("figure-optimise", epilog=_example("figure-optimise"))
def figure_optimise_command(
    out: Annotated[Path, option("--out -o STEM", OUT, OUTPUT, shown=True)] = Path("figures/paper-optimise"),
    scale: ScaleOption = ScaleName.small,
    data: DataOption = None,
    model: ModelOption = None,
    steps: Annotated[
        int | None, option("--steps N", "Steps per image [dim](default: 5,000; 100 at tiny scale)[/dim].", HOW, min=1)
    ] = None,
    runs_folder: RunsFolderOption = None,
    dry_run: DryRunOption = False,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make images from noise that excite each of the first 8 features, as in the appendix."""
    from eigenmap.reproduce.pictures import optimised_grid, ordered_model

    def draw(runs: Runs) -> Picture:
        trained = ordered_model(scale.value, runs, model)
        count = steps or (100 if scale is ScaleName.tiny else 5000)
        with progress_bar("making images", quiet) as tick:
            figure, values = optimised_grid(trained, count, seed, progress=tick)
        reached = ", ".join(f"{most:+.1f} / {least:+.1f}" for most, least in values)
        return Picture(figure, {"steps": count, "values": values}, [f"values reached: {reached}"])

    asked = Request(out, scale, data, runs_folder, dry_run, seed, device, json, force, quiet)
    _write_picture("figure-optimise", draw, asked)
