"""Checks of a fit of graphs: settings that contradict each other, before data is read, and features without content."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.networks import SparseRows
from eigenmap.objectives import Objective
from eigenmap.recipes.graph import GraphRecipe
from eigenmap.relations.diffusion import check_walks
from eigenmap.relations.graph import check_held_out, check_pairs
from eigenmap.relations.propagation import Propagation

MOST_FEATURE_HOPS = 10
"""Maximum number of hops; averages over more are nearly equal."""


def wanted_way(recipe: GraphRecipe) -> Propagation | None:
    """Return the recipe's way to use neighbours; None if it is to be chosen."""
    if recipe.neighbours == "auto":
        return None
    return Propagation(recipe.neighbours, recipe.restart if recipe.neighbours == "pagerank" else 0.0)


def check_relation(recipe: GraphRecipe, objective: Objective) -> None:
    """Refuse pairs that cannot be drawn, before any data is read."""
    check_pairs(recipe.hops, recipe.start, recipe.teleport, recipe.lazy)
    check_held_out(recipe.held_out)
    _check_way(recipe)
    whole_number(recipe.feature_hops, "feature_hops", 0, MOST_FEATURE_HOPS)
    if recipe.feature_hops and recipe.directed != "symmetrise":
        raise EigenmapError('feature_hops averages over undirected edges: it needs directed="symmetrise".')
    if recipe.sampler == "node-blocks":
        _check_blocks(recipe, objective)
    if recipe.batch_size < 2:
        raise EigenmapError("batch_size must be at least 2, since the nodes of a batch are compared with each other.")
    if not recipe.go_on:
        return
    check_walks(recipe.go_on, recipe.walks)
    if recipe.directed != "symmetrise" or recipe.sampler != "edges" or recipe.self_loops != "remove":
        raise EigenmapError(
            'Longer walks (go_on above 0) need directed="symmetrise", self_loops="remove" and sampler="edges".'
        )


def _check_way(recipe: GraphRecipe) -> None:
    """Refuse a way to use neighbours whose codes could not be ordered."""
    wanted = wanted_way(recipe)
    if wanted is None or wanted.way == "none":
        return
    if recipe.directed != "symmetrise" or recipe.held_out == 0:
        raise EigenmapError(
            f'neighbours="{wanted.way}" needs directed="symmetrise" and held-out edges (held_out above 0); leave it '
            'out, or choose "none".'
        )


def _check_blocks(recipe: GraphRecipe, objective: Objective) -> None:
    """Refuse settings that node blocks do not support, and an objective that does not take a Gram block."""
    if (recipe.hops, recipe.start, recipe.lazy, recipe.teleport) != (1, "degree", 0.0, 0.0):
        raise EigenmapError(
            "Node blocks are implemented as published, with single edges by degree: leave hops, start, lazy and "
            "teleport out."
        )
    objective(torch.ones(4, 3), torch.ones(4, 3), torch.eye(4).to_sparse())


def check_variety(x: Tensor | SparseRows) -> None:
    """Refuse features that are the same for all nodes: all codes would be equal."""
    if isinstance(x, SparseRows):
        varied = _rows_differ(x)
    else:
        varied = any(bool((part != x[:1]).any()) for part in torch.split(x, 1 << 16))
    if varied:
        return
    raise EigenmapError(
        "All nodes have the same features, so their codes would be equal; give features that differ (for one fixed "
        "graph, one-hot features: scipy.sparse.identity(n))."
    )


def _rows_differ(x: SparseRows) -> bool:
    lengths = x.offsets.diff()
    if bool((lengths != lengths[0]).any()):
        return True
    parts = [x.columns] if x.values is None else [x.columns, x.values]
    rows = [part.reshape(len(x), -1) for part in parts]
    return any(bool((part != part[:1]).any()) for part in rows)
