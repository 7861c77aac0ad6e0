"""Our codes as encoders of the study, with the defaults of `fit_vectors`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.vectors.scores import Encoder
from benchmarks.vectors.sets import Floats, Pairs
from eigenmap import fit_vectors
from eigenmap.model import Eigenmap


def fitted(pairs: Pairs, seed: int, **options: Any) -> Eigenmap:
    """`eigenmap.fit_vectors` with its defaults."""
    return fit_vectors(pairs.left, pairs=pairs.right, seed=seed, progress=False, **options)


def encoder(model: Eigenmap) -> Encoder:
    """Return the encoder of a model, which may have two spaces."""
    right = model if model.right is None else model.right

    def encode(rows: Floats, side: str, length: int) -> Floats:
        one = model if side == "left" else right
        # A code has at most as many features as the rank of the vectors, which may be slightly below their length.
        return np.asarray(one.encode(rows, dim=min(length, one.n_components)), np.float32)

    return encode


def facts(model: Eigenmap) -> dict[str, Any]:
    """Return the choices of the fit, and its scores on held-out pairs."""
    about = model.training["vectors"]
    return {
        "winner": about["winner"],
        "centred": about["centred"],
        "fitted_pairs": about["pairs"],
        "ridge": model.alignment.ridge,
        "t": model.alignment.t,
        "held_out": about["scores"]["ours"],
        "keeps": about["keeps"],
    }
