"""`eigenmap fit images`: from unlabelled images to a model of ordered codes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigenmap.cli.app import LEARN, Kinds, app
from eigenmap.cli.console import duration, log_function, note, progress_bar
from eigenmap.cli.fit.config import ConfigOption, read_config, seed_of, was_given
from eigenmap.cli.fit.options import (
    LENGTH,
    NETWORK,
    TRAINING,
    ComponentsOption,
    DevicesOption,
    FitDevice,
    FitDeviceOption,
    MinutesOption,
    NodesOption,
    ObjectiveOption,
    OverwriteOption,
    RateOption,
    ResumeOption,
    RunOption,
    StepsOption,
    TensorboardOption,
    ThreadsOption,
    TrainingSeedOption,
    check_fit_device,
    check_run,
    leading_eigenvalues,
    recipe_settings,
)
from eigenmap.cli.options import (
    OUTPUT,
    SOURCES_HELP,
    QuietOption,
    StrictOption,
    argument,
    option,
)
from eigenmap.core.words import count

if TYPE_CHECKING:
    from eigenmap.model import Eigenmap


fit = typer.Typer(cls=Kinds, no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(fit, name="fit", rich_help_panel=LEARN)


@fit.callback()
def fit_group() -> None:
    """Learn ordered codes from data without labels."""


@fit.command(
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap fit images PHOTOS/ --out runs/mine --minutes 10[/cyan]

[cyan]  eigenmap fit images PHOTOS/ -o runs/mine -k 64 --views simclr --set clip_norm=1[/cyan]

[cyan]  eigenmap fit images PHOTOS/ --out runs/mine --minutes 10 --resume[/cyan]

[cyan]  eigenmap fit images PHOTOS/ --out runs/again --config runs/mine/model.json[/cyan]
""",
)
def images(
    ctx: typer.Context,
    source: Annotated[Path, argument("SOURCE", f"The images. {SOURCES_HELP}")],
    out: RunOption,
    epochs: Annotated[
        float | None,
        option(
            "--epochs X",
            "Passes over the images [dim](default: the recipe's)[/dim]; 0 orders a trained encoder without training.",
            LENGTH,
        ),
    ] = None,
    steps: StepsOption = None,
    minutes: MinutesOption = None,
    n_components: ComponentsOption = None,
    encoder: Annotated[
        str | None,
        option("--encoder NAME", "small-cnn, resnet18, resnet34, resnet50, a timm model, or hf:NAME.", NETWORK),
    ] = None,
    encoder_weights: Annotated[
        Path | None,
        option(
            "--encoder-weights FILE",
            "Start the encoder from these weights (.pth as saved by torchvision, or .safetensors).",
            NETWORK,
        ),
    ] = None,
    freeze: Annotated[bool, option("--freeze", "Train the projector only.", NETWORK, shown=True)] = False,
    imagenet: Annotated[
        bool, option("--imagenet", "Standardise pixels as encoders trained on ImageNet expect.", NETWORK, shown=True)
    ] = False,
    image_size: Annotated[
        int | None,
        option(
            "--image-size N", "Side of the images in pixels [dim](default: their own up to 64, else 64)[/dim].", NETWORK
        ),
    ] = None,
    recipe: Annotated[
        str, option("--recipe NAME", "Settings to start from, see `eigenmap recipes`.", TRAINING, shown=True)
    ] = "auto",
    objective: ObjectiveOption = None,
    views: Annotated[
        str | None,
        option(
            "--views NAME",
            "Augmentation: weak, catalogue, cifar, cifar-wide, cifar-simclr, simclr or barlow_twins.",
            TRAINING,
        ),
    ] = None,
    batch_size: Annotated[int | None, option("--batch-size N", "Images per step.", TRAINING)] = None,
    lr: RateOption = None,
    optimizer: Annotated[str | None, option("--optimizer NAME", "adamw, sgd, lars or lamb.", TRAINING)] = None,
    setting: Annotated[
        list[str] | None,
        option(
            "--set NAME=VALUE",
            "Any other setting of the recipe, as often as needed: clip_norm=1, warmup=0.1, hidden=512, "
            "codes=projector, objective_options='{\"alpha\": 1}'.",
            TRAINING,
        ),
    ] = None,
    config: ConfigOption = None,
    seed: TrainingSeedOption = 0,
    threads: ThreadsOption = None,
    device: FitDeviceOption = FitDevice.auto,
    devices: DevicesOption = 1,
    nodes: NodesOption = 1,
    strict: StrictOption = False,
    resume: ResumeOption = False,
    force: OverwriteOption = False,
    tensorboard: TensorboardOption = False,
    monitor: Annotated[
        bool,
        option(
            "--monitor",
            "Report nearest-neighbour accuracy on held-out images during training; needs class folders.",
            OUTPUT,
            shown=True,
        ),
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Learn ordered codes from unlabelled images.

    Two random views of one image should get the same code.
    Features are sorted by how much the two views share of each.
    Class folders are not needed; if there are any, nothing is learned from them.
    """
    from eigenmap.augment.views import IMAGENET_STANDARDISATION
    from eigenmap.fitting.images import fit_images
    from eigenmap.recipes.recipe import Recipe

    check_run(resume, force, epochs=epochs, steps=steps, minutes=minutes)
    options = {
        "n_components": n_components,
        "encoder": encoder,
        "image_size": image_size,
        "epochs": epochs,
        "objective": objective,
        "views": views,
        "batch_size": batch_size,
        "lr": lr,
        "optimizer": optimizer,
    }
    earlier = read_config(config, other_length=steps is not None or minutes is not None)
    settings = recipe_settings(Recipe, setting, options, earlier.settings)
    if steps is None and minutes is None and "epochs" not in settings:
        steps = earlier.steps
    check_fit_device(device)
    with progress_bar("reading", quiet) as reading:
        model = fit_images(
            source,
            recipe=recipe if was_given(ctx, "recipe") else earlier.recipe or recipe,
            encoder_weights=encoder_weights,
            freeze_encoder=freeze,
            standardisation=IMAGENET_STANDARDISATION if imagenet else None,
            out=out,
            resume=resume,
            force=force,
            steps=steps,
            minutes=minutes,
            seed=seed_of(ctx, seed, earlier),
            threads=threads,
            strict=strict,
            device=device.value,
            devices=devices,
            nodes=nodes,
            tensorboard=tensorboard,
            monitor_labels=monitor,
            progress=not quiet,
            reading=reading,
            say=log_function(quiet),
            **settings,
        )
    if not quiet:
        _summarise(model, out, source)


def _summarise(model: Eigenmap, out: Path, source: Path) -> None:
    """Report what was made and what to do next."""
    about = model.training
    images = about["images"] + about["held_out_images"]
    note(
        f"{out}: {model.n_components} ordered features from {count(images, 'image')}, "
        f"{count(about['steps'], 'step')} in {duration(about['seconds'])}."
    )
    note(f"Eigenvalues (what two views of an image share of each feature): {leading_eigenvalues(model)}")
    note(f"Features that keep 95 % of the nearest neighbours: {model.suggest_dim(recall=0.95)}.")
    note("Next: " + shlex.join(["eigenmap", "index", str(out), str(source), "--out", "photos.index"]))
