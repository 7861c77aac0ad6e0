"""Results as text: the same value, with lists of numbers on one line."""

from __future__ import annotations

import doctest
import json

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common import jsontext

numbers = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
values = st.recursive(
    numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_the_value_is_kept(value: object) -> None:
    assert json.loads(jsontext.text(value)) == value


@given(values)
def test_only_the_lines_differ_from_what_python_writes(value: object) -> None:
    def packed(text: str) -> str:
        return json.dumps(json.loads(text, parse_float=str, parse_int=str))

    assert packed(jsontext.text(value)) == packed(json.dumps(value))


@given(st.lists(numbers, max_size=100))
def test_a_list_of_numbers_is_one_line(value: list[float]) -> None:
    assert "\n" not in jsontext.text(value)
    assert jsontext.text({"a": value}).count("\n") == 2


def test_examples() -> None:
    assert doctest.testmod(jsontext).failed == 0
