"""Comparison used by all examples: codes learned from pairs of views, scored by classification."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import eigenmap as em

Floats = npt.NDArray[np.float64]


def compare(first: Floats, second: Floats, things: Floats, labels: npt.NDArray[Any], dim: int) -> dict[str, float]:
    """Return the accuracy of 5 nearest neighbours with `dim` features of ours, of PCA or at random, and with all.

    Codes are learned only from the views `first` and `second`, without labels; PCA also sees both views.
    """
    views = np.vstack([first, second])
    scaler = StandardScaler().fit(views)
    first, second, things = (scaler.transform(rows) for rows in (first, second, things))
    model = em.fit_vectors(first, pairs=second, progress=False)
    random = np.random.default_rng(0).normal(size=(things.shape[1], dim))
    return {
        "ours": accuracy(model.encode(things, dim=dim), labels),
        "PCA": accuracy(PCA(dim, random_state=0).fit(np.vstack([first, second])).transform(things), labels),
        "random features": accuracy(np.maximum(things @ random, 0), labels),
        f"all {things.shape[1]} features": accuracy(things, labels),
    }


def accuracy(codes: Any, labels: npt.NDArray[Any]) -> float:
    """Return the five-fold accuracy of five nearest neighbours."""
    return float(cross_val_score(KNeighborsClassifier(5), codes, labels, cv=5).mean())


def show(title: str, scores: dict[str, float]) -> None:
    """Print the scores of `compare`."""
    print(text(title, scores))


def text(title: str, scores: dict[str, float]) -> str:
    """Return the output of an example."""
    return "\n".join([f"{title}:", *(f"  {name:18} {score:.3f}" for name, score in scores.items())])
