import dataclasses
import json

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.advisor import Advice, Measure, advise, funnel_text
from eigenmap.search.backend import Stage

K, N = 32, 1200


def index_of(backend="flat", where=None, n=N):
    rng = np.random.default_rng(0)
    index = CodeIndex(K, backend=backend, where=where)
    index.add(rng.standard_normal((n, K)) * np.arange(1, K + 1) ** -0.9, range(n))
    return index


def share_found(index, row, queries):
    """Share of the nearest ten other items of each query that a setting finds."""
    codes = index.codes(queries)
    truth = index.search(codes, 11, exact=True).ids
    found = index.search(codes, funnel=[(dim, keep + 1) for dim, keep in row.stages], exact=row.exact).ids
    pairs = zip(queries, truth, found, strict=True)
    return np.mean([len({*right} & {*got} - {own}) / 10 for own, right, got in pairs])


@pytest.mark.parametrize("backend", ["flat", "faiss"])
def test_what_is_recommended_is_the_fastest_that_is_good_enough(backend):
    index = index_of(backend)
    said = []
    advice = advise(index, 0.95, queries=80, say=said.append)
    assert advice.full.recall == 1 and advice.full.stages == (Stage(K, 10),)
    lengths = [row for row in advice.rows[1:] if row.name.startswith("exact")]
    assert [row.dim for row in lengths] == [4, 8, 16]
    assert [row.recall for row in lengths] == sorted(row.recall for row in lengths)
    tried = index.backend.sample(80, 0).ids[:40]
    good = [row for row in advice.rows if share_found(index, row, tried) >= 0.95 + 0.3 * 0.05]
    assert advice.chosen in good and advice.chosen.recall >= 0.95
    assert advice.chosen.queries_per_second == max(row.queries_per_second for row in good)
    assert any(row.name == "funnel" for row in advice.rows)
    assert any(not row.exact for row in advice.rows) == (backend == "faiss")
    assert advice.queries == 40
    # Everything that may take seconds is announced: each search, and what lies between and after them.
    others = [line for line in said if not line.startswith(("exact", "funnel", "approximate"))]
    assert others == ["looking for funnels", "comparing with PCA and random features"]
    assert len(said) == len(advice.rows) + len(others) and said[-1] == others[-1]


def test_the_half_that_is_reported_has_no_say_in_the_choice(monkeypatch):
    """Of old it chose between funnels and lengths, so that the luckiest was reported."""
    honest = Measure.recall
    monkeypatch.setattr(Measure, "recall", lambda self, *a: 1.0 if a[1] is self.judged else honest(self, *a))
    advice = advise(index_of(), 0.95, queries=80)
    assert {row.recall for row in advice.rows} == {1.0}
    assert advice.chosen.dim == K
    monkeypatch.setattr(Measure, "recall", lambda self, *a: 0.9 if a[1] is self.judged else honest(self, *a))
    assert advise(index_of(), 0.95, queries=80).remarks[0].endswith("below 0.95")


def test_the_recall_of_a_length_is_that_of_brute_force():
    index = index_of(n=300)
    advice = advise(index, queries=300)
    codes = index.codes(index.ids).astype(np.float64)
    judged = index.backend.sample(300, 0).ids[150:]

    def nearest(dim):
        x = codes[:, :dim] / np.linalg.norm(codes[:, :dim], axis=1, keepdims=True)
        scores = x[judged] @ x.T
        scores[np.arange(len(judged)), judged] = -np.inf
        return np.argsort(-scores, axis=1)[:, :10]

    truth = nearest(K)
    for row in advice.rows:
        if row.name.startswith("exact, ") and row.dim < K:
            found = nearest(row.dim)
            expected = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(truth, found, strict=True)])
            assert row.recall == pytest.approx(expected, abs=1e-9)


def test_auto_follows_the_advice_and_remembers_it(tmp_path, monkeypatch):
    index = index_of(where=tmp_path / "a")
    advice = index.advise(0.9, queries=60)
    queries = np.random.default_rng(1).standard_normal((5, K))
    again = CodeIndex.open(tmp_path / "a")
    monkeypatch.setattr(CodeIndex, "advise", lambda self: pytest.fail("measured again"))
    found = again.search(queries, dim="auto")
    assert found.recall == advice.chosen.recall
    assert found.dim == advice.chosen.dim
    assert found.ids == again.search(queries, funnel=advice.chosen.stages, exact=advice.chosen.exact).ids
    assert [len(ids) for ids in again.search(queries, 30, dim="auto").ids] == [30] * 5


def test_auto_says_how_many_features_it_compared():
    index = index_of()
    advice = index.advise(0.9, queries=60)
    short = next(row for row in advice.rows if row.dim < K)
    index._advice = dataclasses.replace(advice, chosen=short)
    assert index.search(np.ones((1, K)), dim="auto").dim == short.dim


@pytest.mark.parametrize("backend", ["flat", "faiss"])
def test_auto_neither_measures_nor_writes(backend, tmp_path, monkeypatch):
    """Without advice it compares every item at full length, which finds everything."""
    index = index_of(backend, where=tmp_path / "a")
    queries = np.random.default_rng(1).standard_normal((40, K)) * np.arange(1, K + 1) ** -0.9
    before = {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()}
    monkeypatch.setattr("eigenmap.search.advisor.advise", lambda *_, **__: pytest.fail("measured"))
    assert index.advice is None
    found, exact = index.search(queries, dim="auto"), index.search(queries, exact=True)
    assert (found.ids, found.recall, found.dim) == (exact.ids, 1.0, K)
    assert {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()} == before
    few = index_of(n=50)
    assert few.search(queries, dim="auto").ids == few.search(queries).ids


def test_advice_for_another_number_of_items_is_not_followed(tmp_path):
    index = index_of(where=tmp_path / "a")
    advice = index.advise(0.9, queries=60)
    assert index.advice == CodeIndex.open(tmp_path / "a").advice == advice
    rng = np.random.default_rng(2)
    index.add(rng.standard_normal((N, K)), range(N, 2 * N))
    assert index.advice is None and CodeIndex.open(tmp_path / "a").advice is None
    assert index.search(np.ones((1, K)), dim="auto").recall == 1
    index.delete(range(N, N + 100))
    assert index.advice == advice


@pytest.mark.parametrize(
    "damage",
    [
        lambda note: {},
        lambda note: note | {"items": 0},
        lambda note: note | {"rows": 5},
        lambda note: note | {"chosen": note["chosen"] | {"stages": [[K + 1, 10]]}},
        lambda note: note | {"chosen": note["chosen"] | {"stages": []}},
    ],
)
def test_advice_that_makes_no_sense_is_none(damage, tmp_path):
    index = index_of(where=tmp_path / "a")
    index.advise(0.9, queries=20)
    file = tmp_path / "a" / "advice.json"
    file.write_text(json.dumps(damage(json.loads(file.read_text()))))
    again = CodeIndex.open(tmp_path / "a")
    assert again.advice is None and again.search(np.ones((1, K)), dim="auto").dim == K


def test_extrapolation_and_json():
    advice = advise(index_of(), 0.95, queries=40)
    assert Advice.from_json(json.loads(json.dumps(advice.as_json()))) == advice
    at = advice.at(10 * N)
    assert at["stored_bytes"] == 10 * N * 4 * K
    assert at["queries_per_second_full_length"] == pytest.approx(advice.full.queries_per_second / 10)
    assert funnel_text(advice.full.stages) == f"{K}:10"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recall": 0}, "recall.*0"),
        ({"top": 0}, "top"),
        ({"queries": 1}, "queries.*2"),
        ({"top": N}, f"few items, {N},.*{N + 2}"),
        ({"bytes_per_item": 3}, "prefix.*3 bytes"),
    ],
)
def test_what_cannot_be_asked_is_explained(options, message):
    with pytest.raises(EigenmapError, match=message):
        advise(index_of(), **{"queries": 20, **options})
