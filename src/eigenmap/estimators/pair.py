"""Scikit-learn estimator for ordered codes shared by pairs of vectors from two spaces."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from eigenmap.core.arguments import is_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.vectors import Vectors
from eigenmap.estimators.model_estimator import ModelEstimator
from eigenmap.fitting.vectors import fit_vectors, linear_model
from eigenmap.linear.solutions import exact
from eigenmap.model import Eigenmap, Side
from eigenmap.recipes.recipe import require_settings
from eigenmap.recipes.vectors import FUNCTIONS, Solver, VectorRecipe

Floats = npt.NDArray[np.float64]
_FUNCTIONS = {
    name: getattr(FUNCTIONS, name) for name in ("objective", "outputs", "dropout", "width", "batch_size", "steps")
}
"""Settings of heads that approximate singular functions."""


class PairEigenmap(ModelEstimator):
    """Leading singular functions of p(x, y) / (p(x) p(y)), in order: what row i of X and row i of Y share.

    With the linear solver and no ridge, this is canonical correlation analysis in closed form.

    Args:
        n_components: number of features; None means as many as both sides have.
        solver: "linear" (closed form), or "neural": residual heads that start at the linear solution, and are kept if
            their features share more on held-out pairs.
        ridge: regularisation in units of the mean variance of a feature, or "auto" to choose it on a held-out tenth of
            the pairs. The neural solver always holds out a tenth.
        settings: settings of the neural solver, such as {"steps": 2000, "width": 1024}; see
            `recipes.vectors.VectorRecipe`.
        device: "auto", "cpu", "cuda" or "mps", for the neural solver.
        random_state: seed, a `numpy.random.RandomState`, or None for a new seed each time.
        verbose: show progress.

    Attributes:
        model_: `Eigenmap` of X; `model_.right` is that of Y. `model_.save(directory)` writes both.
        correlations_: correlation of each feature between the sides, in descending order, on the pairs of the fit if
            `ridge` is a number, on held-out pairs otherwise.
        n_features_in_: number of features of X.

    Example:
        >>> estimator = PairEigenmap(8).fit(images, texts)  # doctest: +SKIP
        >>> codes, others = estimator.transform(images), estimator.transform(texts, side="right")  # doctest: +SKIP

    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        solver: str = "linear",
        ridge: float | str = 0.0,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.ridge = ridge
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> PairEigenmap:
        """Learn from pairs: row i of X belongs to row i of y, which may be a matrix of any width."""
        self._check_parameters()
        if y is None:
            raise EigenmapError(
                "PairEigenmap requires y to be passed, but the target y is None: call fit(X, Y), where row i of X "
                "belongs to row i of Y."
            )
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        Y = self._right(y)
        if len(X) != len(Y):
            raise EigenmapError(f"X has {len(X):,} rows and Y {len(Y):,}; row i of one belongs to row i of the other.")
        fitted = self._linear(X, Y) if self.solver == "linear" and self.ridge != "auto" else self._chosen(X, Y)
        self.model_ = fitted
        return self

    def transform(self, X: Any, side: Side = "left") -> Floats:
        """Return features (n, n_components) of vectors of one side, with unit variance over the pairs of the fit."""
        model = self._fitted().side(side)
        kinds = [np.float64, np.float32]
        given = self._right(X) if side == "right" else validate_data(self, X, dtype=kinds, reset=False)
        rows = model.input.read(given)
        found = [model.alignment.apply(psi, t=0.0, unit=False) for psi in model.raw(rows)]
        return np.concatenate([each.numpy() for each in found]).astype(np.float64)

    def score(self, X: Any, y: Any) -> float:
        """Return the mean correlation of the features between X and y; a constant feature counts as 0."""
        left, right = self.transform(X), self.transform(y, side="right")
        if len(left) != len(right):
            raise EigenmapError(f"X has {len(left):,} rows and Y {len(right):,}; give the same number of each.")
        left, right = left - left.mean(0), right - right.mean(0)
        scale = np.sqrt((left**2).sum(0) * (right**2).sum(0))
        return float(np.mean(np.divide((left * right).sum(0), scale, out=np.zeros_like(scale), where=scale > 0)))

    @property
    def correlations_(self) -> Floats:
        """Correlation of each feature between the two sides, in descending order."""
        return self._fitted().eigenvalues_

    def _linear(self, X: Any, Y: Any) -> Eigenmap:
        """Solve for all pairs with the given ridge."""
        most = min(len(X) - 1, X.shape[1], Y.shape[1])
        if len(X) <= max(X.shape[1], Y.shape[1]) and not self.ridge:
            raise EigenmapError(
                f"{len(X):,} pairs do not determine the correlations of {X.shape[1]:,} and {Y.shape[1]:,} features: "
                "give more pairs than features, or a ridge."
            )
        if self.n_components is not None and self.n_components > most:
            raise EigenmapError(f"n_components is {self.n_components}, but at most {most} are possible here.")
        maps = exact(X, Y, float(self.ridge)).cut(self.n_components)
        found = maps.left.n_components
        if self.n_components is not None and found < self.n_components:
            raise EigenmapError(
                f"n_components is {self.n_components}, but only {found} features of one side are neither constant nor "
                f"made of others: use at most {found}."
            )
        return linear_model(maps, unit=False)

    def _chosen(self, X: Any, Y: Any) -> Eigenmap:
        given = dict(self.settings or {})
        require_settings(VectorRecipe, given)
        settings = {**_FUNCTIONS, **given} if self.solver == "neural" else given
        model = fit_vectors(
            Vectors(X, "X"),
            self.n_components,
            pairs=Vectors(Y, "Y"),
            two_spaces=True,
            solver=self.solver,  # type: ignore[arg-type]
            unit=False,
            seed=self._seed(),
            device=self.device,  # type: ignore[arg-type]
            progress=bool(self.verbose),
            say=print if self.verbose else None,
            **settings,
        )
        assert model.right is not None
        return model

    def _check_parameters(self) -> None:
        if self.solver not in get_args(Solver):
            raise EigenmapError(f'solver must be "linear" or "neural", not {self.solver!r}.')
        if self.ridge != "auto" and not (is_number(self.ridge) and float(self.ridge) >= 0):
            raise EigenmapError(f'ridge must be a number of at least 0, or "auto", not {self.ridge!r}.')
        if self.n_components is not None and not (isinstance(self.n_components, Integral) and self.n_components >= 1):
            raise EigenmapError(f"n_components must be a whole number of at least 1, not {self.n_components!r}.")
        if not (self.settings is None or isinstance(self.settings, Mapping)):
            raise EigenmapError(f"settings must be a dictionary or None, not {self.settings!r}.")
        if self.settings and self.solver == "linear":
            raise EigenmapError("settings are for the neural solver; leave them out with the linear one.")

    def _right(self, Y: Any) -> Any:
        """Return Y as a matrix; a vector becomes one feature."""
        rows = np.asarray(Y)
        return check_array(rows[:, None] if rows.ndim == 1 else rows, dtype=[np.float64, np.float32], input_name="Y")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags
