"""Fit of two towers, trained jointly: images and the vectors that belong to them, such as those of captions.

model = eigenmap.fit_towers("PHOTOS/", "captions.npy")
codes, others = model.encode(images), model.right.encode(vectors)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad

from eigenmap import recipes
from eigenmap.augment.views import TwoViews
from eigenmap.core.arguments import whole_number
from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction
from eigenmap.data.vectors.input import VectorInput
from eigenmap.data.vectors.vectors import Vectors, load_vectors
from eigenmap.fitting import pipeline
from eigenmap.fitting.heads import BATCH, CHECKED
from eigenmap.fitting.images import ImageTask, check_recipe, load_for, prepared_input, usual_standardisation
from eigenmap.fitting.options import RunOptions, check_length
from eigenmap.fitting.problem import Code, Problem, Side
from eigenmap.fitting.vectors import facts_of
from eigenmap.linear.choice import PairAlignment, choose
from eigenmap.linear.collect import Both, Outputs, collect
from eigenmap.linear.solutions import principal_axes
from eigenmap.model import Eigenmap, EncoderSpec
from eigenmap.networks import code_rows
from eigenmap.networks.towers import NumberedTower
from eigenmap.networks.vectors import PairNetwork, VectorEncoderSpec, VectorNetwork
from eigenmap.objectives import build
from eigenmap.recipes import Recipe
from eigenmap.relations.pair_batches import PairBatches, PairRows
from eigenmap.relations.pairs import VectorPairs, partners
from eigenmap.training import TrainingConfig
from eigenmap.training.config import Accelerator
from eigenmap.training.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

OBJECTIVE = "matryoshka-info-nce"
N_COMPONENTS = 64
WIDTH = 512
"""Defaults: objective, features of a code, hidden units of the tower of vectors."""


def fit_towers(
    images: object,
    vectors: object,
    n_components: int | None = None,
    *,
    recipe: str | Recipe = "auto",
    width: int = WIDTH,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    steps: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    device: Accelerator = "auto",
    devices: int = 1,
    tensorboard: bool = False,
    progress: bool | Progress = True,
    reading: Callable[[int, int], object] | None = None,
    say: LogFunction | None = None,
    **settings: Any,
) -> Eigenmap:
    """Learn ordered codes shared by images and the vectors that belong to them; both towers are trained.

    For existing image features, `fit_vectors(features, pairs=vectors)` does the same without training an encoder.

    Args:
        images: a folder (in the order of file names), an .npy / .npz / parquet file, an array, or an `ImageSet`.
        vectors: one vector per image, in the order of the images; see `fit_vectors`.
        n_components: number of features to learn, 64 by default; codes can be cut at any shorter length.
        recipe: recipe of the image tower: a name from `recipes.RECIPES`, "auto", or a `Recipe`.
        width: hidden units of the tower of vectors.
        out: folder for the model, checkpoints and metrics; without it nothing is written.
        resume: continue from the last checkpoint in `out`.
        force: write into `out` even if it contains a run.
        steps: length of training in steps, instead of the recipe's epochs.
        minutes: length of training in minutes; with `steps`, whichever ends first.
        seed: seed of everything random, including the choice of held-out pairs.
        device: "auto", "cpu", "cuda" or "mps".
        devices: number of devices.
        tensorboard: write TensorBoard files beside metrics.jsonl.
        progress: True for a progress bar, False for none, or your own `Progress` object.
        reading: called as `reading(done, total)` while images are read.
        say: called with messages.
        settings: any setting of the recipe, for example `epochs=20` or `encoder="resnet18"`.

    Returns:
        The model of the images; `model.right` is that of the vectors.

    """
    options = RunOptions.checked(
        out=out,
        resume=resume,
        force=force,
        seed=seed,
        device=device,
        devices=devices,
        tensorboard=tensorboard,
        progress=progress,
        say=say,
        minutes=minutes,
        steps=steps,
    )
    check_length(steps, minutes, settings.get("epochs"))
    settings = {
        "objective": OBJECTIVE,
        "n_components": N_COMPONENTS if n_components is None else n_components,
        **settings,
    }
    chosen = (recipe if isinstance(recipe, Recipe) else recipes.get(recipe)).but(**settings)
    if chosen.epochs == 0:
        raise EigenmapError("epochs=0 trains nothing: use fit_vectors for existing features.")
    check_recipe(chosen)
    build(chosen.objective, **chosen.objective_options)
    width = whole_number(width, "width")
    texts = load_vectors(vectors)
    standardisation = usual_standardisation(chosen)
    data = load_for(images, chosen, standardisation.channels, True, reading, options.say)
    if len(data) != len(texts):
        raise EigenmapError(
            f"There are {len(data):,} images, but {texts.name} has {len(texts):,} rows; give one vector per image."
        )
    rows = Vectors(np.arange(len(data), dtype=np.float64)[:, None], "the images")
    pairs = partners(rows, texts, options.seed, two_spaces=True)
    if pairs.count < 2 * chosen.n_components:
        raise EigenmapError(
            f"{pairs.count:,} training pairs are too few for {chosen.n_components} features; ask for at most "
            f"{pairs.count // 2:,}."
        )
    chosen = chosen.but(batch_size=min(chosen.batch_size, pairs.count))
    held = torch.from_numpy(pairs.held_out[0].i)
    image = ImageTask(
        chosen,
        data.pixels,
        torch.from_numpy(pairs.fit[0].i),
        held,
        prepared_input(chosen, data, standardisation),
        digest=data.digest(),
        aspects=data.aspects,
    )
    return pipeline.fit(TowerTask(image, pairs, width), options)


@dataclass(frozen=True)
class TowerTask:
    """Images, and the vectors that belong to them.

    Attributes:
        image: the images, and the network for them.
        pairs: row numbers of the images, and the vectors.
        width: hidden units of the tower of vectors.

    """

    image: ImageTask
    pairs: VectorPairs
    width: int

    @property
    def recipe(self) -> Recipe:
        """All settings."""
        return self.image.recipe

    @property
    def steps(self) -> int:
        """Number of steps in the recipe's epochs."""
        return self.image.steps

    @property
    def step_in_words(self) -> str:
        """Content of a step."""
        return f"{self.recipe.batch_size} images and vectors"

    def problem(self, fabric: Fabric, config: TrainingConfig) -> Problem:
        """Build two towers, and batches of pairs for them."""
        recipe, seed, image = self.recipe, config.seed, self.image.image
        spec, head = EncoderSpec(recipe.encoder, recipe.stem), VectorEncoderSpec(self.width)
        stored = self.image.network(spec, seed)
        views = TwoViews(recipe.views, image.view_size, image.standardisation, image.view_size / image.size)
        left = NumberedTower(stored, ImageViews(self.image.pixels, views, seed, self.image.aspects))
        right = self._vector_tower(head)
        rows = PairRows([*self.pairs.fit, *self.pairs.held_out])
        place = fabric.device, fabric.global_rank, fabric.world_size
        batches = PairBatches(rows, self.pairs.fit, recipe.batch_size, seed, *place)
        held = PairBatches(rows, self.pairs.held_out, CHECKED, seed + 1, fabric.device)
        network = PairNetwork(left, right, rows, rows.n_left)  # type: ignore[arg-type]
        found: dict[str, PairAlignment] = {}

        def held_out() -> Iterator[Batch]:
            yield held.batch(0)

        def code(say: LogFunction) -> Code:
            network.eval()
            best = found["best"] = self._aligned(Both(_output(left), _output(right)))
            say(f"Mean nDCG@10 on held-out pairs: {best.quality:.3f}.")
            vectors = VectorInput(self.pairs.right.n_features, unit=False)
            return Code("projector", Side(stored, best.left, image, spec), Side(right, best.right, vectors, head))

        return Problem(
            network=network,
            stored=stored,
            relation=batches,
            objective=build(recipe.objective, **recipe.objective_options),
            held_out=held_out,
            evidence=None,
            input=image,
            encoder=spec,
            identity={**self.image.identity(), "width": self.width, "partners": self.pairs.right.digest()},
            facts=lambda alignment, say: {
                "images": self.pairs.count,
                "held_out_images": len(self.pairs.held_out[0]),
                "vectors": facts_of(self.pairs, found["best"]) | {"relation": "towers", "two_spaces": True},
            },
            code=code,
        )

    def _vector_tower(self, head: VectorEncoderSpec) -> VectorNetwork:
        """Build the tower of vectors; it starts at their principal components."""
        vectors, k = self.pairs.right, self.recipe.n_components
        sample = vectors.take(np.linspace(0, len(vectors) - 1, min(len(vectors), 10_000)).astype(np.int64))
        mean, axes, deviation = principal_axes(torch.from_numpy(sample).double(), k)
        network = head.build(vectors.n_features, False, k)
        network.projector.start_from(mean.float(), pad(axes, (0, k - axes.shape[1])).float(), deviation.float())
        if k > axes.shape[1]:
            network.projector.vary_from(axes.shape[1])
        return network

    @torch.no_grad()
    def _aligned(self, outputs: Both) -> PairAlignment:
        """Choose the order of the trained features, and score them on held-out pairs."""
        found = collect(self.pairs, outputs)
        best, scores = choose(*found[:3], n_components=self.recipe.n_components, two_spaces=True)
        left, right = best.maps
        return PairAlignment(
            left,
            right,
            winner="neural",
            centred=best.centred,
            unit=False,
            scores=scores,
            pairs=self.pairs.count,
            held_out=len(found.judge.queries),
        )


class ImageViews:
    """Views of images by row number: random in training, plain otherwise.

    A random view depends only on the seed and the images of its batch, so a resumed run sees the same views.
    """

    def __init__(self, pixels: Tensor, views: TwoViews, seed: int, aspects: Tensor | None) -> None:
        self.pixels, self.views, self.seed, self.aspects = pixels, views, seed, aspects

    def __call__(self, numbers: Tensor, training: bool) -> Tensor:
        """Return standardised views (B, C, H, W) on the device of the numbers."""
        where = numbers.cpu()
        images = self.pixels[where].to(numbers.device)
        aspects = None if self.aspects is None else self.aspects[where]
        if not training:
            return self.views.plain(images, aspects)
        order = torch.arange(1, len(where) + 1)
        drawn = torch.Generator().manual_seed((self.seed * 1_000_003 + int((where * order).sum())) % 2**63)
        return self.views(images, drawn, aspects)[0]

    def __deepcopy__(self, memo: object) -> ImageViews:
        return self


def _output(tower: NumberedTower | VectorNetwork) -> Outputs:
    """Return a function from rows to psi, scaled as in the model."""
    device = next(tower.parameters()).device

    def output(rows: npt.NDArray[Any]) -> Tensor:
        parts = [tower(part.to(device))[1] for part in torch.split(torch.from_numpy(rows), BATCH // 8)]
        psi = torch.cat(parts)
        return code_rows(psi, psi, "projector").cpu()

    return output
