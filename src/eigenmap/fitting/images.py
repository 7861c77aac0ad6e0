"""Fit of images: from a folder of images to a trained, ordered model in one call.

model = eigenmap.fit_images("PHOTOS/", n_components=256)
codes = model.encode(images, dim=16)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from eigenmap import recipes
from eigenmap.augment.views import IMAGENET_STANDARDISATION, Standardisation, TwoViews, half_size
from eigenmap.augment.views import policy as two_views
from eigenmap.core.arguments import a_path, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction
from eigenmap.core.rows import spread
from eigenmap.data import ImageSet, load_images
from eigenmap.evaluation.monitor import classes_of, knn_monitor
from eigenmap.fitting import pipeline
from eigenmap.fitting.evidence import CONSTANT, image_evidence, pairs_to_align
from eigenmap.fitting.options import RunOptions, check_length
from eigenmap.fitting.problem import Problem
from eigenmap.model import Eigenmap, EncoderSpec, ImageInput
from eigenmap.networks import Network, comes_trained, freeze, load_encoder_weights, require_encoder
from eigenmap.networks.network import dry_run_width
from eigenmap.networks.projector import MOST_LAYERS
from eigenmap.objectives import build
from eigenmap.recipes import Recipe
from eigenmap.recipes.recipe import identity
from eigenmap.relations.images import ImagePairs, split_held_out
from eigenmap.training import TrainingConfig
from eigenmap.training.config import Accelerator
from eigenmap.training.launch import machines
from eigenmap.training.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FEWEST_IMAGES = 16
"""Minimum number of images."""
MOST_STEPS = 1e12
"""Maximum number of steps; a larger number must be a mistake."""


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
    threads: int | None = None,
    strict: bool = False,
    device: Accelerator = "auto",
    devices: int = 1,
    nodes: int = 1,
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
        n_components: number of features to learn; codes can be cut at any shorter length.
        recipe: a name from `recipes.RECIPES`, "auto", or a `Recipe`.
        encoder: encoder instead of the recipe's: a name, or any module that returns (batch, features).
        encoder_weights: file with initial weights of the encoder, as torchvision saves them.
        freeze_encoder: train only the projector.
        standardisation: mean and deviation of the pixels; `augment.views.IMAGENET_STANDARDISATION` for encoders
            pretrained on ImageNet.
        out: folder for the model, checkpoints and metrics; without it nothing is written.
        resume: continue from the last checkpoint in `out`.
        force: write into `out` even if it contains a run.
        steps: length of training in steps, instead of the recipe's epochs.
        minutes: time for reading (up to half of it), training and ordering the features; as many steps as fit, at most
            `steps`.
        seed: seed of everything random; on a CPU, the same seed, steps and threads give the same model.
        threads: CPU threads for training; by default measured at the start, unless OMP_NUM_THREADS is set.
        strict: fail on the first unreadable image instead of leaving it out.
        device: "auto", "cpu", "cuda" or "mps".
        devices: number of devices per machine; leave out under torchrun.
        nodes: number of machines; leave out under torchrun.
        tensorboard: write TensorBoard files beside metrics.jsonl.
        monitor_labels: report the nearest-neighbour accuracy on held-out images at each check; labels are not used for
            training.
        progress: True for a progress bar, False for none, or your own `Progress` object.
        reading: called as `reading(done, total)` while images are read.
        say: called with messages (files skipped, number of steps, rank found).
        settings: any setting of the recipe, for example `epochs=100`, `objective="scl"`, `batch_size=512`. With
            `epochs=0` nothing is trained: the features of a pretrained encoder are ordered in one pass.

    Example:
        >>> model = fit_images("PHOTOS/", n_components=256, out="runs/mine", minutes=10)  # doctest: +SKIP

    """
    options = RunOptions.checked(
        out=out,
        resume=resume,
        force=force,
        seed=seed,
        device=device,
        devices=devices,
        nodes=nodes,
        tensorboard=tensorboard,
        progress=progress,
        say=say,
        minutes=minutes,
        steps=steps,
        threads=threads,
        length_given=steps is not None or minutes is not None or settings.get("epochs") is not None,
    )
    asked = {name: value for name, value in {"n_components": n_components, **settings}.items() if value is not None}
    chosen = (recipe if isinstance(recipe, Recipe) else recipes.get(recipe)).but(**asked)
    if isinstance(encoder, str):
        chosen = chosen.but(encoder=encoder)
    # Check everything possible before reading the images, which may take a long time.
    check_length(steps, minutes, settings.get("epochs"))
    _check_kinds(encoder, standardisation)
    check_recipe(chosen, encoder_weights)
    if chosen.epochs == 0:
        _check_untrained(chosen, encoder, encoder_weights, length=steps or minutes)
    machines(options.config(chosen, steps or 1))
    build(chosen.objective, **chosen.objective_options)

    standardisation = standardisation or usual_standardisation(chosen)
    data = load_for(images, chosen, standardisation.channels, strict, reading, options.say)
    classes = classes_of(data) if monitor_labels else None
    train_rows, held_rows = _split(data, options.seed)
    chosen = _fitted(chosen, asked, len(train_rows), len(held_rows), options.say)
    if minutes is not None and chosen.compile == "auto":
        chosen = chosen.but(compile=False)  # the number of steps is not known yet, so neither is whether it pays
    trained = encoder_weights is not None or isinstance(encoder, nn.Module) or comes_trained(chosen.encoder)
    if freeze_encoder and not trained:
        options.say("The encoder is frozen at its random initial weights: give encoder_weights.")
    task = ImageTask(
        chosen,
        data.pixels,
        train_rows,
        held_rows,
        prepared_input(chosen, data, standardisation),
        digest=data.digest(),
        skipped=len(data.skipped),
        module=encoder if isinstance(encoder, nn.Module) else None,
        weights=encoder_weights,
        frozen=freeze_encoder,
        classes=classes,
        aspects=data.aspects,
    )
    return pipeline.fit(task, options)


@dataclass(frozen=True)
class ImageTask:
    """Images to learn from: two random views of an image belong together.

    Attributes:
        recipe: all settings.
        pixels: uint8 (N, C, H, W).
        train_rows: rows of `pixels` to train on.
        held_rows: rows of `pixels` that are held out.
        image: image preprocessing.
        digest: identifies the images when a run is resumed.
        skipped: number of files that could not be read.
        module: the caller's own encoder, instead of the recipe's.
        weights: file with initial weights of the encoder.
        frozen: whether only the projector is trained.
        classes: class numbers for reporting nearest-neighbour accuracy; not used for training.
        aspects: width / height of the original images, if these were squeezed into squares.

    """

    recipe: Recipe
    pixels: Tensor
    train_rows: Tensor
    held_rows: Tensor
    image: ImageInput
    digest: str = ""
    skipped: int = 0
    module: nn.Module | None = None
    weights: str | Path | None = None
    frozen: bool = False
    classes: Tensor | None = None
    aspects: Tensor | None = None

    @property
    def steps(self) -> int:
        """Number of steps in the recipe's epochs, at least 1; 0 if nothing is trained."""
        if self.recipe.epochs == 0:
            return 0
        steps = self.recipe.epochs * (len(self.train_rows) // self.recipe.batch_size)
        if steps > MOST_STEPS:
            raise EigenmapError(f"{self.recipe.epochs:g} epochs are too many steps; use fewer.")
        return max(1, round(steps))

    @property
    def views(self) -> TwoViews:
        """Views of the images, random and plain."""
        image = self.image
        return TwoViews(self.recipe.views, image.view_size, image.standardisation, image.view_size / image.size)

    @property
    def step_in_words(self) -> str:
        """Content of a step."""
        return f"{self.recipe.batch_size} images"

    def problem(self, fabric: Fabric, config: TrainingConfig) -> Problem:
        """State the problem: views of training images, views of held-out images, a network and an objective."""
        recipe, seed = self.recipe, config.seed
        spec = EncoderSpec(None if self.module is not None else recipe.encoder, recipe.stem)
        network = self.network(spec, seed)
        views = self.views
        pairs = ImagePairs(
            self.pixels,
            views,
            recipe.batch_size,
            seed,
            fabric.device,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
            compile=config.compile and fabric.device.type == "cuda",
            rows=self.train_rows,
            aspects=self.aspects,
            crops=recipe.crops,
        )
        # Every process sees all held-out images.
        held_pairs = ImagePairs(
            self.pixels,
            views,
            len(self.held_rows),
            seed + 1,
            fabric.device,
            rows=self.held_rows,
            aspects=self.aspects,
        )
        monitor = None
        if self.classes is not None:
            monitor = knn_monitor(
                self.pixels, self.classes, self.train_rows, self.held_rows, views, fabric.device, self.aspects
            )
        return Problem(
            network=network,
            stored=network,
            relation=pairs,
            objective=build(recipe.objective, **recipe.objective_options),
            held_out=lambda: held_pairs.pairs(torch.Generator().manual_seed(seed), recipe.batch_size),
            evidence=lambda share: image_evidence(
                network, pairs, held_pairs, seed, "both" if self.steps else "encoder", share
            ),
            input=self.image,
            encoder=spec,
            identity=self.identity(),
            facts=lambda alignment, say: {
                "images": len(self.train_rows),
                "held_out_images": len(self.held_rows),
                "skipped": self.skipped,
            },
            pairs_to_align=pairs_to_align(len(pairs), len(held_pairs)),
            monitor=monitor,
        )

    def network(self, spec: EncoderSpec, seed: int) -> Network:
        """Build the network, from given weights if there are any."""
        image = self.image
        torch.manual_seed(seed)
        network = Network(
            spec.build(image) if self.module is None else self.module,
            self.recipe.n_components,
            self.recipe.hidden,
            example_shape=(image.channels, image.view_size, image.view_size),
            projector_layers=self.recipe.projector_layers,
        )
        if self.recipe.crops:
            side = half_size(image.view_size)
            dry_run_width(network.encoder, (image.channels, side, side))
        if self.weights is not None:
            load_encoder_weights(network.encoder, self.weights)
        if self.frozen:
            freeze(network.encoder)
            self._require_variety(network.encoder)
        return network

    @torch.no_grad()
    def _require_variety(self, encoder: nn.Module) -> None:
        """Refuse a frozen encoder whose features are the same for every image, before a projector is trained on it."""
        some = spread(len(self.pixels), 16)
        pixels = self.pixels[some]
        if not bool((pixels != pixels[:1]).any()):
            return  # copies of one image tell nothing
        aspects = None if self.aspects is None else self.aspects[some]
        like = next(encoder.parameters(), torch.empty(0))
        features = encoder(self.views.plain(pixels, aspects).to(like))
        if bool((features == features[0]).all()):
            raise EigenmapError(CONSTANT)

    def identity(self) -> dict[str, Any]:
        """Return the settings that must be equal to resume a run."""
        weights = None if self.weights is None else hashlib.sha256(Path(self.weights).read_bytes()).hexdigest()[:16]
        unusual = {"view": self.image.view} if self.image.view else {}
        if self.aspects is not None:
            unusual["whole_images"] = True
        return {
            **identity(self.recipe),
            **unusual,
            "recipe": self.recipe.name,
            "frozen": self.frozen,
            "encoder weights": weights,
            "image_size": self.image.size,
            "channels": self.image.channels,
            "standardisation": json.dumps(asdict(self.image.standardisation)),
            "images": len(self.train_rows),
            "digest of the images": self.digest,
        }


def _check_kinds(encoder: object, standardisation: object) -> None:
    """Refuse an encoder or standardisation of the wrong type."""
    if encoder is not None and not isinstance(encoder, str | nn.Module):
        raise EigenmapError(f"encoder must be a name or a torch module (an instance), not {encoder!r}.")
    if standardisation is not None and not isinstance(standardisation, Standardisation):
        raise EigenmapError(f"standardisation must be Standardisation(mean=..., std=...), not {standardisation!r}.")


def check_recipe(recipe: Recipe, encoder_weights: str | Path | None = None) -> None:
    """Refuse views, encoders and files that do not exist, and batches, codes or projectors that are too small."""
    policies = two_views(recipe.views)
    require_encoder(recipe.encoder)
    if recipe.whole_images and any(policy.rotation for policy in policies):
        raise EigenmapError(f"Crops of whole images cannot be rotated: choose views other than {recipe.views}.")
    if recipe.read_size is not None and recipe.read_size < (recipe.image_size or recipe.read_size + 1):
        raise EigenmapError(f"read_size is {recipe.read_size}: give an image_size that is no larger.")
    if encoder_weights is not None and not a_path(encoder_weights, "encoder_weights").is_file():
        raise EigenmapError(f"The weights file {encoder_weights} does not exist.")
    _check_batch(recipe)


def _check_untrained(recipe: Recipe, encoder: object, encoder_weights: str | Path | None, length: float | None) -> None:
    """Refuse to order the features of an untrained encoder or projector."""
    if length is not None:
        raise EigenmapError("The recipe has epochs=0, which trains nothing: leave steps and minutes out.")
    if encoder_weights is None and not isinstance(encoder, nn.Module) and not comes_trained(recipe.encoder):
        raise EigenmapError("epochs=0 trains nothing: give the weights of a trained encoder as encoder_weights=.")
    if recipe.codes == "projector":
        raise EigenmapError('epochs=0 leaves the projector untrained: use codes="encoder".')


def _check_batch(recipe: Recipe) -> None:
    """Refuse a batch that is too small for moments or for its chunks, and codes or projectors that are too short."""
    if recipe.batch_size < 2:
        raise EigenmapError("batch_size must be at least 2, since the images of a batch are compared with each other.")
    if recipe.n_components < 2:
        raise EigenmapError(
            "n_components must be at least 2, since codes are compared by direction; codes can be cut to 1."
        )
    whole_number(recipe.projector_layers, "projector_layers", 2, MOST_LAYERS)
    if recipe.accumulate > recipe.batch_size:
        raise EigenmapError(
            f"accumulate is {recipe.accumulate}, but a batch has only {recipe.batch_size} images; use fewer chunks."
        )


def usual_standardisation(recipe: Recipe) -> Standardisation:
    """Return the standardisation of a recipe's pixels."""
    return IMAGENET_STANDARDISATION if recipe.imagenet_pixels else Standardisation()


def prepared_input(recipe: Recipe, data: ImageSet, standardisation: Standardisation) -> ImageInput:
    """Return the image preprocessing of a recipe."""
    size = recipe.read_size or recipe.image_size or data.size
    view = recipe.image_size if recipe.image_size not in (None, size) else None
    return ImageInput(size, data.channels, standardisation, view)


def load_for(
    images: object,
    recipe: Recipe,
    channels: int | None,
    strict: bool,
    reading: Callable[[int, int], object] | None,
    say: LogFunction,
) -> ImageSet:
    """Read the images at the size that a recipe needs."""
    if isinstance(images, ImageSet) and channels in (None, images.channels):
        return images
    size, uncut = recipe.read_size or recipe.image_size, recipe.whole_images
    data = load_images(images, size, channels, strict=strict, progress=reading, uncut=uncut)  # type: ignore[arg-type]
    log_skipped(data, say)
    return data


def log_skipped(data: ImageSet, say: LogFunction) -> None:
    """Report the files that could not be read, and why."""
    log_left_out(data.skipped, len(data), say)


def log_left_out(skipped: Sequence[tuple[str, str]], images: int, say: LogFunction) -> None:
    """Report the files that were left out, and why for the first ten; `images` were read."""
    if not skipped:
        return
    say(f"{len(skipped):,} of {images + len(skipped):,} files could not be read and were left out:")
    for name, reason in skipped[:10]:
        say(f"  {name}: {reason}")
    if len(skipped) > 10:
        say(f"  ... and {len(skipped) - 10:,} more")


def _split(data: ImageSet, seed: int) -> tuple[Tensor, Tensor]:
    """Return the rows to train on and the rows held out."""
    if len(data) < FEWEST_IMAGES:
        images = "1 image is" if len(data) == 1 else f"{len(data)} images are"
        raise EigenmapError(f"{images} too few to learn from; give at least {FEWEST_IMAGES}.")
    if not any(bool((part != data.pixels[:1]).any()) for part in torch.split(data.pixels, 256)):
        raise EigenmapError("All images are the same, so their codes would be equal; give images that differ.")
    return split_held_out(len(data), fraction=0.1, seed=seed, minimum=8, maximum=5_000)


def _fitted(recipe: Recipe, asked: Mapping[str, Any], train: int, held_out: int, say: LogFunction) -> Recipe:
    """Adapt the recipe to the number of training images; requested values are refused instead of reduced."""
    images = f"{train:,} training images ({held_out:,} more are held out)"
    if recipe.n_components > train and "n_components" in asked:
        raise EigenmapError(
            f"{recipe.n_components:,} components cannot be learned from {images}; use at most {train:,}."
        )
    if recipe.batch_size > train and "batch_size" in asked:
        raise EigenmapError(
            f"A batch of {recipe.batch_size:,} is larger than the data set of {images}; use a smaller one."
        )
    if recipe.n_components > train:
        say(f"{images} allow {train:,} components, not {recipe.n_components:,}.")
    fitted = recipe.but(n_components=min(recipe.n_components, train), batch_size=min(recipe.batch_size, train))
    _check_batch(fitted)
    # Fail here, before training writes into a folder.
    build(fitted.objective, **fitted.objective_options).check_components(fitted.n_components)
    return fitted
