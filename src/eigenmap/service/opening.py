"""First query of the explorer: an item whose results share its label."""

from __future__ import annotations

import numpy as np

from eigenmap.search.backend import Floats, Metadata
from eigenmap.service.overview import LABEL, Overview

CANDIDATES = 64
NEIGHBOURS = 24
AMONG = 10_000


def opening_number(view: Overview, dim: int) -> int:
    """Return the number of the candidate whose neighbours share its label most often; 0 without labels.

    Neighbours are found by cosine similarity of at most `dim` leading features, among the first items of the overview,
    which are a random sample. The quality chart beside the results shows the average over many queries.
    """
    codes = _unit(view.leading(dim)[:AMONG])
    candidates = [number for number in range(min(CANDIDATES, len(codes))) if _label(view.metadata[number]) is not None]
    if not candidates or len(codes) < 2:
        return 0
    count = min(NEIGHBOURS, len(codes) - 1)
    similarity = codes[candidates] @ codes.T
    similarity[np.arange(len(candidates)), candidates] = -np.inf
    found = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
    shares = [
        sum(_label(view.metadata[other]) == _label(view.metadata[number]) for other in row)
        for number, row in zip(candidates, found.tolist(), strict=True)
    ]
    return candidates[int(np.argmax(shares))]


def _label(metadata: Metadata) -> object:
    return metadata.get(LABEL)


def _unit(codes: Floats) -> Floats:
    lengths = np.linalg.norm(codes, axis=1, keepdims=True)
    return np.asarray(codes / np.where(lengths > 0, lengths, 1), np.float32)
