"""Scikit-learn estimator for ordered codes of graph nodes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.graph import load_graph
from eigenmap.description import (
    DESCRIPTION,
    LOADERS,
    MODEL_FORMAT,
    Checks,
    check_values,
    format_of,
    is_object,
    is_text,
    optional,
)
from eigenmap.estimators.parameters import OUTPUTS, completed, stored
from eigenmap.fitting.graph import fit_graph
from eigenmap.model import Codes, Eigenmap, NodeInput, Weighting
from eigenmap.recipes.graph import GraphRecipe
from eigenmap.recipes.recipe import require_settings

_NAME, _ESTIMATOR = "GraphEigenmap", "estimator"
"""Key of the parameters in the model's description: both are written in one file, at one moment."""
_ABOUT: Checks = {
    "name": (_NAME, lambda value: value == _NAME),
    "parameters": ("an object", is_object),
    "own": ("texts by name", lambda value: is_object(value) and all(map(is_text, value.values()))),
    "output": (f"one of {', '.join(OUTPUTS)}, or null", optional(lambda value: is_text(value) and value in OUTPUTS)),
}


class GraphEigenmap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from a graph, then turn the features of seen or new nodes into ordered codes without it.

    Args:
        n_components: length of a code, which can be cut anywhere below; None means the recipe's (128), or as many as
            the nodes allow.
        steps: number of training steps; None means the recipe's.
        objective: name of the objective; None means the recipe's.
        recipe: "auto" or "paper".
        settings: further settings of the recipe, such as {"width": 512, "go_on": 0.7}; see docs/graphs.md.
        weighting: "diffusion" or "none", see `Eigenmap.encode`.
        normalize: whether codes have norm 1.
        device: "auto", "cpu" or "cuda".
        random_state: seed, a `numpy.random.RandomState`, or None for a new seed each time.
        verbose: show progress and a description of the graph.

    Attributes:
        model_: the `Eigenmap`.
        eigenvalues_: held-out eigenvalue of each feature, in descending order.
        n_features_in_: number of features per node.
        graph_: description of the graph: nodes, edges, components, positive eigenvalues.

    Example:
        >>> estimator = GraphEigenmap(n_components=32, steps=500).fit(data)  # doctest: +SKIP
        >>> codes = estimator.transform(new_features)  # doctest: +SKIP

    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        steps: int | None = None,
        objective: str | None = None,
        recipe: str = "auto",
        settings: Mapping[str, Any] | None = None,
        weighting: str = "diffusion",
        normalize: bool = True,
        device: str = "auto",
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.steps = steps
        self.objective = objective
        self.recipe = recipe
        self.settings = settings
        self.weighting = weighting
        self.normalize = normalize
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, edge_index: Any = None, x: Any = None) -> GraphEigenmap:
        """Learn from a graph.

        Args:
            X: anything that `fit_graph` accepts; or features, with `edge_index`.
            y: not used.
            edge_index: (2, edges), or a sparse adjacency matrix, if X are features.
            x: features, if X is a graph without any (scipy, networkx).

        """
        if not (self.settings is None or isinstance(self.settings, Mapping)):
            raise EigenmapError(f"settings must be a dictionary of settings or None, not {self.settings!r}.")
        settings = {"steps": self.steps, "objective": self.objective, **(self.settings or {})}
        if "n_components" in settings:
            raise EigenmapError("n_components is a separate parameter; leave it out of settings.")
        require_settings(GraphRecipe, settings)  # settings cannot set other keywords of fit_graph
        model = fit_graph(
            _graph(X, edge_index),
            self.n_components,
            x=x,
            recipe=self.recipe,
            seed=self._seed(),
            device=self.device,  # type: ignore[arg-type]
            progress=bool(self.verbose),
            say=print if self.verbose else None,
            **settings,
        )
        self._take(model)
        return self

    def transform(self, X: Any, adjacency: Any = None, missing: Any = None) -> Codes:
        """Return codes (n, n_components) of nodes by their features, an array or a scipy sparse matrix.

        With `adjacency`, a sparse matrix (n, n) or edges (2, edges) between them, codes use neighbours in the way that
        the fit chose (`model_.neighbours`); features of `missing` nodes are unknown. See `Eigenmap.encode`.
        """
        return self._fitted().encode(
            X,
            edges=adjacency,
            missing=missing,
            weighting=self.weighting,  # type: ignore[arg-type]
            normalize=self.normalize,
        )

    def fit_transform(self, X: Any, y: Any = None, edge_index: Any = None, x: Any = None) -> Codes:
        """Learn from a graph, given as for `fit`, and return the codes of its nodes."""
        graph = load_graph(_graph(X, edge_index), x)
        return self.fit(graph).transform(graph.x)

    def save(self, directory: str | Path) -> Path:
        """Write the model, as `Eigenmap.save` does, with the parameters beside it; durable when this returns.

        `Eigenmap.load` and the command line read the directory too. A `RandomState` is not stored: pass it to `load`
        again.
        """
        model = self._fitted()
        self._check_codes()
        parameters, own = stored(self.get_params(deep=False))
        output = getattr(self, "_sklearn_output_config", {}).get("transform")
        about = {"name": _NAME, "parameters": parameters, "own": own, "output": output}
        training = {**model.training, _ESTIMATOR: about}
        parts = (model.network, model.alignment, model.source, model.input, model.encoder)
        return Eigenmap(*parts, training, model.neighbours).save(directory)

    @classmethod
    def load(cls, directory: str | Path, **own: Any) -> Self:
        """Read what `save` wrote; `own` are parameters that were not stored, such as `random_state`."""
        directory = a_path(directory, "directory")
        path = directory / DESCRIPTION
        kind = format_of(directory)
        if kind != MODEL_FORMAT:
            raise EigenmapError(f"{directory} contains a model for {LOADERS[kind]}, not for {_NAME}.load.")
        model = Eigenmap.load(directory)
        about = model.training.pop(_ESTIMATOR, None)
        if about is None or not isinstance(model.input, NodeInput):
            raise EigenmapError(f"{directory} contains a model for Eigenmap.load, not one of {_NAME}.")
        check_values(about, _ABOUT, f"training.{_ESTIMATOR}.", path)
        parameters = completed(about["parameters"], about["own"], own, str(directory), f"{_NAME}.load")
        unknown = sorted(set(parameters) - set(cls._get_param_names()))
        if unknown:
            raise EigenmapError(f"{path} is damaged or from a later version: unknown parameter {unknown[0][:40]}.")
        made = cls(**parameters)
        try:
            made._check_codes()
        except EigenmapError as error:
            raise EigenmapError(f"{path} is damaged: {error}") from error
        made._take(model)
        if about["output"] is not None:
            made.set_output(transform=about["output"])
        return made

    def _check_codes(self) -> None:
        """Refuse parameters that would make `transform` fail."""
        if self.weighting not in get_args(Weighting):
            raise EigenmapError(f'weighting must be "diffusion" or "none", not {self.weighting!r}.')
        if not isinstance(self.normalize, bool | np.bool_ | int):
            raise EigenmapError(f"normalize must be true or false, not {self.normalize!r}.")

    def _take(self, model: Eigenmap) -> None:
        self.model_: Eigenmap = model
        self.graph_: dict[str, int] = model.training.get("graph", {})
        self.n_features_in_ = model.input.n_features  # type: ignore[union-attr]

    @property
    def eigenvalues_(self) -> npt.NDArray[np.float64]:
        """Held-out eigenvalues in descending order."""
        return self._fitted().eigenvalues_

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _n_features_out(self) -> int:
        return self._fitted().n_components

    def _fitted(self) -> Eigenmap:
        if not hasattr(self, "model_"):
            raise _NotFitted("This GraphEigenmap is not fitted yet: call fit first.")
        return self.model_


class _NotFitted(EigenmapError, NotFittedError):  # type: ignore[misc]
    """An EigenmapError that scikit-learn's tools and `hasattr` recognise."""


def _graph(X: Any, edge_index: Any) -> Any:
    return X if edge_index is None else (X, edge_index)
