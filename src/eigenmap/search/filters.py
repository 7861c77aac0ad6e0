"""Metadata filters: `where={"label": "cat", "year": {">=": 2020}, "camera": ["A", "B"]}`.

All conditions must hold. A value means equality, a list means any of its values, and a mapping contains comparisons,
each with a value or with a list of values, all of which must hold (`{"!=": ["cat", "dog"]}`: neither). An item without
a field meets no condition on it, whatever the comparison. Only numbers compare with numbers, and text with text (by
code point).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import has_too_many_digits, shortened
from eigenmap.search import cancellation
from eigenmap.search.backend import Metadata, Value

Operand = Value | tuple[Value, ...]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPERATORS = (*_COMPARE, "in")


class NestedError(EigenmapError):
    """Raised for a mapping or list where a plain value is expected."""


class AllowedValues(tuple[Value, ...]):
    """Values of an "in" condition: a tuple with constant-time lookup.

    >>> "1" in AllowedValues(("1", 2)), AllowedValues(("1", 2)).allow(1), AllowedValues(("1", 2)).allow(2.0)
    (True, False, True)
    """

    @cached_property
    def _members(self) -> frozenset[tuple[str, Value]]:
        return frozenset((_kind(value), value) for value in self)

    def allow(self, value: Value) -> bool:
        """Tell whether one of these equals `value` and has its type."""
        return (_kind(value), value) in self._members


class Condition(NamedTuple):
    """Condition `field op value`; for "in" the value is a tuple.

    >>> Condition("year", ">=", 2020).holds(2021), Condition("year", ">=", 2020).holds("2021")
    (True, False)
    """

    field: str
    op: str
    value: Operand

    @property
    def key(self) -> tuple[str, str, str]:
        """Key that is equal only for equal conditions; Python considers True, 1 and 1.0 equal."""
        return self.field, self.op, repr(self.value)

    def holds(self, value: Value) -> bool:
        """Tell whether an item's value of this field meets the condition."""
        if self.op == "in":
            assert isinstance(self.value, tuple)
            allowed = self.value if isinstance(self.value, AllowedValues) else AllowedValues(self.value)
            return allowed.allow(value)
        if isinstance(self.value, tuple) or _kind(value) != _kind(self.value):
            return False
        if value is None:  # equal to itself, but unordered
            return self.op == "=="
        return _COMPARE[self.op](value, self.value)


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return type(value).__name__
    return "text" if isinstance(value, str) else "number"


def conditions(where: Mapping[str, Any] | None) -> list[Condition]:
    """Parse a filter, or raise an error that shows an example.

    >>> conditions({"label": "cat", "year": {">=": 2020}})
    [Condition(field='label', op='==', value='cat'), Condition(field='year', op='>=', value=2020)]
    """
    if where is None:
        return []
    if not isinstance(where, Mapping):
        raise EigenmapError(f'where must be a mapping such as {{"label": "cat"}}, not {shortened(where)}')
    found: list[Condition] = []
    for field, asked in where.items():
        if not isinstance(field, str):
            raise EigenmapError(f"field names in a filter must be strings, not {shortened(field)}")
        if isinstance(asked, Mapping):
            if not asked:
                raise EigenmapError(f"the filter on {shortened(field)} is empty; give a value or comparisons")
            for op, value in asked.items():
                if isinstance(value, Mapping):
                    raise NestedError(f"the filter on {shortened(field)} has a nested mapping; give plain values")
                each = value if isinstance(value, list | tuple) and op != "in" else [value]
                found += [_comparison(field, str(op), one) for one in each]
        elif isinstance(asked, str) or not isinstance(asked, Iterable):
            found.append(Condition(field, "==", plain_value(asked, field)))
        else:
            found.append(_comparison(field, "in", asked))
    return found


def _comparison(field: str, op: str, value: Any) -> Condition:
    if op not in OPERATORS:
        raise EigenmapError(
            f"the filter on {shortened(field)} has the unknown comparison {shortened(op)}; use {', '.join(OPERATORS)}"
        )
    if op == "in":
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise EigenmapError(f'the filter on {shortened(field)} needs a list for "in", not {shortened(value)}')
        return Condition(field, op, AllowedValues(plain_value(one, field) for one in value))
    return Condition(field, op, plain_value(value, field))


def plain_value(value: Any, field: str) -> Value:
    """Return a value as plain Python: text, number, bool or None."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and not has_too_many_digits(value):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    nested = isinstance(value, Mapping | list | tuple | set | frozenset)
    raise (NestedError if nested else EigenmapError)(
        f"{shortened(field)} must be text, a finite number, true, false or null, not {shortened(value)}"
    )


def meets(item: Metadata, where: Sequence[Condition]) -> bool:
    """Tell whether an item meets all conditions; every back end follows this definition."""
    cancellation.raise_if_cancelled()  # filters are evaluated item by item in Python, which may be slow
    return all(condition.field in item and condition.holds(item[condition.field]) for condition in where)


def parse(words: Sequence[str]) -> dict[str, Any]:
    """Parse a filter from words such as `label=cat`, `year>=2020`, `camera!=A`, as used on the command line.

    Values that look like a number, true, false or null are parsed as such; quotes force text ('zip="04109"'). All
    conditions must hold, including several of one kind on one field (`label!=cat label!=dog`).
    """
    import json
    import re

    where: dict[str, Any] = {}
    for word in words:
        match = re.fullmatch(r"([^=<>!]+)(<=|>=|!=|==|=|<|>)(?![=<>!])(.*)", word, flags=re.DOTALL)
        if match is None:
            raise EigenmapError(f"{shortened(word)} is not a condition; write one as label=cat or year>=2020")
        field, op, text = (part.strip() for part in match.groups())
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        except RecursionError:
            raise NestedError(f"{shortened(field)} must be a plain value, not nested brackets") from None
        where.setdefault(field, {}).setdefault("==" if op == "=" else op, []).append(plain_value(value, field))
    for comparisons in where.values():
        for op, values in comparisons.items():
            comparisons[op] = values[0] if len(values) == 1 else values
    return where
