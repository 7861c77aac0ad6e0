"""Each code is scored as `retrieval` scores it, with codes that a few lines of NumPy make."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap, EigenmapError, fit_images
from eigenmap.data import ImageSet
from eigenmap.data.images import catalogue
from eigenmap.evaluation.baselines import compare, compare_random, network_outputs, same_classes, split_queries
from eigenmap.evaluation.retrieval import retrieval


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return catalogue.load("train").subset(range(120))


@pytest.fixture(scope="module")
def model(images: ImageSet) -> Eigenmap:
    return fit_images(images, 16, steps=3, batch_size=64, hidden=32, device="cpu", progress=False)


def test_pixels_and_their_components_are_what_numpy_makes(model: Eigenmap, images: ImageSet) -> None:
    gallery, queries = split_queries(images)
    scores = compare(model, gallery, queries, top=[10])
    flat, asked = (part.pixels.flatten(1).numpy().astype(np.float64) / 255 for part in (gallery, queries))
    axes = np.linalg.svd(flat - flat.mean(0), full_matrices=False)[2][:8].T
    labels = (queries.labels.matrix, gallery.labels.matrix)  # type: ignore[union-attr]
    (expected,) = retrieval((asked - flat.mean(0)) @ axes, (flat - flat.mean(0)) @ axes, *labels, [8], [10])
    assert scores["pixel-pca"][2] == pytest.approx(expected, abs=1e-6)
    (raw,) = retrieval(asked, flat, *labels, [784], [10])
    assert scores["pixels"] == [pytest.approx(raw, abs=1e-6)]
    (ours,) = retrieval(model.encode(queries.pixels), model.encode(gallery.pixels), *labels, [4], [10])
    assert scores["ours"][1] == ours


def test_pixels_can_be_left_out(model: Eigenmap, images: ImageSet) -> None:
    assert set(compare(model, *split_queries(images), top=[10], pixels=False)) == {"ours", "encoder-pca"}


def test_random_order_has_a_spread(model: Eigenmap, images: ImageSet) -> None:
    parts = split_queries(images)
    rows = compare_random(model, *parts, top=[10], draws=3)
    assert compare(model, *parts, top=[10], pixels=False, draws=3)["random"] == rows
    assert [row["dim"] for row in rows] == [2, 4, 8, 16]
    assert rows[0]["precision@10_spread"] > 0 and rows[-1]["precision@10_spread"] == 0


def test_outputs_are_those_of_the_network(model: Eigenmap, images: ImageSet) -> None:
    features, psi = network_outputs(model, images.pixels[:5], batch_size=2)
    with torch.no_grad():
        expected = model.network(model.image(images.pixels[:5]))
    torch.testing.assert_close((features, psi), tuple(expected))


def test_queries_are_taken_out_of_the_gallery(images: ImageSet) -> None:
    gallery, queries = split_queries(images, most=1000, share=0.25, seed=3)
    assert len(queries) == 30
    assert sorted([*gallery.ids, *queries.ids]) == sorted(images.ids)
    assert split_queries(images, share=0.25, seed=3)[1].ids == queries.ids
    assert len(split_queries(images, most=7)[1]) == 7
    with pytest.raises(EigenmapError, match="gallery and queries"):
        split_queries(images.subset([0]))


def test_labels_are_needed_and_have_to_meet(images: ImageSet) -> None:
    bare = ImageSet(images.pixels, images.ids)
    with pytest.raises(EigenmapError, match="no labels"):
        same_classes(bare, images)
    shirts, trousers = (images.subset(range(start, 100, 10)) for start in (0, 1))
    assert same_classes(shirts, images)[0].shape == (10, 10)
    from eigenmap.data.images.labels import Labels

    named = ImageSet(trousers.pixels, trousers.ids, Labels.from_names(["hat"] * 10))
    with pytest.raises(EigenmapError, match="no class"):
        same_classes(named, images)
