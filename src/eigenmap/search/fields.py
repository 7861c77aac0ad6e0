"""Metadata fields that a filter names and no item has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from eigenmap.search.index import CodeIndex

_NO_VALUE = "\x01 no item has this value"


def unknown_fields(index: CodeIndex, where: Mapping[str, Any]) -> list[str]:
    """Return the fields of a filter that no item has: spelling mistakes, most likely.

    A condition holds only for items that have its field, so whatever differs from an impossible value has the field.
    """
    anything = np.ones((1, index.n_components), np.float32)
    return [
        field
        for field in where
        if not any(index.search(anything, top=1, dim=1, where={field: {"!=": _NO_VALUE}}, exact=True).ids)
    ]
