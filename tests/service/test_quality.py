from __future__ import annotations

import numpy as np

from eigenmap.search.backend import ItemBatch
from eigenmap.service.quality import measure_quality


def average_precision(hits: list[bool]) -> float:
    precisions = [sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit]
    return sum(precisions) / len(precisions) if precisions else 0.0


def items(n: int, k: int, labels: list[str]) -> ItemBatch:
    rng = np.random.default_rng(0)
    centres = {label: rng.normal(size=k) * np.linspace(2, 0, k) for label in sorted(set(labels))}
    codes = np.stack([centres[label] + rng.normal(size=k) for label in labels]).astype(np.float32)
    return ItemBatch([str(i) for i in range(n)], codes, [{"label": label} for label in labels])


def test_map_is_that_of_a_slow_loop() -> None:
    labels = [f"class {i % 4}" for i in range(200)]  # a space is part of the name
    given = items(200, 8, labels)
    found = measure_quality(given, several=False)
    assert found is not None
    assert (found.dims, found.queries, found.gallery) == ([1, 2, 4, 8], 50, 150)
    for dim, value in zip(found.dims, found.ordered, strict=True):
        cut = given.codes[:, :dim].astype(np.float64)
        cut /= np.linalg.norm(cut, axis=1, keepdims=True)
        scores = []
        for q in range(50):
            order = sorted(range(50, 200), key=lambda i: (-float(np.float32(cut[q] @ cut[i])), i))[:100]
            scores.append(average_precision([labels[i] == labels[q] for i in order]))
        assert abs(np.mean(scores) - value) < (0.02 if dim == 1 else 2e-4)  # at one feature everything ties
    assert found.random[-1] == found.ordered[-1]  # all features are all features


def test_two_items_belong_together_if_they_share_one_of_several_labels() -> None:
    labels = [["cat", "cat dog", "bird"][i % 3] for i in range(60)]
    given = items(60, 4, labels)
    apart, together = measure_quality(given, several=False), measure_quality(given, several=True)
    assert apart is not None and together is not None
    assert together.ordered[-1] > apart.ordered[-1]


def test_without_labels_there_is_nothing_to_measure() -> None:
    given = items(20, 4, ["a"] * 20)
    assert measure_quality(given, several=False) is None  # one label says nothing
    assert measure_quality(given._replace(metadata=[{}] * 20), several=False) is None
    assert measure_quality(ItemBatch(["a"], given.codes[:1], [{"label": "a"}]), several=False) is None
