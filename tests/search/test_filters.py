import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex, cancellation
from eigenmap.search.filters import Condition, NestedError, conditions, meets, parse

ITEM = {"label": "cat", "year": 2021, "sharp": True, "score": 0.5, "owner": None}


@pytest.mark.parametrize(
    "where",
    [
        None,
        {},
        {"label": "cat"},
        {"label": ["dog", "cat"]},
        {"year": {">=": 2021, "<": 2022.5}},
        {"year": 2021.0, "label": {"!=": "dog"}},
        {"year": {"in": (2020, 2021)}},
        {"sharp": True, "owner": None},
        {"score": np.float32(0.5)},
        {"label": {">": "Cat", "<=": "cat"}},
    ],
)
def test_conditions_that_an_item_meets(where):
    assert meets(ITEM, conditions(where))


@pytest.mark.parametrize(
    "where",
    [
        {"label": "dog"},
        {"label": []},
        {"colour": "red"},
        {"colour": {"!=": "red"}},  # nothing is known of its colour
        {"year": {">": 2021}},
        {"year": "2021"},
        {"year": {"!=": "2021"}},
        {"sharp": 1},
        {"owner": {"!=": None}},
        {"owner": {"<": 3}},
        {"label": "cat", "year": 1999},
    ],
)
def test_conditions_that_an_item_does_not_meet(where):
    assert not meets(ITEM, conditions(where))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("label=cat", "where.*mapping"),
        ({1: "cat"}, "field"),
        ({"label": {}}, "'label'.*empty"),
        ({"label": {"like": "c%"}}, "==, !=, <, <=, >, >=, in"),
        ({"label": {"in": "cat"}}, 'list.*"in"'),
        ({"score": float("nan")}, "text.*finite"),
        ({"label": {"==": object()}}, "text"),
    ],
)
def test_what_is_no_filter_is_explained(where, message):
    with pytest.raises(EigenmapError, match=message):
        conditions(where)


def test_conditions_as_words():
    words = ["label=cat", "year>=2020", "year<2030", 'zip="04109"', "name!=x=y", "sharp==true", "owner=null"]
    assert parse(words) == {
        "label": {"==": "cat"},
        "year": {">=": 2020, "<": 2030},
        "zip": {"==": "04109"},
        "name": {"!=": "x=y"},
        "sharp": {"==": True},
        "owner": {"==": None},
    }
    assert parse(["label = cat", "year >= 2020"]) == parse(["label=cat", "year>=2020"])
    for word in ("cat", "=cat", ">=3", "", "year=>2020", "year>>2020", "label===cat", "label=!cat"):
        with pytest.raises(EigenmapError, match="condition"):
            parse([word])


def test_several_conditions_of_one_kind_on_one_field_all_hold():
    where = conditions(parse(["label!=cat", "label!=dog", "year>=2020", "year>=2022"]))
    assert where == [
        Condition("label", "!=", "cat"),
        Condition("label", "!=", "dog"),
        Condition("year", ">=", 2020),
        Condition("year", ">=", 2022),
    ]
    assert meets({"label": "cow", "year": 2023}, where)
    for item in ({"label": "cat", "year": 2023}, {"label": "dog", "year": 2023}, {"label": "cow", "year": 2021}):
        assert not meets(item, where)
    assert conditions({"label": {"!=": []}}) == []


def test_keys_tell_true_from_one():
    values = (True, 1, "1", "True")
    assert len({Condition("x", "==", value).key for value in values}) == len(values)


@given(st.sampled_from([1, 2.5, True, None, "a", "b"]), st.sampled_from([1, 2.5, True, None, "a", "b"]))
def test_comparisons_agree_with_each_other(value, other):
    holds = {op: Condition("x", op, other).holds(value) for op in ("==", "!=", "<", "<=", ">", ">=")}
    assert not (holds["=="] and holds["!="])
    assert holds["<="] == (holds["<"] or (holds["=="] and holds["<="]))
    assert Condition("x", "in", (other,)).holds(value) == holds["=="]


class Counted(str):
    """A text that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str(self) == other

    __hash__ = str.__hash__


def test_one_of_many_values_is_found_without_comparing_all_of_them():
    (condition,) = conditions({"label": [f"label {i}" for i in range(100_000)]})
    assert [condition.holds(Counted(f"label {i}")) for i in (0, 99_999, 100_000)] == [True, True, False]
    assert Counted.compared < 1000
    for many in ([1, True, "1", None], [True], [1.0], ["1"], [None]):
        slow = [any(type(v) is type(o) and v == o for o in many) for v in (True, "1", None)]
        assert [Condition("x", "in", tuple(many)).holds(value) for value in (True, "1", None)] == slow
    assert Condition("x", "in", (1.0,)).holds(1) and not Condition("x", "in", (True,)).holds(1)


def test_a_nested_value_is_named_however_deep_it_is():
    value = []
    for _ in range(100_000):
        value = [value]
    for where in ({"a": {"==": value}}, {"a": value}, {"a": {"in": {"b": value}}}, {"a": {"b": {"c": value}}}):
        with pytest.raises(NestedError) as error:
            conditions(where)
        assert len(str(error.value)) < 300
    for word in ("a=[[1]]", f"a={'[' * 100_000}", 'a={"b":1}'):
        with pytest.raises(NestedError):
            parse([word])


def test_a_search_by_a_filter_can_be_stopped():
    index = CodeIndex(2)
    index.add(np.ones((1000, 2)), range(1000), [{"n": i} for i in range(1000)])
    asked = []

    def unwanted():
        asked.append(True)
        return len(asked) > 10

    with pytest.raises(cancellation.SearchCancelledError), cancellation.cancel_when(unwanted):
        index.search(np.ones(2), where={"n": {">=": 0}})
    assert len(asked) == 11  # it went on for no other item
    assert len(index.search(np.ones(2), where={"n": {">=": 990}}).ids[0]) == 10  # and the next is none the worse
