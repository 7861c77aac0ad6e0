"""The front doors: from data to a trained, ordered model in one call.

model = eigenmap.fit_images("PHOTOS/", n_components=256)
codes = model.encode(images, dim=16)
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor, nn

from eigenmap import recipes
from eigenmap.alignment import align_outputs, best_output, pairs_to_align
from eigenmap.arguments import a_path, is_number, seed_number, whole_number
from eigenmap.data import ImageSet, load_images
from eigenmap.errors import EigenmapError
from eigenmap.evaluation.monitor import classes_of, knn_monitor
from eigenmap.files import require_writable
from eigenmap.model import CHECKPOINT, DESCRIPTION, Eigenmap, EncoderSpec, ImageInput, Source
from eigenmap.networks import Network, freeze, load_encoder_weights, require_encoder
from eigenmap.objectives import Matryoshka, build
from eigenmap.recipes import Recipe
from eigenmap.recipes.graph import GraphRecipe
from eigenmap.relations.augmentation import Standardisation, TwoViews
from eigenmap.relations.augmentation import recipe as two_views
from eigenmap.relations.images import ImagePairs, split_held_out
from eigenmap.training import (
    TrainingConfig,
    budget_in_words,
    checkpoint,
    measure_step,
    show,
    start,
    steps_for_budget,
    train,
)
from eigenmap.training.config import Accelerator, Setting
from eigenmap.training.environment import history
from eigenmap.training.launch import pays_to_compile
from eigenmap.training.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FEWEST_IMAGES = 16
"""Below this there is nothing to hold out and nothing to learn."""
MOST_STEPS = 1e12
"""More are a mistake."""

WORTH_SAYING = 10.0
"""Seconds of silence, from which on it is said beforehand."""

FEWEST_STEPS_TO_A_CHECK = 10
"""Three bad checks stop a run, and in a handful of steps no network gets far from where it began."""


def fit_images(
    images: object,
    n_components: int | None = None,
    *,
    recipe: str | Recipe = "auto",
    encoder: str | nn.Module | None = None,
    encoder_weights: str | Path | None = None,
    freeze_encoder: bool = False,
    standardisation: Standardisation | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    steps: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    strict: bool = False,
    device: Accelerator = "auto",
    devices: int = 1,
    tensorboard: bool = False,
    monitor_labels: bool = False,
    progress: bool | Progress = True,
    reading: Callable[[int, int], object] | None = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Eigenmap:
    """Learn ordered codes from unlabelled images.

    Args:
        images: a folder, an .npy / .npz / parquet file, an array, a list of Pillow images, or an `ImageSet`.
        n_components: how many features to learn; codes can be cut anywhere below.
        recipe: a name from `recipes.RECIPES`, "auto", or a `Recipe`.
        encoder: another encoder than the recipe's: a name, or any module that returns (batch, features).
        encoder_weights: a file to start the encoder from, as torchvision saves them.
        freeze_encoder: train the projector only.
        standardisation: what the pixels are divided by; `relations.augmentation.IMAGENET` for pretrained encoders.
        out: folder for the model, checkpoints and metrics; without it nothing is written.
        resume: go on from the last checkpoint in `out`.
        force: write into `out` although there is a run in it.
        steps: length of training in steps, in place of the recipe's epochs.
        minutes: length of training in minutes, as steps that fit by the measured speed of this machine.
        seed: of everything random; on a CPU the same seed gives the same model.
        strict: fail on the first unreadable image instead of leaving it out.
        device: "auto", "cpu" or "cuda"; `devices` of them.
        tensorboard: write TensorBoard files beside metrics.jsonl.
        monitor_labels: report at each check how well nearest neighbours classify held-out images; nothing learns
            from the labels.
        progress: a progress bar (True), nothing (False), or an object of your own.
        reading: called as `reading(done, total)` while images are read.
        say: called with what is worth knowing in between (files skipped, steps chosen, rank found).
        settings: any setting of the recipe, for example `epochs=100`, `objective="scl"`, `batch_size=512`.

    Example:
        >>> model = fit_images("PHOTOS/", n_components=256, out="runs/mine", minutes=10)  # doctest: +SKIP

    """
    say = say or (lambda line: None)
    seed = seed_number(seed)
    folder = prepare(out, resume=resume, force=force)
    if resume and folder is not None and not (folder / CHECKPOINT).is_file():
        say(f"There is no checkpoint in {folder} to go on from: training begins anew.")
    chosen = (recipe if isinstance(recipe, Recipe) else recipes.get(recipe)).but(n_components=n_components, **settings)
    if isinstance(encoder, str):
        chosen = chosen.but(encoder=encoder)
    # Whatever can be refused is refused before images are read, which may take long.
    check_length(steps, minutes, settings.get("epochs"))
    _check_kinds(encoder, standardisation, progress)
    _check_names(chosen, encoder_weights, tensorboard)
    _check_batch(chosen)
    training_config(chosen, steps or 1, seed, device, devices, tensorboard)
    objective = build(chosen.objective, **chosen.objective_options)

    standardisation = standardisation or Standardisation()
    data = _load(images, chosen.image_size, standardisation.channels, strict, reading, say)
    classes = classes_of(data) if monitor_labels else None
    train_rows, held_rows = _split(data, seed)
    asked = {name: value for name, value in {"n_components": n_components, **settings}.items() if value is not None}
    chosen = _fitted(chosen, asked, len(train_rows), len(held_rows), say)
    if isinstance(objective, Matryoshka):
        objective.prefixes(chosen.n_components)  # refused here, not when the first step has begun a folder

    image = ImageInput(chosen.image_size or data.size, data.channels, standardisation)
    spec = EncoderSpec(None if isinstance(encoder, nn.Module) else chosen.encoder, chosen.stem)
    torch.manual_seed(seed)
    network = Network(
        encoder if isinstance(encoder, nn.Module) else spec.build(image),
        chosen.n_components,
        chosen.hidden,
        example_shape=(image.channels, image.size, image.size),
    )
    if encoder_weights is not None:
        load_encoder_weights(network.encoder, encoder_weights)
    if freeze_encoder:
        freeze(network.encoder)
        if encoder_weights is None and not isinstance(encoder, nn.Module):
            say("The encoder is frozen with the random weights it was made with: give it trained ones.")

    if minutes is not None and chosen.compile == "auto":
        chosen = chosen.but(compile=False)  # how many steps there will be, and whether it pays, is not known yet
    epoch = len(train_rows) // chosen.batch_size
    if minutes is not None and resume and folder is not None:
        steps = steps_of_run(folder)  # how many fit into the time was settled when the run began
        if steps is not None:
            say(f"The run has {steps:,} steps, which was settled when it began.")
    if chosen.epochs * epoch > MOST_STEPS:
        raise EigenmapError(f"{chosen.epochs:g} epochs are more steps than can be counted; ask for fewer.")
    config = training_config(chosen, steps or max(1, round(chosen.epochs * epoch)), seed, device, devices, tensorboard)
    fabric = start(config)
    views = TwoViews(chosen.views, image.size, image.standardisation)
    pairs = _pairs(data.pixels, train_rows, views, chosen.batch_size, seed, fabric, compile=config.compile)
    held_pairs = _pairs(data.pixels, held_rows, views, len(held_rows), seed + 1, fabric, whole=True)
    if minutes is not None and steps is None:
        seconds = measure_step(network, pairs, objective, config, fabric)
        config = training_config(
            chosen, steps_for_budget(60 * minutes, seconds, least=20), seed, device, devices, tensorboard
        )
        say(budget_in_words(config.steps, f"{chosen.batch_size} images", seconds, minutes))

    result = train(
        network,
        pairs,
        objective,
        config,
        out=folder,
        resume=resume,
        held_out=lambda: held_pairs.pairs(_generator(seed), chosen.batch_size),
        monitor=None
        if classes is None
        else knn_monitor(data.pixels, classes, train_rows, held_rows, views, fabric.device),
        progress=show() if progress is True else progress or None,
        settings=_identity(chosen, image, freeze_encoder, encoder_weights, len(train_rows), data.digest()),
        fabric=fabric,
    )
    began = time.perf_counter()
    # Forward only: about a third of the work of training.
    ahead = pairs_to_align(len(train_rows), len(held_rows)) * result.seconds / (result.steps * chosen.batch_size) / 3
    if ahead > WORTH_SAYING:
        say(f"Trained; ordering the features takes some {ahead:.0f} s more.")
    sources: Sequence[Source] = ("encoder", "projector") if chosen.codes == "auto" else (chosen.codes,)
    aligned = align_outputs(network, pairs, held_pairs, sources, chosen.n_components, seed)
    source, alignment = best_output(aligned, chosen.n_components, say)
    training = {
        **history(chosen, seed, result, time.perf_counter() - began, fabric.device),
        "images": len(train_rows),
        "held_out_images": len(held_rows),
        "skipped": len(data.skipped),
    }
    model = Eigenmap(network, alignment, source, image, spec, training)
    if folder is not None and fabric.is_global_zero:
        model.save(folder)
    return model


def prepare(out: str | Path | None, *, resume: bool, force: bool) -> Path | None:
    """The output folder, if it may be written to; nothing is created yet."""
    if out is None:
        if resume:
            raise EigenmapError("resume goes on with the run in a folder: say which with out=.")
        return None
    folder = a_path(out, "out")
    if resume and force:
        raise EigenmapError("resume goes on with the run that is there and force replaces it: choose one.")
    if folder.exists() and not folder.is_dir():
        raise EigenmapError(f"{folder} is a file; choose a folder for the output.")
    if folder.is_dir() and any(folder.iterdir()) and not (resume or force):
        raise EigenmapError(f"{folder} exists and is not empty: choose another, or use --force or --resume.")
    require_writable(folder / DESCRIPTION)
    return folder


def check_length(steps: int | None, minutes: float | None, epochs: float | None = None) -> None:
    """Refuse a length of training that is none, or is given twice."""
    if steps is not None and minutes is not None:
        raise EigenmapError("Give the length of training in steps or in minutes, not both.")
    if epochs is not None and (steps is not None or minutes is not None):
        raise EigenmapError("Give the length of training in epochs, or in steps or minutes, not both.")
    if steps is not None:
        whole_number(steps, "steps")
    if minutes is not None and not (is_number(minutes) and minutes > 0):
        raise EigenmapError(f"minutes must be a number above 0, not {minutes!r}.")


def _check_kinds(encoder: object, standardisation: object, progress: object) -> None:
    """Refuse what is no encoder, no standardisation or no progress bar, however it came here."""
    if encoder is not None and not isinstance(encoder, str | nn.Module):
        raise EigenmapError(f"encoder must be a name, or a module of torch that is made already, not {encoder!r}.")
    if standardisation is not None and not isinstance(standardisation, Standardisation):
        raise EigenmapError(f"standardisation must be Standardisation(mean=..., std=...), not {standardisation!r}.")
    if not isinstance(progress, bool | None) and not hasattr(progress, "start"):
        raise EigenmapError(
            f"progress must be True, False or an object such as training.show() makes, not {progress!r}."
        )


def _check_names(recipe: Recipe, encoder_weights: str | Path | None, tensorboard: bool) -> None:
    """Refuse views, encoders, files and packages that are not there."""
    two_views(recipe.views)
    require_encoder(recipe.encoder)
    if encoder_weights is not None and not a_path(encoder_weights, "encoder_weights").is_file():
        raise EigenmapError(f"There is no weights file {encoder_weights}.")
    if tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise EigenmapError("TensorBoard is not installed: pip install 'eigenmap[tensorboard]', or leave it out.")


def _check_batch(recipe: Recipe) -> None:
    """Refuse a batch that has no moments, or fewer images than chunks."""
    if recipe.batch_size < 2:
        raise EigenmapError("batch_size must be at least 2: what is learned is how the images of a batch differ.")
    if recipe.n_components < 2:
        raise EigenmapError(
            "n_components must be at least 2: what is compared is the direction of codes. They can be cut to 1."
        )
    if recipe.accumulate > recipe.batch_size:
        raise EigenmapError(
            f"accumulate is {recipe.accumulate}, but a batch has only {recipe.batch_size} images; use fewer chunks."
        )


def _load(
    images: object,
    size: int | None,
    channels: int | None,
    strict: bool,
    reading: Callable[[int, int], object] | None,
    say: Callable[[str], None],
) -> ImageSet:
    if isinstance(images, ImageSet) and channels in (None, images.channels):
        return images
    data = load_images(images, size, channels, strict=strict, progress=reading)  # type: ignore[arg-type]
    say_skipped(data, say)
    return data


def say_skipped(data: ImageSet, say: Callable[[str], None]) -> None:
    """Say which files could not be read, and why."""
    say_left_out(data.skipped, len(data), say)


def say_left_out(
    skipped: Sequence[tuple[str, str]], images: int, say: Callable[[str], None], at_most: int = 10
) -> None:
    """Say which files were left out and why, beside so many images that were not."""
    if not skipped:
        return
    say(f"{len(skipped):,} of {images + len(skipped):,} files could not be read and were left out:")
    for name, reason in skipped[:at_most]:
        say(f"  {name}: {reason}")
    if len(skipped) > at_most:
        say(f"  ... and {len(skipped) - at_most:,} more")


def _split(data: ImageSet, seed: int) -> tuple[Tensor, Tensor]:
    """Rows to train on and rows held out."""
    if len(data) < FEWEST_IMAGES:
        images = "1 image is" if len(data) == 1 else f"{len(data)} images are"
        raise EigenmapError(f"{images} too few to learn from; give at least {FEWEST_IMAGES}.")
    return split_held_out(len(data), fraction=0.1, seed=seed, minimum=8, maximum=5_000)


def _fitted(recipe: Recipe, asked: Mapping[str, Any], train: int, held_out: int, say: Callable[[str], None]) -> Recipe:
    """The recipe for so many training images: what was asked for is refused if it is too much, the rest is cut."""
    images = f"{train:,} training images ({held_out:,} more are held out)"
    if recipe.n_components > train and "n_components" in asked:
        raise EigenmapError(
            f"{recipe.n_components:,} components cannot be learned from {images}: ask for at most {train:,}."
        )
    if recipe.batch_size > train and "batch_size" in asked:
        raise EigenmapError(
            f"A batch of {recipe.batch_size:,} is larger than the data set of {images}: choose a smaller batch size."
        )
    if recipe.n_components > train:
        say(f"{images} allow for {train:,} components, not {recipe.n_components:,}.")
    fitted = recipe.but(n_components=min(recipe.n_components, train), batch_size=min(recipe.batch_size, train))
    _check_batch(fitted)
    return fitted


def steps_of_run(folder: Path) -> int | None:
    """The number of steps of the run to go on with, None where there is none."""
    if not (folder / CHECKPOINT).is_file():
        return None
    steps = checkpoint.load(folder / CHECKPOINT).settings["steps"]
    return steps if isinstance(steps, int) else None


def _identity(
    recipe: Recipe, image: ImageInput, frozen: bool, weights: str | Path | None, images: int, digest: str
) -> dict[str, Setting]:
    """What has to be the same for a run to be resumed, beside the training configuration."""
    return {
        "recipe": recipe.name,
        "objective": recipe.objective,
        "objective_options": json.dumps(dict(recipe.objective_options), sort_keys=True, default=str),
        "encoder": recipe.encoder,
        "stem": recipe.stem,
        "frozen": frozen,
        "encoder weights": None if weights is None else hashlib.sha256(Path(weights).read_bytes()).hexdigest()[:16],
        "n_components": recipe.n_components,
        "hidden": recipe.hidden,
        "views": recipe.views,
        "batch_size": recipe.batch_size,
        "image_size": image.size,
        "channels": image.channels,
        "standardisation": json.dumps(asdict(image.standardisation)),
        "images": images,
        "digest of the images": digest,
    }


def training_config(
    recipe: Recipe | GraphRecipe,
    steps: int,
    seed: int,
    device: Accelerator,
    devices: int,
    tensorboard: bool,
    fewest_steps_to_a_check: int = FEWEST_STEPS_TO_A_CHECK,
) -> TrainingConfig:
    """What a recipe says of training, for so many steps."""
    if device not in get_args(Accelerator):
        raise EigenmapError(f"device must be one of {', '.join(get_args(Accelerator))}, not {device!r}.")
    return TrainingConfig(
        steps=steps,
        optimizer=recipe.optimizer,
        lr=recipe.lr,
        weight_decay=recipe.weight_decay,
        momentum=recipe.momentum,
        warmup_steps=math.floor(recipe.warmup * steps),
        final_lr_fraction=recipe.final_lr_fraction,
        clip_norm=recipe.clip_norm,
        projector_lr_scale=recipe.projector_lr_scale,
        precision=recipe.precision,
        channels_last=isinstance(recipe, Recipe) and recipe.channels_last,
        compile=pays_to_compile(device, steps) if recipe.compile == "auto" else recipe.compile,
        accumulate=recipe.accumulate if isinstance(recipe, Recipe) else 1,
        seed=seed,
        log_every=max(1, steps // 100),
        check_every=max(fewest_steps_to_a_check, steps // 10),
        checkpoint_every=max(1, steps // 10),
        tensorboard=tensorboard,
        accelerator=device,
        devices=devices,
    )


def _pairs(
    pixels: Tensor,
    rows: Tensor,
    views: TwoViews,
    batch_size: int,
    seed: int,
    fabric: Fabric,
    *,
    whole: bool = False,
    compile: bool = False,
) -> ImagePairs:
    """Pairs on this process's device: its share of them, or (`whole`) all."""
    rank, world_size = (0, 1) if whole else (fabric.global_rank, fabric.world_size)
    compile = compile and fabric.device.type == "cuda"
    return ImagePairs(pixels, views, batch_size, seed, fabric.device, rank, world_size, compile, rows)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
