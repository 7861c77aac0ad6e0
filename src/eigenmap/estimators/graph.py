"""Ordered codes of the nodes of a graph, in the manner of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from eigenmap.errors import EigenmapError
from eigenmap.graph_fit import fit_graph
from eigenmap.model import Codes, Eigenmap


class GraphEigenmap(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from a graph, then turn the features of nodes, seen or not, into ordered codes without it.

    Args:
        n_components: features of a code; codes can be cut anywhere below.
        steps: length of training; None for the recipe's.
        objective: name of the objective; None for the recipe's.
        recipe: "auto" or "paper".
        settings: further settings of the recipe, such as {"width": 512, "go_on": 0.7}.
        weighting: "diffusion" or "none", see `Eigenmap.encode`.
        normalize: codes of norm 1.
        device: "auto", "cpu" or "cuda".
        random_state: the seed.
        verbose: show progress.

    Attributes:
        model_: the `Eigenmap`.
        eigenvalues_: held-out eigenvalue of each feature, largest first.
        n_features_in_: features of a node.
        graph_: what was found in the graph: nodes, edges, components, positive eigenvalues.

    Example:
        >>> estimator = GraphEigenmap(n_components=32, steps=500).fit(data)  # doctest: +SKIP
        >>> codes = estimator.transform(new_features)  # doctest: +SKIP

    """

    def __init__(
        self,
        n_components: int = 128,
        *,
        steps: int | None = None,
        objective: str | None = None,
        recipe: str = "auto",
        settings: dict[str, Any] | None = None,
        weighting: str = "diffusion",
        normalize: bool = True,
        device: str = "auto",
        random_state: int = 0,
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

    def fit(self, X: Any, y: Any = None, edge_index: Any = None) -> GraphEigenmap:
        """Learn from a graph: anything `fit_graph` takes, or features X with their `edge_index`; `y` is not used."""
        graph = X if edge_index is None else (X, edge_index)
        self.model_: Eigenmap = fit_graph(
            graph,
            self.n_components,
            recipe=self.recipe,
            seed=self.random_state,
            device=self.device,  # type: ignore[arg-type]
            progress=self.verbose,
            steps=self.steps,
            objective=self.objective,
            **(self.settings or {}),
        )
        self.graph_: dict[str, int] = self.model_.training["graph"]
        self.n_features_in_ = self.model_.input.n_features  # type: ignore[union-attr]
        return self

    def transform(self, X: Any) -> Codes:
        """Codes (n, n_components) of nodes by their features: an array or a scipy sparse matrix."""
        return self._fitted().encode(X, weighting=self.weighting, normalize=self.normalize)  # type: ignore[arg-type]

    def fit_transform(self, X: Any, y: Any = None, edge_index: Any = None) -> Codes:
        """Learn from a graph and return the codes of its nodes."""
        from eigenmap.data.graphs import load_graph

        graph = load_graph(X if edge_index is None else (X, edge_index))
        return self.fit(graph).transform(graph.x)

    @property
    def eigenvalues_(self) -> npt.NDArray[np.float64]:
        """Held-out eigenvalues."""
        return self._fitted().eigenvalues_

    def _fitted(self) -> Eigenmap:
        if not hasattr(self, "model_"):
            raise EigenmapError("This GraphEigenmap is not fitted yet: call fit first.")
        return self.model_
