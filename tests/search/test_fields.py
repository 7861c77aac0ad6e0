from __future__ import annotations

import numpy as np

from eigenmap.search import CodeIndex
from eigenmap.search.fields import unknown_fields


def test_only_fields_that_no_item_has_are_unknown() -> None:
    index = CodeIndex(2)
    index.add(np.eye(2), ["a", "b"], [{"label": "cat"}, {"year": 2020, "sold": True}])
    where = {"label": "dog", "year": {">": 2021}, "labl": "cat", "sold": False}
    assert unknown_fields(index, where) == ["labl"]
    assert unknown_fields(index, {}) == []


def test_a_field_that_is_always_null_is_known() -> None:
    index = CodeIndex(2)
    index.add(np.eye(2), ["a", "b"], [{"camera": None}, {}])
    assert unknown_fields(index, {"camera": "A", "lens": None}) == ["lens"]
