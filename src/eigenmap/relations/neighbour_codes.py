"""Codes with neighbours: the codes of a node and its neighbours, combined and ordered again.

A model of nodes stores the propagation chosen by its fit (`Propagation`) and an alignment of the propagated codes, so
that codes computed with edges are ordered, can be cut anywhere, and are comparable with each other. They are not
comparable with codes computed from features alone, unless the propagation is "none".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize

from eigenmap.core.errors import EigenmapError
from eigenmap.relations.device_propagation import on_device
from eigenmap.relations.neighbourhood import (
    Edges,
    StoredNodes,
    filled,
    missing_nodes,
    new_edges,
    new_nodes,
    require_known,
)
from eigenmap.relations.propagation import Matrix, Propagation, Smoothing
from eigenmap.spectrum import Alignment, unit_rms_rows


class Cut(NamedTuple):
    """Output format of codes: length, exponent of the weights (None for the model's), whether rows have norm 1."""

    dim: int
    t: float | None = None
    normalize: bool = True


@dataclass(frozen=True)
class NeighbourCodes:
    """A model's propagation over neighbours, and the alignment of the resulting codes.

    Attributes:
        propagation: combination of the codes of a node and its neighbours.
        alignment: alignment of the propagated codes; None for "none", whose codes are already ordered.

    """

    propagation: Propagation = field(default_factory=Propagation)
    alignment: Alignment | None = None

    def ordered(self, y: Matrix, cut: Cut) -> Matrix:
        """Return ordered codes from rows of propagated codes."""
        rows = torch.from_numpy(np.ascontiguousarray(y, np.float32))
        if self.alignment is None:
            code = rows[:, : cut.dim]
            code = normalize(code, dim=1) if cut.normalize else code
        else:
            code = self.alignment.apply(unit_rms_rows(rows), cut.dim, cut.t, unit=cut.normalize)
        return np.asarray(code.numpy(), np.float32)

    def of_graph(
        self, own: Matrix, edges: object, missing: object, cut: Cut, device: torch.device | None = None
    ) -> Matrix:
        """Return the codes of all nodes of a graph from their own codes; rows of `missing` nodes are ignored.

        On a GPU with room for the graph, codes are averaged there.
        """
        mask = missing_nodes(missing, len(own))
        smooth = Smoothing.of(Edges.of(edges, len(own)).walk(len(own)))
        own = np.where(mask[:, None], np.float32(0), own) if mask.any() else own
        y = filled(smooth, own, mask) if self.propagation.way == "none" else self._propagated(smooth, own, device)
        require_known(y, mask)
        return self.ordered(y, cut)

    def _propagated(self, smooth: Smoothing, own: Matrix, device: torch.device | None) -> Matrix:
        if device is not None and device.type == "cuda":
            found = on_device(self.propagation, smooth, own, device)
            if found is not None:
                return found
        return self.propagation.apply(smooth, own)

    def of_new_nodes(self, own: Matrix, edges: object, missing: object, stored: StoredNodes, cut: Cut) -> Matrix:
        """Return the codes of new nodes from their own codes and stored neighbours; only the neighbours are read."""
        mask = missing_nodes(missing, len(own))
        around = new_nodes(new_edges(edges, stored, len(own)), stored, len(own))
        boundary = stored.states(around.around)
        own = np.where(mask[:, None], np.float32(0), own) if mask.any() else own
        if self.propagation.way == "none":
            y = filled(lambda h: around.smooth(h, boundary[0]), own, mask)
        else:
            y = around.propagated(self.propagation, own, boundary)
        require_known(y, mask, first=len(stored))
        return self.ordered(y, cut)


def require_same(stored: StoredNodes, fingerprint: str | None, how: NeighbourCodes, n_components: int) -> None:
    """Refuse codes of another model."""
    if not hasattr(stored, "fingerprint"):
        kind = type(stored).__name__
        raise EigenmapError(f"stored must be the codes of a graph, NodeCodes.open(folder), not {kind}.")
    if stored.fingerprint != fingerprint:
        raise EigenmapError(
            f"{stored.path}: the stored codes are those of another model; embed the graph again with this one first."
        )
    if stored.n_components != n_components or stored.propagation != how.propagation:
        raise EigenmapError(
            f"{stored.path}: the stored codes are damaged: their length or propagation differs from the model's; embed "
            "the graph again."
        )
