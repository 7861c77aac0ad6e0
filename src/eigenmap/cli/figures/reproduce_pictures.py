"""`eigenmap reproduce figure-grid`, `figure-excite`, `figure-optimise`: the paper's pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from eigenmap.cli.console import print_result, progress_bar
from eigenmap.cli.figures.reproduce_options import ModelOption, ScaleName, SearchOption, StemOption
from eigenmap.cli.figures.reproduce_request import Request, item_command
from eigenmap.cli.options import HOW, option
from eigenmap.cli.outputs import figure_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eigenmap.data.images.released import Released
    from eigenmap.reproduce.runs import Runs

EXAMPLE = "--scale small --data CIFAR10/"


class Picture(NamedTuple):
    """A figure, its content as numbers and names, and lines to print."""

    figure: Figure
    content: dict[str, object]
    lines: list[str]


@item_command("figure-grid", EXAMPLE)
def figure_grid_command(
    asked: Request,
    out: StemOption = Path("figures/paper-grid"),
    model: ModelOption = None,
    search: SearchOption = None,
) -> None:
    """Draw the ten nearest images by the first 4, 8, 16, 32 and 64 features, as in figure 1."""
    from eigenmap.reproduce.pictures import ordered_model, result_grid
    from eigenmap.reproduce.searches import check_searches

    lists = check_searches(asked.scale.value, search or [])

    def draw(runs: Runs) -> Picture:
        searched = asked.load_searches(runs, search or [], top=10)[0]
        figure, found = result_grid(ordered_model(asked.scale.value, runs, model), searched)
        lines = []
        for rows in found:
            shares = ", ".join(f"{row['dim']}: {row['right']:.0%}" for row in rows)
            lines.append(f"{rows[0]['query']}: share of results in its class, by number of features: {shares}")
        return Picture(figure, {"search": searched.name, "results": found}, lines)

    _write_picture(asked, out, draw, lists)


@item_command("figure-excite", EXAMPLE)
def figure_excite_command(
    asked: Request, out: StemOption = Path("figures/paper-excite"), model: ModelOption = None
) -> None:
    """Draw the ten test images that excite each of the first 8 features most."""
    from eigenmap.reproduce.pictures import exciting_grid, ordered_model

    def draw(runs: Runs) -> Picture:
        figure, names = exciting_grid(ordered_model(asked.scale.value, runs, model), runs.sets.test)
        return Picture(figure, {"images": names}, [])

    _write_picture(asked, out, draw)


@item_command("figure-optimise", EXAMPLE)
def figure_optimise_command(
    asked: Request,
    out: StemOption = Path("figures/paper-optimise"),
    model: ModelOption = None,
    steps: Annotated[
        int | None, option("--steps N", "Steps per image [dim](default: 5,000; 100 at tiny scale)[/dim].", HOW, min=1)
    ] = None,
) -> None:
    """Make images from noise that excite each of the first 8 features, as in the appendix."""
    from eigenmap.reproduce.pictures import optimised_grid, ordered_model

    def draw(runs: Runs) -> Picture:
        trained = ordered_model(asked.scale.value, runs, model)
        count = steps or (100 if asked.scale is ScaleName.tiny else 5000)
        with progress_bar("making images", asked.quiet) as tick:
            figure, values = optimised_grid(trained, count, asked.seed, progress=tick)
        reached = ", ".join(f"{most:+.1f} / {least:+.1f}" for most, least in values)
        return Picture(figure, {"steps": count, "values": values}, [f"values reached: {reached}"])

    _write_picture(asked, out, draw)


def _write_picture(
    asked: Request, out: Path, draw: Callable[[Runs], Picture], searches: Mapping[str, Released] | None = None
) -> None:
    """Read the images, draw, and write the figure and its content; in a dry run, say what training would take."""
    from eigenmap.core.processes import is_first_process
    from eigenmap.figures.style import save
    from eigenmap.reproduce import recipe_of

    stem, files = figure_files(out)
    asked.check_outputs(*files)
    if asked.dry_run:
        asked.estimate([recipe_of("ordered", asked.scale.value)], searches)
        return
    picture = draw(asked.load_runs())
    if is_first_process():
        save(picture.figure, stem)
    asked.write(picture.content)
    for line in (*picture.lines, f"Figure: {', '.join(map(str, files))}"):
        print_result(line)
