"""Codes of graph nodes that use the edges of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.model.inputs import NodeInput
from eigenmap.networks import SparseRows
from eigenmap.relations.neighbour_codes import Cut, require_same
from eigenmap.relations.neighbourhood import StoredNodes, smoothing

if TYPE_CHECKING:
    from eigenmap.model.eigenmap import Codes, Eigenmap


def with_neighbours(
    model: Eigenmap,
    rows: Tensor | SparseRows,
    edges: object,
    missing: object,
    stored: StoredNodes | None,
    cut: Cut,
    batch_size: int,
) -> Codes:
    """Return codes of a graph's nodes, or of nodes with edges to `stored` ones; see `Eigenmap.encode`."""
    if not isinstance(model.input, NodeInput):
        raise EigenmapError(
            f"edges are for models of graph nodes, but this is a model of {model.kind}; leave them out."
        )
    how = model.neighbours
    if model.input.hops:
        if stored is not None:
            raise EigenmapError(
                "This model needs features of neighbours, which are not stored; embed the entire graph again."
            )
        rows = model.seen(rows, smoothing(edges, len(rows)), missing)
    # Full-length codes are propagated, since these are stored for a graph.
    own = model.codes_of(rows, Cut(model.n_components, cut.t if how.alignment is None else None), batch_size)
    if stored is None:
        return how.of_graph(own, edges, missing, cut, model.device)
    require_same(stored, model.weights_sha256, how, model.n_components)
    return how.of_new_nodes(own, edges, missing, stored, cut)
