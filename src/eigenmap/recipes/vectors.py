"""Recipes for vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from eigenmap.core.errors import EigenmapError
from eigenmap.recipes.recipe import BaseRecipe, changed
from eigenmap.training.config import RESUME_ANYHOW

Solver = Literal["linear", "neural"]
VectorRecipeName = Literal["linear", "neural", "neural-large"]
Outputs = Literal["unit", "plain"]


@dataclass(frozen=True, kw_only=True)
class VectorRecipe(BaseRecipe):
    """All settings of a fit on vectors; change some with `recipe.but(width=1024)`.

    Attributes:
        solver: "linear" for the closed form alone, without training; "neural" also trains a residual head that starts
            at the linear solution, and keeps the head if it is better on held-out pairs.
        n_components: maximum length of a code; 0 means as many features as the vectors allow, up to 512.
        width: units of the head's hidden layer.
        outputs: output of the head that becomes the code: the direction of psi ("unit"), which suits comparison by
            cosine, or psi itself ("plain"), whose features approximate eigenfunctions or singular functions.
        dropout: share of the hidden units left out in each step.
        batch_size: pairs per step.
        steps: number of training steps.

    The other settings are those of `BaseRecipe` and `training.TrainingConfig`.
    """

    fewest_steps_to_a_check: ClassVar[int] = 100

    name: str = field(default="linear", kw_only=False, metadata=RESUME_ANYHOW)
    solver: Solver = "linear"
    n_components: int = 0
    width: int = 512
    outputs: Outputs = "unit"
    dropout: float = 0.5
    objective: str = "matryoshka-info-nce"
    batch_size: int = 512
    steps: int = 0
    lr: float = 1e-2
    clip_norm: float | None = 1.0
    compile: bool = False

    def but(self, **settings: Any) -> VectorRecipe:
        """Return this recipe with other values; None leaves a value unchanged."""
        return changed(self, settings)


LINEAR = VectorRecipe()
"""The closed form: one pass over the pairs, an eigenproblem, and choices on held-out pairs."""

NEURAL = VectorRecipe(name="neural", solver="neural", steps=1000)
"""A residual head on top of the closed form."""

LARGE = VectorRecipe(
    name="neural-large",
    solver="neural",
    width=8192,
    batch_size=2048,
    steps=2000,
    objective_options={"temperature": 0.05},
)
"""A head for tens of thousands of pairs and a GPU: the best on held-out pairs of those in docs/vector-benchmarks.md."""

FUNCTIONS = VectorRecipe(
    name="functions",
    solver="neural",
    n_components=16,
    steps=500,
    objective="ritz-trace",
    outputs="plain",
    dropout=0.0,
    width=256,
    batch_size=2048,
)
"""A head whose features are eigenfunctions or singular functions, such as the slow modes of a time series."""

VECTORS: dict[str, VectorRecipe] = {recipe.name: recipe for recipe in (LINEAR, NEURAL, LARGE)}
"""Recipes by the name that `fit_vectors` and `--solver` take."""


def get_vector_recipe(solver: str, functions: bool = False) -> VectorRecipe:
    """Look up the recipe of a solver; with `functions`, its head approximates eigenfunctions or singular functions."""
    if not isinstance(solver, str) or solver not in VECTORS:
        raise EigenmapError(f"solver must be one of {', '.join(VECTORS)}, not {solver!r}.")
    if functions and solver == LARGE.name:
        raise EigenmapError(f"{LARGE.name} is for pairs and views; for the slow modes of a time series, use neural.")
    return FUNCTIONS if functions and solver == NEURAL.name else VECTORS[solver]
