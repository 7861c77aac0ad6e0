"""Network outputs from which codes are made: the encoder's, the projector's, or both side by side."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from eigenmap.spectrum import unit_rms_rows

CodeSource = Literal["encoder", "projector", "both"]


def code_rows(features: Tensor, psi: Tensor, source: CodeSource, plain: bool = False) -> Tensor:
    """Return the rows that an alignment takes, from both outputs of a network, each scaled to unit mean square.

    With `plain` a single output keeps its norm.

    >>> code_rows(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 0.5]]), "both").tolist()
    [[1.4142135381698608, 0.0, 0.0, 1.4142135381698608]]
    """
    if source == "both":
        return torch.cat([unit_rms_rows(features), unit_rms_rows(psi)], dim=1)
    rows = features if source == "encoder" else psi
    return rows if plain else unit_rms_rows(rows)
