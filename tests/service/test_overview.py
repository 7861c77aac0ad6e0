from __future__ import annotations

import base64

import numpy as np

from eigenmap.search import CodeIndex
from eigenmap.search.backend import ItemBatch
from eigenmap.service.overview import BINS, OTHER, Overview, sample


def items(n: int = 300, k: int = 6) -> ItemBatch:
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(n, k)).astype(np.float32)
    metadata = [{"label": f"l{i % 3}"} if i % 5 else {} for i in range(n)]
    return ItemBatch([f"i{j}" for j in range(n)], codes, metadata)


def test_each_feature_shows_its_ends_and_its_distribution() -> None:
    given = items()
    for j, feature in enumerate(Overview(given, features=4).gallery(shown=5)):
        column = given.codes[:, j]
        order = sorted(range(300), key=lambda i: column[i])
        assert feature.number == j + 1
        assert feature.least == order[:5] and feature.most == order[::-1][:5]
        assert (feature.low, feature.high) == (float(column.min()), float(column.max()))
        assert sum(feature.counts) == 300 and len(feature.counts) == BINS
        inside = (column >= feature.low) & (column < feature.low + (feature.high - feature.low) / BINS)
        assert feature.counts[0] == inside.sum()


def test_few_items_are_all_shown_at_both_ends() -> None:
    (feature,) = Overview(items(3, 1)).gallery(shown=8)
    assert sorted(feature.most) == sorted(feature.least) == [0, 1, 2]
    assert feature.most == feature.least[::-1]


def test_the_collection_is_sorted_by_a_feature() -> None:
    given = items()
    order = Overview(given).sorted_by(2)
    assert (np.diff(given.codes[order, 1]) <= 0).all() and sorted(order.tolist()) == list(range(300))


def test_the_map_holds_every_place() -> None:
    given = items()
    x, y = 3, 1
    found = Overview(given).map(x, y)
    steps = np.frombuffer(base64.b64decode(found.points), "<u2").reshape(-1, 2)
    for axis, (feature, (low, high)) in enumerate(((x, found.x_range), (y, found.y_range))):
        column = given.codes[:, feature - 1]
        assert (low, high) == (float(column.min()), float(column.max()))
        np.testing.assert_allclose(low + steps[:, axis] / 65535 * (high - low), column, atol=1e-4)


def test_a_feature_without_spread_has_a_place_too() -> None:
    flat = ItemBatch(["a", "b"], np.zeros((2, 2), np.float32), [{}, {}])
    assert base64.b64decode(Overview(flat).map(1, 2).points) == bytes(8)
    assert Overview(flat).class_codes() is None


def test_a_feature_that_is_constant_up_to_rounding_is_shown() -> None:
    """Of old the explorer of such vectors did not start: float32 has no room for the edges of 48 bins."""
    column = np.float32(0.7) + np.float32(6e-8) * (np.arange(50) % 2).astype(np.float32)
    (feature,) = Overview(ItemBatch(list(range(50)), column[:, None], [{}] * 50)).gallery()
    assert (feature.counts[0], feature.counts[-1]) == (25, 25) and sum(feature.counts) == 50


def test_items_have_the_class_of_their_label() -> None:
    view = Overview(items(30))
    codes = view.class_codes()
    assert view.classes == ["l0", "l1", "l2"] and codes is not None
    assert list(base64.b64decode(codes)) == [i % 3 if i % 5 else OTHER for i in range(30)]
    many = ItemBatch(
        [str(i) for i in range(40)], np.zeros((40, 1), np.float32), [{"label": f"{i % 20:02}"} for i in range(40)]
    )
    assert len(Overview(many).classes) == 10


def test_no_label_is_not_a_class() -> None:
    items = ItemBatch(["a", "b"], np.zeros((2, 1), np.float32), [{"label": None}, {"label": 0}])
    view = Overview(items)
    assert view.classes == ["0"] and base64.b64decode(view.class_codes() or "") == bytes([255, 0])


def test_a_sample_is_all_or_as_much_as_fits() -> None:
    given = items(50, 4)
    index = CodeIndex(4)
    index.add(given.codes, given.ids, given.metadata)
    whole = sample(index)
    assert sorted(whole.ids) == sorted(given.ids) and whole.ids != given.ids  # in random order
    for name, code, known in zip(whole.ids, whole.codes, whole.metadata, strict=True):
        row = given.ids.index(name)
        np.testing.assert_array_equal(code, given.codes[row])
        assert known == given.metadata[row]
    assert len(sample(index, most_items=20).ids) == 20
    assert len(sample(index, most_bytes=160).ids) == 10
