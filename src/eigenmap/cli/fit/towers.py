"""`eigenmap fit towers`: images and the vectors that belong to them, trained jointly."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from eigenmap.cli.console import log_function, note, print_result, progress_bar
from eigenmap.cli.fit.config import ConfigOption, read_config, seed_of, was_given
from eigenmap.cli.fit.images import fit
from eigenmap.cli.fit.options import (
    LENGTH,
    NETWORK,
    TRAINING,
    ComponentsOption,
    FitDevice,
    FitDeviceOption,
    MinutesOption,
    ObjectiveOption,
    OverwriteOption,
    RateOption,
    ResumeOption,
    RunOption,
    StepsOption,
    TensorboardOption,
    TrainingSeedOption,
    check_fit_device,
    check_run,
    recipe_settings,
)
from eigenmap.cli.fit.vectors import score_table
from eigenmap.cli.options import SOURCES_HELP, QuietOption, argument, option


@fit.command(
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap fit towers PHOTOS/ captions.npy --out runs/both --minutes 10[/cyan]

[cyan]  eigenmap embed runs/both PHOTOS/ --side left --out images.npy[/cyan]

[cyan]  eigenmap embed runs/both captions.npy --side right --out texts.npy[/cyan]
""",
)
def towers(
    ctx: typer.Context,
    source: Annotated[Path, argument("IMAGES", f"The images. {SOURCES_HELP}")],
    vectors: Annotated[
        Path, argument("VECTORS", "One vector per image, in the order of the images (a folder's: file names).")
    ],
    out: RunOption,
    epochs: Annotated[float | None, option("--epochs N", "Passes over the pairs.", LENGTH)] = None,
    steps: StepsOption = None,
    minutes: MinutesOption = None,
    recipe: Annotated[
        str, option("--recipe NAME", "Settings of the image tower; see `eigenmap recipes`.", TRAINING, shown=True)
    ] = "auto",
    n_components: ComponentsOption = None,
    encoder: Annotated[str | None, option("--encoder NAME", "Encoder of the images.", NETWORK)] = None,
    width: Annotated[int, option("--width N", "Hidden units of the tower of vectors.", NETWORK, shown=True)] = 512,
    objective: ObjectiveOption = None,
    batch_size: Annotated[int | None, option("--batch-size N", "Pairs per step.", TRAINING)] = None,
    lr: RateOption = None,
    setting: Annotated[
        list[str] | None, option("--set NAME=VALUE", "Any other setting of the recipe, as often as needed.", TRAINING)
    ] = None,
    config: ConfigOption = None,
    seed: TrainingSeedOption = 0,
    device: FitDeviceOption = FitDevice.auto,
    resume: ResumeOption = False,
    force: OverwriteOption = False,
    tensorboard: TensorboardOption = False,
    quiet: QuietOption = False,
) -> None:
    """Learn codes shared by images and vectors, such as those of their captions; both towers are trained.

    An image and its vector should get the same code. For existing image features, use `eigenmap fit vectors FEATURES
    --pairs VECTORS`, which trains no encoder.
    """
    from eigenmap.fitting.towers import fit_towers
    from eigenmap.fitting.vectors import scores_of
    from eigenmap.recipes.recipe import Recipe

    check_run(resume, force, epochs=epochs, steps=steps, minutes=minutes)
    options = {
        "n_components": n_components,
        "encoder": encoder,
        "epochs": epochs,
        "objective": objective,
        "batch_size": batch_size,
        "lr": lr,
    }
    earlier = read_config(config, other_length=steps is not None or minutes is not None)
    settings = recipe_settings(Recipe, setting, options, earlier.settings)
    if steps is None and minutes is None and "epochs" not in settings:
        steps = earlier.steps
    check_fit_device(device)
    with progress_bar("reading", quiet) as reading:
        model = fit_towers(
            source,
            vectors,
            settings.pop("n_components", None),
            recipe=recipe if was_given(ctx, "recipe") else earlier.recipe or recipe,
            width=width if earlier.width is None or was_given(ctx, "width") else earlier.width,
            out=out,
            resume=resume,
            force=force,
            steps=steps,
            minutes=minutes,
            seed=seed_of(ctx, seed, earlier),
            device=device.value,
            tensorboard=tensorboard,
            progress=not quiet,
            reading=reading,
            say=log_function(quiet),
            **settings,
        )
    if not quiet:
        print_result(score_table(scores_of(model)))
        about = model.training["vectors"]
        note(f"{out}: {model.n_components} ordered features for images and vectors from {about['pairs']:,} pairs.")
        asked = ["eigenmap", "embed", str(out), str(source), "--side", "left", "--out", "images.npy"]
        note("Next: " + shlex.join(asked))
