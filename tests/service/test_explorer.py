from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenmap import Eigenmap, EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.service import runtime
from eigenmap.service.explorer import Explorer, Item, SearchParameters, id_of, key_of
from eigenmap.service.thumbnails import StoredPictures
from eigenmap.service.uploads import Refused
from tests.service.pictures import encoded

N, K = 200, 12
CODES = (np.random.default_rng(0).normal(size=(N, K)) * np.linspace(2, 0.3, K)).astype(np.float32)
NAMES = [f"i{j}" for j in range(N)]


def made(metric: str = "cosine", ids: list[str] | list[int] | None = None, **options: object) -> Explorer:
    index = CodeIndex(K, metric, **options)  # type: ignore[arg-type]
    index.add(CODES, ids or NAMES, [{"label": "even" if j % 2 == 0 else "odd"} for j in range(N)])
    explorer = Explorer(index, None, "test", StoredPictures(Path("nowhere")))
    explorer.prepare()
    return explorer


def names(answer: list[Item] | Exception) -> list[object]:
    assert not isinstance(answer, Exception), answer
    return [item.id for item in answer]


def reference(code: np.ndarray, columns: list[int], rows: list[int]) -> list[int]:
    """Rows by falling cosine of these columns, slowly."""
    cut, q = CODES[:, columns].astype(np.float64), code[columns].astype(np.float64)
    scores = cut @ q / np.linalg.norm(cut, axis=1) / np.linalg.norm(q)
    return sorted(rows, key=lambda row: (-scores[row], row))


@pytest.mark.parametrize("dim", [2, 5, K])
def test_ordered_and_random_features_rank_as_a_slow_reference_does(dim: int) -> None:
    explorer = made()
    others = [row for row in range(N) if row != 7]
    (found,) = explorer.answer(SearchParameters("ordered", dim, 10), ["i7"])
    assert names(found) == [f"i{row}" for row in reference(CODES[7], list(range(dim)), others)[:10]]
    (random,) = explorer.answer(SearchParameters("random", dim, 10), ["i7"])
    order = np.random.default_rng(0).permutation(K).tolist()
    assert names(random) == [f"i{row}" for row in reference(CODES[7], order[:dim], others)[:10]]


def test_several_queries_are_answered_at_once_and_each_for_itself() -> None:
    explorer = made()
    asks = SearchParameters("ordered", 4, 5)
    together = explorer.answer(asks, ["i1", "gone", tuple(CODES[2].tolist()), "i3", (1.0, 2.0)])
    alone = [explorer.answer(asks, [query])[0] for query in ("i1", tuple(CODES[2].tolist()), "i3")]
    assert [names(together[i]) for i in (0, 2, 3)] == [names(answer) for answer in alone]
    assert names(together[2])[0] == "i2"  # a code is no item: nothing is left out
    assert isinstance(together[1], Refused) and together[1].status == 404
    assert isinstance(together[4], Refused) and together[4].status == 422


def test_items_to_search_by_are_looked_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """On disk, every lookup reads the hashes of all ids."""
    explorer, lookups = made(), []
    monkeypatch.setattr(
        explorer.index, "codes", lambda ids: lookups.append(ids) or CodeIndex.codes(explorer.index, ids)
    )
    answers = explorer.answer(SearchParameters("ordered", 4, 5), ["i1", (1.0,) * K, "i3", "i1"])
    assert [len(names(answer)) for answer in answers] == [5] * 4 and names(answers[0]) == names(answers[3])
    assert lookups == [["i1", "i3"]]


def test_a_query_that_the_index_refuses_fails_no_other() -> None:
    """Of old all queries that waited for the same scan failed with it."""
    explorer, asks = made("inner"), SearchParameters("ordered", K, 5)
    good, refused, also_good = explorer.answer(asks, ["i1", (1e30,) * K, tuple(CODES[2].tolist())])
    assert names(good) == names(explorer.answer(asks, ["i1"])[0])
    assert names(also_good) == names(explorer.answer(asks, [tuple(CODES[2].tolist())])[0])
    assert isinstance(refused, EigenmapError) and "row 0" in str(refused)
    wrong = explorer.answer(SearchParameters("ordered", K, 5, '{"year": {">": 1, "in": 2}}'), ["i1", "i2"])
    assert all(isinstance(each, EigenmapError) for each in wrong)


def test_filters_and_metadata() -> None:
    (found,) = made().answer(SearchParameters("ordered", K, 200, '{"label": "odd"}'), ["i7"])
    assert not isinstance(found, Exception)
    assert len(found) == N // 2 - 1 and all(item.metadata == {"label": "odd"} for item in found)
    (nothing,) = made().answer(SearchParameters("random", K, 5, '{"label": "none"}'), ["i7"])
    assert nothing == []


def test_a_damaged_note_ends_the_wait_for_the_quality_and_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of old the page asked for the quality every second, forever, and nobody was told why."""
    index = CodeIndex(K)
    index.add(CODES, NAMES)
    explorer = Explorer(index, None, "test", StoredPictures(Path("nowhere")))

    def damaged(*_: object, **__: object) -> None:
        raise EigenmapError("the note is damaged")

    monkeypatch.setattr(type(index.backend), "read_note", damaged)
    warned: list[str] = []  # once uvicorn has run, its logger no longer passes records on
    monkeypatch.setattr(runtime._log, "warning", lambda line, *values: warned.append(line % values))
    runtime._prepare(explorer)
    assert explorer.quality_known and explorer.quality is None
    assert len(warned) == 1 and warned[0].endswith("the note is damaged")


def test_random_features_are_ready_only_when_prepared() -> None:
    index = CodeIndex(K)
    index.add(CODES, NAMES)
    explorer = Explorer(index, None, "test", StoredPictures(Path("nowhere")))
    (answer,) = explorer.answer(SearchParameters("random", 2, 3), ["i0"])
    assert isinstance(answer, Refused) and answer.status == 503
    explorer.prepare()
    assert len(names(explorer.answer(SearchParameters("random", 2, 3), ["i0"])[0])) == 3
    assert explorer.quality_known and explorer.quality is None  # no labels


def test_numbers_that_no_code_can_hold() -> None:
    huge = tuple(1e300 * float(value) for value in CODES[5])
    (cosine,) = made().answer(SearchParameters("ordered", K, 1), [huge])
    assert names(cosine) == ["i5"]
    (inner,) = made("inner").answer(SearchParameters("ordered", K, 1), [huge])
    assert isinstance(inner, Refused) and inner.status == 422
    (zero,) = made().answer(SearchParameters("ordered", K, 3), [(0.0,) * K])
    assert len(names(zero)) == 3


def test_ids_that_are_whole_numbers() -> None:
    explorer = made(ids=list(range(1000, 1000 + N)))
    assert explorer.item_id("1007") == 1007
    assert explorer.item(1007).metadata == {"label": "odd"}
    for text in ("x", "7.0"):
        with pytest.raises(Refused):
            explorer.item_id(text)
    with pytest.raises(Refused):
        explorer.item(5)


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_every_name_has_a_key_and_every_key_its_name(name: str) -> None:
    key = key_of(name)
    assert id_of(key) == name
    assert set(key) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("key", ["a", "*", "é", "/w", "____", "gA"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(Refused) as refused:
        id_of(key)
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, {1: 4, 5: 20, 12: 48}),
        ({"precision": "float16"}, {1: 2, 5: 10, 12: 24}),
        ({"precision": "int8"}, {1: 1, 5: 5, 12: 12}),
        ({"precision": "signs", "bytes_per_item": 2}, {8: 1, 12: 2}),
    ],
)
def test_bytes_per_item(options: dict[str, object], sizes: dict[int, int]) -> None:
    explorer = made(**options)
    assert {dim: explorer.bytes_per_item(dim) for dim in sizes} == sizes


def test_metadata_with_few_values_are_listed() -> None:
    index = CodeIndex(2)
    index.add(np.ones((60, 2)), [str(i) for i in range(60)], [{"n": i, "even": i % 2 == 0} for i in range(60)])
    explorer = Explorer(index, None, "test", StoredPictures(Path("nowhere")))
    assert explorer.fields() == {"n": [], "even": [False, True]}


def test_an_upload_has_the_code_that_the_model_gives_it(
    explorer: Explorer, served_index: Path, photo_folder: Path
) -> None:
    file = photo_folder / "bars" / "1.png"
    code = explorer.encode(file.read_bytes(), 10**6)
    (stored,) = explorer.index.codes(["bars/1.png"])
    np.testing.assert_allclose(code, stored, atol=1e-5)
    assert Eigenmap.load(served_index / "model").n_components == len(code)
    (found,) = explorer.answer(SearchParameters("ordered", 8, 1), [code])
    assert names(found) == ["bars/1.png"]


def test_an_index_without_a_model_cannot_encode() -> None:
    explorer = made()
    assert explorer.eigenvalues() is None
    with pytest.raises(Refused, match="no model") as refused:
        explorer.encode(encoded("PNG"), 10**6)
    assert refused.value.status == 501


def test_an_empty_index_is_refused() -> None:
    with pytest.raises(EigenmapError, match="empty"):
        Explorer(CodeIndex(3), None, "test", StoredPictures(Path("nowhere")))
