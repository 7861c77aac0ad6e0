"""Scikit-learn estimator for ordered codes of graph nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.files import edges_of
from eigenmap.data.graphs.graph import load_graph
from eigenmap.description import (
    DESCRIPTION,
    LOADERS,
    MODEL_FORMAT,
    Checks,
    check_values,
    format_of,
    is_object,
)
from eigenmap.estimators.model_estimator import ModelEstimator
from eigenmap.estimators.parameters import STORED, completed, stored
from eigenmap.fitting.graph import fit_graph
from eigenmap.model import Codes, Eigenmap, NodeInput, Weighting
from eigenmap.recipes.graph import GraphRecipe
from eigenmap.recipes.recipe import require_settings

_NAME, _ESTIMATOR = "GraphEigenmap", "estimator"
"""Name of the class, and key of its parameters in the model's description, which is written atomically."""
_ABOUT: Checks = {
    "name": (_NAME, lambda value: value == _NAME),
    "parameters": ("an object", is_object),
    **STORED,
}


class GraphEigenmap(ModelEstimator):
    """Ordered codes of graph nodes, learned from a graph and computed from node features without it.

    Args:
        n_components: length of the codes, which can be cut at any shorter length; None means the recipe's (128), or
            fewer if the nodes do not allow as many.
        steps: number of training steps; None means the recipe's.
        objective: name of the objective; None means the recipe's.
        recipe: "auto" or "paper".
        settings: further settings of the recipe, such as {"width": 512, "go_on": 0.7}; see docs/graphs.md.
        weighting: "diffusion" or "none", see `Eigenmap.encode`.
        normalize: whether codes have norm 1.
        device: "auto", "cpu", "cuda" or "mps".
        random_state: seed, a `numpy.random.RandomState`, or None for a new seed each time.
        verbose: show progress and a description of the graph.

    Attributes:
        model_: fitted `Eigenmap`.
        eigenvalues_: held-out eigenvalue of each feature, in descending order.
        n_features_in_: number of features per node.
        graph_: numbers of nodes, edges, components and positive eigenvalues of the graph.

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
        """Return codes (n, n_components) of nodes from their features, an array or a scipy sparse matrix.

        With `adjacency`, a sparse matrix (n, n) or edges (2, edges), codes use neighbours in the way chosen by the fit
        (`model_.neighbours`). `missing` are nodes whose features are unknown. See `Eigenmap.encode`.
        """
        return self._fitted().encode(
            X,
            edges=adjacency,
            missing=missing,
            weighting=self.weighting,  # type: ignore[arg-type]
            normalize=self.normalize,
        )

    def fit_transform(self, X: Any, y: Any = None, edge_index: Any = None, x: Any = None) -> Codes:
        """Learn from a graph, given as for `fit`, and return the codes of its nodes.

        They come from features alone, unless the setting feature_hops makes the model need edges.
        """
        graph = load_graph(_graph(X, edge_index), x)
        needs_edges = bool((self.settings or {}).get("feature_hops"))
        return self.fit(graph).transform(graph.x, edges_of(graph) if needs_edges else None)

    def save(self, directory: str | Path) -> Path:
        """Write the model, as `Eigenmap.save` does, together with the parameters; durable when this returns.

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
        """Read a saved estimator; `own` are the parameters that were not stored, such as `random_state`."""
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
        self.model_ = model
        self.graph_: dict[str, int] = model.training.get("graph", {})
        self.n_features_in_ = model.input.n_features  # type: ignore[union-attr]

    @property
    def eigenvalues_(self) -> npt.NDArray[np.float64]:
        """Held-out eigenvalues in descending order."""
        return self._fitted().eigenvalues_


def _graph(X: Any, edge_index: Any) -> Any:
    return X if edge_index is None else (X, edge_index)
