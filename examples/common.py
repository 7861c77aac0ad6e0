"""What the examples share: codes from pairs of views, and how well short codes tell classes apart."""

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
    """Accuracy of 5 nearest neighbours by `dim` features of ours, of PCA and of random features, and by all.

    Codes are learned from the views `first` and `second` alone, without labels; PCA sees both views too.
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
    """Five-fold accuracy of five nearest neighbours."""
    return float(cross_val_score(KNeighborsClassifier(5), codes, labels, cv=5).mean())


def show(title: str, scores: dict[str, float]) -> None:
    """Print what `compare` found."""
    print(text(title, scores))


def text(title: str, scores: dict[str, float]) -> str:
    """What an example prints."""
    return "\n".join([f"{title}:", *(f"  {name:18} {score:.3f}" for name, score in scores.items())])
