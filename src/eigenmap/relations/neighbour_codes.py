"""Codes with neighbours: how a model combines the codes of a node and of its neighbours, and orders the result again.

A model of nodes stores the way that its fit chose (`Propagation`) and an alignment of the propagated codes, so that
codes made with edges are ordered, can be cut anywhere, and can be compared with each other. They cannot be compared
with codes made from features alone, unless the way is "none".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize

from eigenmap.core.errors import EigenmapError
from eigenmap.relations.neighbourhood import Edges, StoredNodes, filled, missing_nodes, new_nodes, require_known
from eigenmap.relations.propagation import Matrix, Propagation, Smoothing
from eigenmap.spectrum import Alignment, unit_rms_rows


class Cut(NamedTuple):
    """How codes leave: their length, the exponent of their weights (None: the model's), rows of norm 1 or not."""

    dim: int
    t: float | None = None
    normalize: bool = True


@dataclass(frozen=True)
class NeighbourCodes:
    """The way a model was fitted to use neighbours, and the order of the features that result.

    Attributes:
        propagation: the way.
        alignment: of the propagated codes; None for the way "none", whose codes are ordered as they are.

    """

    propagation: Propagation = field(default_factory=Propagation)
    alignment: Alignment | None = None

    def ordered(self, y: Matrix, cut: Cut) -> Matrix:
        """Codes from rows of propagated codes."""
        rows = torch.from_numpy(np.ascontiguousarray(y, np.float32))
        if self.alignment is None:
            code = rows[:, : cut.dim]
            code = normalize(code, dim=1) if cut.normalize else code
        else:
            code = self.alignment.apply(unit_rms_rows(rows), cut.dim, cut.t, unit=cut.normalize)
        return np.asarray(code.numpy(), np.float32)

    def of_graph(self, own: Matrix, edges: object, missing: object, cut: Cut) -> Matrix:
        """Codes of all nodes of a graph from their own codes; rows of `missing` nodes are ignored."""
        mask = missing_nodes(missing, len(own))
        smooth = Smoothing.of(Edges.of(edges, len(own)).walk(len(own)))
        own = np.where(mask[:, None], np.float32(0), own)
        y = filled(smooth, own, mask) if self.propagation.way == "none" else self.propagation.apply(smooth, own)
        require_known(y, mask)
        return self.ordered(y, cut)

    def of_new_nodes(self, own: Matrix, edges: object, missing: object, stored: StoredNodes, cut: Cut) -> Matrix:
        """Codes of new nodes from their own codes and those of their stored neighbours, which alone are read."""
        mask = missing_nodes(missing, len(own))
        around = new_nodes(Edges.of(edges, len(stored) + len(own)), stored, len(own))
        boundary = stored.states(around.around)
        own = np.where(mask[:, None], np.float32(0), own)
        if self.propagation.way == "none":
            y = filled(lambda h: around.smooth(h, boundary[0]), own, mask)
        else:
            y = self.propagation.combine(around.states(self.propagation, own, boundary))
        require_known(y, mask, first=len(stored))
        return self.ordered(y, cut)


def require_same(stored: StoredNodes, fingerprint: str | None, how: NeighbourCodes, n_components: int) -> None:
    """Refuse codes that another model has made."""
    if stored.fingerprint != fingerprint:
        raise EigenmapError(
            f"{stored.path}: the stored codes were made by another model; embed the stored graph again with this one "
            "first."
        )
    if stored.n_components != n_components or stored.propagation != how.propagation:
        raise EigenmapError(
            f"{stored.path}: the stored codes are damaged, since their length or way is not the model's."
        )
