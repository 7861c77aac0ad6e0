"""Unknown metadata fields in filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from eigenmap.search.index import CodeIndex

_NO_VALUES: tuple[str | float | bool, ...] = ("\x01 no item has this value", -1.7e308, True, False)
"""For each type, a value that no item has; an item has at most one of the two booleans."""


def unknown_fields(index: CodeIndex, where: Mapping[str, Any]) -> list[str]:
    """Return the fields of a filter that no item has, which are probably spelling mistakes.

    A condition holds only for items that have its field with a value of its type, so an item that differs from an
    impossible value has the field. Only null differs from nothing.
    """
    anything = np.ones((1, index.n_components), np.float32)

    def is_known(field: str) -> bool:
        filters: list[dict[str, Any]] = [*({field: {"!=": value}} for value in _NO_VALUES), {field: None}]
        return any(any(index.search(anything, top=1, dim=1, where=each, exact=True).ids) for each in filters)

    return [field for field in where if not is_known(field)]
