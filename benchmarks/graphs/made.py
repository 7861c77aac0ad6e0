"""Graphs of our own making, on which no rule of the library was settled: they test the choice of using neighbours.

| name           | edges join | features |
| -------------- | --- | --- |
| made-blocks    | mostly nodes of one class | Gaussian, a class mean and noise |
| made-words     | mostly nodes of one class | 30 words of 1,000, half of them of the class |
| made-cycle     | a class and the next one of a cycle: heterophilous, but regular | Gaussian |
| made-bipartite | two halves of the classes, never one class | words |
| made-random    | any two nodes: edges say nothing | Gaussian |
| made-mixed     | one class in half of the blocks, any in the others | Gaussian |
| made-noise     | mostly nodes of one class | Gaussian, ten times the noise: features say little |

Degrees are log-normal. Everything follows from the name: the same name is the same graph on every machine. The
parameters were written down before any of the graphs was used.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from eigenmap.data import Graph
from eigenmap.networks import SparseRows

NODES, CLASSES, DEGREE, FEATURES, WORDS = 4_000, 6, 8, 64, 1_000


@dataclass(frozen=True)
class Recipe:
    """Whom edges join, with which probability, and what features are."""

    joins: Literal["class", "next", "other half", "any", "mixed"]
    sure: float = 0.8
    """Share of edges that follow the rule; the others join any two nodes."""
    noise: float = 1.0
    """Deviation of a Gaussian feature around its class mean; the means have norm 3."""
    words: bool = False


RECIPES: Mapping[str, Recipe] = {
    "made-blocks": Recipe("class"),
    "made-words": Recipe("class", words=True),
    "made-cycle": Recipe("next"),
    "made-bipartite": Recipe("other half", words=True),
    "made-random": Recipe("any"),
    "made-mixed": Recipe("mixed"),
    "made-noise": Recipe("class", noise=10.0),
}


def graph(name: str) -> Graph:
    """Make the graph of that name."""
    how, random = RECIPES[name], np.random.default_rng(zlib.crc32(name.encode()))
    y = random.integers(CLASSES, size=NODES)
    edges = torch.from_numpy(_edges(how, y, random))
    labels = torch.from_numpy(y)
    if how.words:
        return Graph(SparseRows.of(_words(y, random)), edges, y=labels)
    means = random.standard_normal((CLASSES, FEATURES))
    means *= 3 / np.linalg.norm(means, axis=1, keepdims=True)
    x = means[y] + how.noise * random.standard_normal((NODES, FEATURES))
    return Graph(torch.from_numpy(x.astype(np.float32)), edges, y=labels)


def _edges(how: Recipe, y: npt.NDArray[np.int64], random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Edges (2, E), each in both directions, without loops and repetitions."""
    propensity = np.exp(0.7 * random.standard_normal(NODES))
    source = random.choice(NODES, NODES * DEGREE // 2, p=propensity / propensity.sum())
    target = random.choice(NODES, len(source), p=propensity / propensity.sum())
    of = y[source]
    rule = random.random(len(source)) < how.sure
    wanted = {
        "class": of,
        "next": (of + random.choice([1, CLASSES - 1], len(source))) % CLASSES,
        "other half": (of + CLASSES // 2 + random.integers(-1, 2, len(source))) % CLASSES,
        "mixed": of,
    }.get(how.joins)
    if how.joins == "mixed":
        rule &= of < CLASSES // 2
    if wanted is not None:
        for group in range(CLASSES):
            inside = np.flatnonzero(y == group)
            places = np.flatnonzero(rule & (wanted == group))
            target[places] = random.choice(inside, len(places), p=propensity[inside] / propensity[inside].sum())
    low, high = np.minimum(source, target), np.maximum(source, target)
    keys = np.unique((low * NODES + high)[low != high])
    once = np.stack([keys // NODES, keys % NODES])
    return np.concatenate([once, once[::-1]], axis=1)


def _words(y: npt.NDArray[np.int64], random: np.random.Generator) -> Any:
    """Thirty words a node: half drawn from the 100 of its class, half from all."""
    own = random.permutation(WORDS)[: 100 * CLASSES].reshape(CLASSES, 100)
    chosen = np.concatenate(
        [own[y[:, None], random.integers(100, size=(NODES, 15))], random.integers(WORDS, size=(NODES, 15))], axis=1
    )
    rows = np.repeat(np.arange(NODES), chosen.shape[1])
    matrix = sparse.csr_matrix((np.ones(chosen.size, np.float32), (rows, chosen.ravel())), shape=(NODES, WORDS))
    matrix.data[:] = 1.0  # a word that was drawn twice is there once
    return matrix
