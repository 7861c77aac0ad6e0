"""Fit of vectors: short, ordered codes from existing embeddings and pairs of them.

model = eigenmap.fit_vectors("titles.npy", pairs="texts.npy")
codes = model.encode("titles.npy", dim=32)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction
from eigenmap.data.vectors.input import VectorInput
from eigenmap.data.vectors.pairs import load_labels, load_pairs, load_weights, refuse_row_numbers
from eigenmap.data.vectors.trajectories import load_trajectories
from eigenmap.data.vectors.vectors import Vectors, load_vectors
from eigenmap.fitting import pipeline
from eigenmap.fitting.heads import Heads
from eigenmap.fitting.options import RunOptions, check_length
from eigenmap.fitting.problem import Code, Problem, Side
from eigenmap.fitting.time import checked_lags, time_facts
from eigenmap.linear.align_pairs import CHOOSING, check_count, solve
from eigenmap.linear.choice import PairAlignment, shortest
from eigenmap.linear.collect import Both, Outputs, collect
from eigenmap.linear.collect import Progress as Tick
from eigenmap.linear.into import align_into
from eigenmap.linear.solutions import TwoMaps
from eigenmap.linear.timescales import require_pairs
from eigenmap.model import Eigenmap
from eigenmap.networks.vectors import VectorEncoderSpec
from eigenmap.objectives import build
from eigenmap.recipes.recipe import identity
from eigenmap.recipes.vectors import VectorRecipe, VectorRecipeName, get_vector_recipe
from eigenmap.relations.lagged import lagged
from eigenmap.relations.pairs import (
    VectorPairs,
    indexed,
    labelled,
    mutual_neighbours,
    partners,
    second,
    views,
)
from eigenmap.spectrum import Alignment
from eigenmap.training import TrainingConfig
from eigenmap.training.config import Accelerator
from eigenmap.training.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

KEEP = 0.95
"""Share of the longest code's score that a code of the suggested length must reach."""


@dataclass(frozen=True)
class RelationArguments:
    """Arguments of `fit_vectors` that state what belongs together: exactly one of the first six.

    Attributes:
        pairs: partner vectors (floats; row i belongs to row i) or index pairs (whole numbers, two columns).
        views: further vectors of the same items, in the same space.
        neighbours: number of nearest rows among which to look for mutual neighbours.
        second: vectors of the same items by another model.
        lag: distance in rows between related rows of a time series.
        labels: one class per row.
        weights: weights of index pairs.
        others: vectors that the second column of index pairs refers to, if not the same ones.
        two_spaces: whether partner vectors are from another space although they have the same length.
        trajectories: number of rows of each trajectory, if one file holds several.
        reversible: whether a time series counts in both directions.

    """

    pairs: object = None
    views: Sequence[object] | None = None
    neighbours: int | None = None
    second: object = None
    lag: int | None = None
    labels: object = None
    weights: object = None
    others: object = None
    two_spaces: bool = False
    trajectories: object = None
    reversible: bool = True

    def read(self, source: object, seed: int) -> VectorPairs:
        """Return the pairs of vectors from a file or from memory; a time series may consist of several."""
        if self.lag is None:
            return self.of(load_vectors(source), seed)
        return lagged(load_trajectories(source, self.trajectories), self.lag, seed, reversible=self.reversible)

    def of(self, x: Vectors, seed: int) -> VectorPairs:
        """Return the pairs of these vectors."""
        self.check()
        if self.views is not None:
            return views(x, [load_vectors(view, f"views[{k}]") for k, view in enumerate(self.views)], seed)
        if self.neighbours is not None:
            return mutual_neighbours(x, self.neighbours, seed)
        if self.second is not None:
            return second(x, load_vectors(self.second, "second"), seed)
        if self.labels is not None:
            return labelled(x, load_labels(self.labels), seed)
        found = load_pairs(self.pairs)
        others = None if self.others is None else load_vectors(self.others, "others")
        if not isinstance(found, Vectors):
            return indexed(x, found, load_weights(self.weights), others, seed)
        if x.n_features != found.n_features and not self.two_spaces:
            refuse_row_numbers(found, len(x), len(others or x))
        if self.weights is not None or others is not None:
            raise EigenmapError("weights= and others= need index pairs, but the pairs are vectors (floats).")
        return partners(x, found, seed, self.two_spaces)

    def check(self) -> None:
        """Raise unless exactly one relation is given."""
        names = ("pairs", "views", "neighbours", "second", "lag", "labels")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"not {'= and '.join(given)}=" if given else "none is given"
            raise EigenmapError(f"State what belongs together by exactly one of {'=, '.join(names)}=; {found}.")
        if self.views is not None and not len(self.views):
            raise EigenmapError("views needs at least one further set of vectors.")
        if self.pairs is None and (self.weights is not None or self.others is not None or self.two_spaces):
            raise EigenmapError("weights=, others= and two_spaces= need pairs=.")
        if self.lag is None and (self.trajectories is not None or self.reversible is not True):
            raise EigenmapError("lags=, trajectories= and reversible= need lag=.")
        if not isinstance(self.reversible, bool):
            raise EigenmapError(f"reversible must be True or False, not {self.reversible!r}.")


def fit_vectors(
    vectors: object,
    n_components: int | None = None,
    *,
    pairs: object = None,
    views: Sequence[object] | None = None,
    neighbours: int | None = None,
    second: object = None,
    lag: int | None = None,
    labels: object = None,
    weights: object = None,
    others: object = None,
    two_spaces: bool = False,
    trajectories: object = None,
    reversible: bool = True,
    lags: Iterable[int] | None = None,
    into: str | Path | None = None,
    solver: VectorRecipeName = "linear",
    unit: bool | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    minutes: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    device: Accelerator = "auto",
    devices: int = 1,
    tensorboard: bool = False,
    progress: bool | Progress = True,
    reading: Tick | None = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Eigenmap:
    """Learn ordered codes of vectors from exactly one relation: pairs, views, neighbours, second, lag or labels.

    Args:
        vectors: an .npy file (memory-mapped), a Parquet or Arrow file with a column of lists, an array, a tensor.
        n_components: number of features to learn; codes can be cut at any shorter length. By default as many as the
            vectors have, up to 512.
        pairs: partner vectors, row i belongs to row i (floats); or index pairs, two columns of whole numbers.
        views: further vectors of the same items in the same space, row by row.
        neighbours: number of nearest rows; pairs are mutual nearest neighbours among them.
        second: vectors of the same items by another model; features that both models agree on come first.
        lag: distance in rows between related rows of a time series. Features are its slow modes. `vectors` may be a
            list with one file or array per trajectory.
        labels: one class per row, whole numbers or texts; negative, empty or None means none.
        weights: weights of index pairs.
        others: vectors that the second column of index pairs refers to; by default `vectors`.
        two_spaces: whether partner vectors are from another space although they have the same length. Partners of
            another length always are. Each space has its own map; `model.right` is that of the partners.
        trajectories: number of rows of each trajectory, if one file holds several.
        reversible: whether to use both directions of time (TICA) or only the forward one (VAMP). With VAMP, each end of
            a pair has its own map, and `model.right` is that of the later end.
        lags: further lags at which implied timescales are listed; by default twice and four times `lag`.
        into: run folder of a model whose codes are already stored. New vectors get codes that are comparable with
            these, so nothing has to be encoded again; `pairs` are then the old vectors of the same items.
        solver: "linear" (closed form, one pass), or "neural": a residual head that starts at the linear solution and is
            kept only if it finds more held-out partners; or "neural-large": a larger one, for tens of thousands of
            pairs and a GPU.
        unit: whether rows are first scaled to norm 1; by default, if that finds more held-out partners.
        out: folder for the model; without it nothing is written.
        resume: continue from the last checkpoint in `out` (neural).
        force: write into `out` even if it contains a run.
        minutes: length of training in minutes (neural); with `steps`, whichever ends first.
        seed: seed of everything random, including the choice of held-out pairs.
        threads: CPU threads for training; by default measured at the start, unless OMP_NUM_THREADS is set.
        device: "auto", "cpu", "cuda" or "mps", for training.
        devices: number of devices.
        tensorboard: write TensorBoard files beside metrics.jsonl (neural).
        progress: True for a progress bar, False for none, or your own `Progress` object.
        reading: called as `reading(done, total)` while pairs are read.
        say: called with messages.
        settings: any setting of `recipes.vectors.VectorRecipe`, for example `steps=3000` or `width=1024`.

    Example:
        >>> model = fit_vectors(titles, pairs=texts)  # doctest: +SKIP
        >>> model.training["vectors"]["scores"]["ours"]  # doctest: +SKIP

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
        steps=settings.get("steps"),
        threads=threads,
        length_given=minutes is not None or settings.get("steps") is not None,
    )
    recipe = get_vector_recipe(solver, functions=lag is not None).but(n_components=n_components, **settings)
    check_solver(recipe, settings, minutes)
    relation = RelationArguments(
        pairs, views, neighbours, second, lag, labels, weights, others, two_spaces, trajectories, reversible
    )
    relation.check()
    listed = checked_lags(lags, lag)
    if into is not None:
        return _fit_into(load_vectors(vectors), relation, recipe, a_path(into, "into"), unit, options, reading)
    with options.waiting("reading pairs" if neighbours is None else "looking for neighbours"):
        found = relation.read(vectors, options.seed)
    check_count(found)
    asked = recipe.n_components or None
    neural = recipe.solver == "neural"
    if found.series is not None:  # the codes whose timescales are listed may be the vectors or the head's features
        features = max(found.left.n_features, recipe.n_components if neural else 0)
        require_pairs(found.series, listed or (found.series.lag,), features)
    linear = solve(found, asked, unit=unit, progress=reading, say=options.say, waiting=options.waiting, at_most=neural)
    longest = asked if asked is not None and neural else linear.n_components  # a head may have more features
    return pipeline.fit(VectorTask(recipe.but(n_components=longest), found, linear, lags=listed), options)


def _fit_into(
    x: Vectors,
    relation: RelationArguments,
    recipe: VectorRecipe,
    run: Path,
    unit: bool | None,
    options: RunOptions,
    reading: Tick | None,
) -> Eigenmap:
    """Fit a model of new vectors whose codes are comparable with those of another model."""
    if relation.pairs is None or recipe.solver != "linear" or recipe.n_components:
        raise EigenmapError(
            "into needs pairs (the old vectors) and the linear solver, without n_components: codes keep their length."
        )
    pairs = replace(relation, two_spaces=True).of(x, options.seed)
    old = side_by_length(Eigenmap.load(run), pairs.right)
    check_count(pairs)

    def aligned(way: bool) -> PairAlignment:
        features = Both(
            Both.plain(way).left, lambda rows: torch.from_numpy(old.encode(rows, weighting="none", normalize=False))
        )
        collected = collect(pairs, features, reading)
        with options.waiting(CHOOSING):
            return align_into(collected, old.alignment, way, pairs.count)

    ways = [True, False] if unit is None else [unit]
    found = max([aligned(way) for way in ways], key=lambda one: round(one.quality, 6))
    task = VectorTask(recipe.but(n_components=found.n_components), pairs, found, codes_of=old.weights_sha256)
    return pipeline.fit(task, options)


def side_by_length(model: Eigenmap, vectors: Vectors) -> Eigenmap:
    """Return the side of a model that takes vectors of this length."""
    sides = [side for side in (model, model.right) if side is not None and isinstance(side.input, VectorInput)]
    fitting = [side for side in sides if side.input.length == vectors.n_features]  # type: ignore[union-attr]
    if len(fitting) != 1:
        which = "several spaces" if fitting else "no space"
        raise EigenmapError(
            f"The model to compare with has {which} for vectors of length {vectors.n_features:,}, as in {vectors.name}."
        )
    return fitting[0]


def codes_of(model: Eigenmap) -> str | None:
    """Return the digest of the weights whose codes are comparable: the model's own, or those it was fitted into."""
    told = model.training.get("vectors", {})
    other = told.get("codes_of") if isinstance(told, dict) else None
    return other if isinstance(other, str) else model.weights_sha256


def check_solver(recipe: VectorRecipe, settings: dict[str, Any], minutes: float | None) -> None:
    """Refuse training settings for the linear solver, and an invalid length of training."""
    check_length(settings.get("steps"), minutes)
    if recipe.solver == "linear" and (minutes is not None or settings):
        raise EigenmapError("The linear solver does not train: leave the training settings out, or use solver=neural.")
    if recipe.solver == "neural":
        build(recipe.objective, **recipe.objective_options)


def plain_side(alignment: Alignment, unit: bool) -> Side:
    """Return the side whose codes are a linear map of the vectors."""
    length, spec = alignment.rotation.shape[0], VectorEncoderSpec(0)
    return Side(spec.build(length, unit, length), alignment, VectorInput(length, unit), spec)


def linear_model(maps: TwoMaps, unit: bool) -> Eigenmap:
    """Build a model of two given linear maps."""
    return pipeline.as_model(Code("encoder", *(plain_side(side, unit) for side in maps)), {})


@dataclass(frozen=True)
class VectorTask:
    """Pairs of vectors and their linear codes, which the neural solver improves.

    Attributes:
        recipe: all settings.
        pairs: pairs of vectors that belong together.
        linear: closed-form solution.
        codes_of: digest of the weights whose codes are comparable, if not the model's own.
        lags: lags at which timescales are listed, for time series; empty for multiples of the lag.

    """

    recipe: VectorRecipe
    pairs: VectorPairs
    linear: PairAlignment
    codes_of: str | None = None
    lags: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Number of training steps; 0 for the closed form."""
        return self.recipe.steps if self.recipe.solver == "neural" else 0

    @property
    def step_in_words(self) -> str:
        """Content of a step."""
        return f"{self.recipe.batch_size:,} pairs"

    @property
    def two_spaces(self) -> bool:
        """True if each side has its own map."""
        return self.linear.right is not self.linear.left

    def problem(self, fabric: Fabric, config: TrainingConfig) -> Problem:
        """State the problem: the closed form, and for the neural solver the heads to train on top of it."""
        recipe = self.recipe
        left = plain_side(self.linear.left, self.linear.unit)
        heads = Heads(self.pairs, self.linear, recipe, config.seed, fabric) if self.steps else None
        found: dict[str, Any] = {}

        def code(say: LogFunction) -> Code:
            best = None if heads is None else heads.best(say)
            found["best"] = self.linear if best is None else best.alignment
            found["output"] = None if best is None or heads is None else heads.output
            if best is None:
                right = plain_side(self.linear.right, self.linear.unit) if self.two_spaces else None
                return Code("encoder", left, right)
            return Code("projector", *best.sides)

        return Problem(
            network=left.network if heads is None else heads.network,
            stored=left.network,
            relation=None if heads is None else heads.batches,
            objective=build(recipe.objective, **recipe.objective_options),
            held_out=None if heads is None else heads.held_out,
            evidence=None,
            input=left.input,
            encoder=left.encoder,
            identity={} if heads is None else self.identity(),
            facts=lambda alignment, say: {"vectors": self.facts(found["best"], found["output"])},
            code=code,
        )

    def identity(self) -> dict[str, Any]:
        """Return the settings that must be equal to resume a run."""
        return {
            **identity(self.recipe),
            "pairs": self.pairs.count,
            "kind": self.pairs.kind,
            "vectors": self.pairs.left.digest(),
            "partners": self.pairs.right.digest(),
            "digest of the pairs": self.pairs.digest(),
            "unit": self.linear.unit,
        }

    def facts(self, found: PairAlignment, output: Outputs | None = None) -> dict[str, Any]:
        """Return the facts stored in the model: the relation, the winner, and its held-out scores at each length."""
        series = self.pairs.series
        return {
            **facts_of(self.pairs, found),
            "two_spaces": self.two_spaces,
            **({} if self.codes_of is None else {"codes_of": self.codes_of}),
            **({} if series is None else {"time": time_facts(series, found, self.lags, output)}),
        }


def facts_of(pairs: VectorPairs, found: PairAlignment) -> dict[str, Any]:
    """Return the facts about pairs and their codes that are stored in the model."""
    return {
        "relation": pairs.kind,
        "rows": len(pairs.left) if pairs.series is None else pairs.series.rows,
        "pairs": pairs.count,
        "held_out": found.held_out,
        "winner": found.winner,
        "centred": found.centred,
        "metric": found.metric,
        "scores": {name: {str(d): s for d, s in scores.items()} for name, scores in found.scores.items()},
        "keeps": {"share": KEEP, "dim": shortest(found.scores["ours"], KEEP)},
    }


def metric_of(model: Eigenmap) -> str:
    """Return the name of the score of a model of vectors: "ndcg@10", or "vamp-2" for a time series."""
    about = model.training.get("vectors", {})
    return "vamp-2" if isinstance(about, dict) and about.get("metric") == "vamp-2" else "ndcg@10"


def scores_of(model: Eigenmap) -> dict[str, dict[int, float]]:
    """Return the held-out scores of a model of vectors, by method and length; raise if it has none."""
    about = model.training.get("vectors", {})
    try:
        found = {name: {int(d): float(s) for d, s in scores.items()} for name, scores in about["scores"].items()}
        if all(np.isfinite(list(scores.values())).all() and scores for scores in found.values()) and "ours" in found:
            return found
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise EigenmapError(
        "This model has no scores on held-out pairs; only models that `eigenmap fit vectors` wrote have them."
    )
