import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex, checks
from eigenmap.search.backend import Stage


def test_a_funnel_becomes_stages():
    assert checks.funnel([(8, 2000), (32, 200), (256, 10)], None, 256) == [
        Stage(8, 2000),
        Stage(32, 200),
        Stage(256, 10),
    ]
    assert checks.funnel([(8, 20), (8, 20)], 5, 8) == [Stage(8, 20), Stage(8, 5)]


@pytest.mark.parametrize(
    ("stages", "top", "message"),
    [
        (5, None, "funnel.*list"),
        ([(8, 1, 2)], None, "funnel.*list"),
        ([], None, "funnel.*empty"),
        ([(16, 20), (8, 10)], None, "funnel.*16 to 32.*8"),
        ([(8, 20), (64, 10)], None, "8 to 32.*64"),
        ([(8, 20), (32, 30)], None, "funnel.*1 to 20.*30"),
        ([(8, 20), (32, 10)], 11, "10 items.*top = 11"),
        ([("8", 20)], None, "funnel.*'8'"),
    ],
)
def test_what_is_no_funnel_is_explained(stages, top, message):
    with pytest.raises(EigenmapError, match=message):
        checks.funnel(stages, top, 32)


def test_metadata_by_item_and_by_column():
    rows = [{"label": "a", "n": 1}, {"label": "b", "n": 2}]
    assert checks.metadata(rows, 2) == checks.metadata({"label": ["a", "b"], "n": (1, 2)}, 2) == rows
    assert checks.metadata(None, 2) is None
    assert checks.metadata([{}, {}], 2) == [{}, {}]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{}], "2 items.*1.*metadata"),
        ({"label": ["a"]}, "metadata.*1.*'label'.*2"),
        ([{}, "x"], "mapping"),
        (5, "mapping"),
        ({"label": "ab"}, "'label'.*list.*'ab'"),
        ({"label": 5}, "'label'.*list.*5"),
        ([{}, {1: 2}], "mapping"),
        ([{}, {"a": [1]}], "'a'.*finite"),
    ],
)
def test_metadata_that_cannot_be_stored_is_explained(items, message):
    with pytest.raises(EigenmapError, match=message):
        checks.metadata(items, 2)


def test_a_whole_number_too_large_for_any_float_is_explained():
    with pytest.raises(EigenmapError, match=r"codes.*too large"):
        checks.matrix([[10**400, 0]], "codes")


def test_ids_that_are_no_list_are_explained():
    for ids in (np.array(5), torch.tensor(5), 5, "a"):
        with pytest.raises(EigenmapError, match=r"ids must be a list"):
            checks.names(ids)


@pytest.mark.parametrize("number", [10**5000, -(10**5000)], ids=["positive", "negative"])
def test_whole_numbers_too_long_for_text_are_refused(number):
    with pytest.raises(EigenmapError, match=r"an id .*4,300 digits.*text"):
        checks.names([1, number])
    with pytest.raises(EigenmapError, match=r"year.*4,300 digits"):
        checks.metadata([{"year": number}], 1)
    index = CodeIndex(2)
    index.add(np.eye(2), ["a", "b"])
    with pytest.raises(EigenmapError, match=r"dim .*1 to 2.*4,300 digits"):
        index.search(np.eye(2), dim=number)
    with pytest.raises(EigenmapError, match=r"year.*4,300 digits"):
        index.search(np.eye(2), where={"year": number})


def test_an_id_given_twice_is_not_said_to_exist():
    with pytest.raises(EigenmapError, match=r"the id 'a' is given twice"):
        checks.names(["b", "a", "a"])
