"""Pairs of vectors: which rows belong together, and which are held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eigenmap import EigenmapError
from eigenmap.data.vectors.vectors import Vectors
from eigenmap.relations.pairs import (
    VectorPairs,
    indexed,
    labelled,
    mutual_neighbours,
    partners,
    second,
    views,
)


def vectors(n: int = 200, d: int = 5, seed: int = 0, name: str = "x") -> Vectors:
    return Vectors(np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32), name)


def ends(parts: Any) -> set[tuple[int, int]]:
    return {pair for part in parts for pair in zip(part.i.tolist(), part.j.tolist(), strict=True)}


def things(pairs: VectorPairs) -> tuple[set[int], set[int]]:
    """Rows that are learned from, and queries that are held out."""
    fit = {row for pair in ends(pairs.fit) for row in pair}
    return fit, {i for i, _ in ends(pairs.held_out)}


def test_partners_share_no_row_between_fit_and_held_out() -> None:
    pairs = partners(vectors(), vectors(seed=1))
    assert ends(pairs.fit) | ends(pairs.held_out) == {(i, i) for i in range(200)}
    assert ends(pairs.fit).isdisjoint(ends(pairs.held_out)) and len(pairs.held_out[0]) == 20
    assert not pairs.two_spaces and partners(vectors(), vectors(d=7)).two_spaces
    assert partners(vectors(), vectors(seed=1), two_spaces=True).two_spaces


def test_equal_rows_are_held_out_together() -> None:
    rng = np.random.default_rng(0)
    captions = rng.normal(size=(300, 5)).astype(np.float32)[np.repeat(np.arange(300), 2)]  # two pictures per caption
    pictures = rng.normal(size=(600, 7)).astype(np.float32)
    pictures[2] = pictures[1]  # joins the pairs of the first two captions
    found = partners(Vectors(pictures), Vectors(captions), seed=3)
    fit, held = found.fit[0].i, found.held_out[0].i
    assert len(held) == 30 and len(set(held // 2)) == 30  # one pair for each caption held out
    assert not set(fit // 2) & set(held // 2) and len(fit) == 600 - 2 * 30 - 2 * bool({0, 1} & set(held // 2))
    left_out = [partners(Vectors(pictures), Vectors(captions), seed).held_out[0].i for seed in range(40)]
    assert any({0, 1, 2, 3} & set(rows) for rows in left_out)
    assert all(len({0, 1, 2, 3} & set(rows)) <= 1 for rows in left_out)


def test_equal_rows_of_index_pairs_are_held_out_together() -> None:
    rng = np.random.default_rng(0)
    queries = Vectors(
        rng.normal(size=(300, 5)).astype(np.float32)[np.repeat(np.arange(300), 4)]
    )  # four clicks per query
    rows = np.stack([np.arange(1200), rng.integers(300, size=1200)], 1)
    for found in (indexed(queries, rows, others=vectors(300)), indexed(queries, rows)):
        fit, held = things(found)
        assert len({row // 4 for row in held}) == 30
        if found.fit[0].left is found.fit[0].right:
            assert not {row // 4 for row in fit} & {row // 4 for row in held}
        assert not set(found.fit[0].i // 4) & {row // 4 for row in held}
    classes = Vectors(rng.normal(size=(10, 5))[rng.integers(10, size=1200)])  # too few different rows
    assert len(things(indexed(classes, rows, others=vectors(300)))[1]) == 120


def test_equal_rows_of_labels_and_views_are_held_out_together() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)[np.repeat(np.arange(300), 2)]
    found = labelled(Vectors(rows), np.arange(600) // 60)
    fit, held = things(found)
    assert not {row // 2 for row in fit} & {row // 2 for row in held}
    assert len({row // 2 for row in held}) == 30 and len(fit | held) == 600
    found = views(vectors(600), [vectors(600, seed=1), Vectors(rows)])  # two items share their third view
    fit, held = things(found)
    assert not {row // 2 for row in fit} & {row // 2 for row in held} and len(held) == 30


def test_few_different_partners_are_held_out_pair_by_pair() -> None:
    rng = np.random.default_rng(0)
    classes = rng.normal(size=(10, 5))[rng.integers(10, size=600)]
    found = partners(Vectors(rng.normal(size=(600, 7))), Vectors(classes), seed=3)
    assert len(found.held_out[0].i) == 60 and found.count == 540


def test_blocks_are_the_rows_of_the_pairs() -> None:
    x, y = vectors(), vectors(seed=1)
    weights = np.arange(200.0)
    pairs = indexed(x, np.stack([np.arange(200), np.arange(200)[::-1]], 1), weights, y)
    found = list(pairs.fit[0].blocks(16))
    i, j = pairs.fit[0].i, pairs.fit[0].j
    np.testing.assert_array_equal(np.concatenate([block.left for block in found]), x.array[i])
    np.testing.assert_array_equal(np.concatenate([block.right for block in found]), y.array[j])
    np.testing.assert_array_equal(np.concatenate([block.weights for block in found]), weights[i])


def test_pairs_of_a_row_with_itself_are_left_out_of_one_space_however_it_is_given() -> None:
    x = vectors()
    rows = np.stack(
        [np.repeat(np.arange(200), 2), np.stack([np.arange(200), np.roll(np.arange(200), 1)], 1).ravel()], 1
    )
    for found in (indexed(x, rows), indexed(x, rows, others=x)):
        assert all(i != j for i, j in ends(found.fit) | ends(found.held_out))


def test_views_are_all_pairs_of_vectors_of_one_row() -> None:
    pairs = views(vectors(), [vectors(seed=1), vectors(seed=2)])
    assert len(pairs.fit) == 3 and pairs.count == 3 * 180
    assert all(np.array_equal(part.i, part.j) for part in pairs.fit)


def test_no_pair_that_is_learned_from_touches_a_held_out_thing() -> None:
    rng = np.random.default_rng(0)
    pairs = indexed(vectors(), rng.integers(0, 200, (900, 2)))
    fit, held = things(pairs)
    assert fit.isdisjoint(held) and len(held) == 20
    fit, held = things(mutual_neighbours(vectors(), 10))
    assert fit.isdisjoint(held)


def test_mutual_neighbours_match_a_slow_search() -> None:
    x = vectors(80)
    unit = x.array.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -2)
    near = [set(np.argsort(-row)[:6].tolist()) for row in similarity]
    wanted = {(i, j) for i in range(80) for j in near[i] if i in near[j]}
    pairs = mutual_neighbours(x, 6)
    fit, held = ends(pairs.fit), ends(pairs.held_out)
    assert held == {pair for pair in wanted if pair[0] in {i for i, _ in held}}
    assert fit <= wanted


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
def test_mutual_neighbours_do_not_depend_on_the_size_of_rows(scale: float) -> None:
    x = vectors(80)
    pairs, scaled = (mutual_neighbours(each, 6) for each in (x, Vectors(x.array * np.float32(scale), "x")))
    assert ends(scaled.fit) == ends(pairs.fit) and ends(scaled.held_out) == ends(pairs.held_out)


def test_rows_too_few_for_the_default_are_blamed_not_the_option() -> None:
    with pytest.raises(EigenmapError, match=r"has too few rows, 8, for 10 neighbours of each"):
        mutual_neighbours(vectors(8), 10)


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_labelled_rows_share_a_class(kind: str) -> None:
    numbers = np.arange(200) % 4 - 1  # -1: no label
    labels = numbers if kind == "numbers" else np.array(["", "a", "b", "c"])[numbers + 1]
    pairs = labelled(vectors(), labels)
    for i, j in ends(pairs.fit) | ends(pairs.held_out):
        assert i != j and numbers[i] == numbers[j] >= 0
    fit, held = things(pairs)
    assert fit.isdisjoint(held | {j for _, j in ends(pairs.held_out)})


def test_the_seed_decides_what_is_held_out() -> None:
    first, again, other = (partners(vectors(), vectors(seed=1), seed=s).held_out[0].i for s in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: partners(x, vectors(199, name="y")), "x has 200 rows and y .*199"),
        (lambda x: partners(x, x), "equals"),
        (lambda x: partners(vectors(20), vectors(20, seed=1)), "too few"),
        (lambda x: views(x, [vectors(d=7, name="a")]), "a has 7 .*one space"),
        (lambda x: views(x, [x]), "different view"),
        (lambda x: second(x, x), "another model"),
        (lambda x: indexed(x, np.array([[0, 1], [3, 200]])), "Pair 1 .* row 200; x has rows 0 to 199"),
        (lambda x: indexed(x, np.array([[-1, 1]])), "row -1"),
        (lambda x: indexed(x, np.stack([np.arange(200)] * 2, 1)), "joins a row with itself"),
        (lambda x: indexed(x, np.zeros((4, 3), int)), "two columns"),
        (lambda x: indexed(x, np.zeros((4, 2))), "two columns"),
        (lambda x: indexed(x, np.zeros((0, 2), int)), "pairs is empty"),
        (lambda x: indexed(x, np.ones((4, 2), int), np.ones(3)), "weights .*one per pair"),
        (lambda x: indexed(x, np.ones((4, 2), int), -np.ones(4)), "not negative"),
        (lambda x: labelled(x, np.zeros(200, int)), "two classes"),
        (lambda x: labelled(x, np.arange(200)), "larger classes"),
        (lambda x: labelled(x, np.zeros(199, int)), "labels.*199.*200 rows"),
        (lambda x: labelled(x, np.zeros(200)), "labels.*whole number"),
        (lambda x: mutual_neighbours(x, 200), "neighbours"),
    ],
)
def test_pairs_that_make_no_sense_are_refused(make: Any, says: str) -> None:
    with pytest.raises(EigenmapError, match=says):
        make(vectors())


def test_sides_that_differ_in_few_rows_are_not_called_equal() -> None:
    x = vectors(1000)
    y, z = x.array.copy(), vectors(1000, seed=1).array
    y[[401, 702]] = 0.0  # rows outside the sample that is compared first
    z[np.linspace(0, 999, 64).astype(int)] = 1.0
    assert len(partners(x, Vectors(y, "y")).held_out[0]) == 100
    assert mutual_neighbours(Vectors(z, "z")).kind == "neighbours"
    with pytest.raises(EigenmapError, match="Every row of z equals"):
        partners(x, Vectors(x.array.copy(), "z"))
    with pytest.raises(EigenmapError, match="All rows of z are the same"):
        mutual_neighbours(Vectors(np.ones_like(z), "z"))


def test_pairs_of_weight_0_are_as_if_not_listed() -> None:
    """A held-out search would otherwise have to find them, like documents that were shown and never clicked."""
    rng = np.random.default_rng(0)
    x, y = vectors(), vectors(seed=1)
    clicked = np.stack([np.arange(200), np.arange(200)], axis=1)
    shown = np.stack([np.repeat(np.arange(200), 3), rng.integers(0, 200, 600)], axis=1)
    weights = np.repeat([2.0, 0.0], [200, 600])
    found = indexed(x, np.concatenate([clicked, shown]), weights, y)
    wanted = indexed(x, clicked, np.full(200, 2.0), y)
    assert ends(found.fit) == ends(wanted.fit) and ends(found.held_out) == ends(wanted.held_out)
    assert found.count == wanted.count
    own = np.array([[0, 0], [1, 2]])
    with pytest.raises(EigenmapError, match="different rows has weight 0"):
        indexed(x, own, np.array([1.0, 0.0]))


@pytest.mark.parametrize("none", [None, float("nan"), "", -1])
def test_a_missing_label_is_no_class(none: object) -> None:
    labels = np.array(["cat", "dog", none, none] * 50, dtype=object)
    found = labelled(vectors(), labels)
    assert np.flatnonzero(found.labels == -1).tolist() == [row for row in range(200) if row % 4 > 1]
    assert not {i for i, _ in ends(found.fit) | ends(found.held_out)} & set(range(2, 200, 4))
    with pytest.raises(EigenmapError, match=r"None for none, not 0\.5"):
        labelled(vectors(), np.array([0.5, "dog"] * 100, dtype=object))


@pytest.mark.parametrize("scale", [1e-60, 1e60, 1e300])
def test_only_ratios_of_weights_matter(scale: float) -> None:
    rng = np.random.default_rng(0)
    pairs, weights = rng.integers(0, 200, (500, 2)), rng.uniform(1, 2, 500)
    plain, scaled = (indexed(vectors(), pairs, each, seed=1) for each in (weights, scale * weights))
    for one, other in ((plain.fit[0], scaled.fit[0]), (plain.held_out[0], scaled.held_out[0])):
        assert one.weights is not None and other.weights is not None
        with np.errstate(all="raise"):
            given = other.weights.astype(np.float32) ** 2
        np.testing.assert_allclose(given / given.sum(), one.weights**2 / (one.weights**2).sum(), rtol=1e-5)
