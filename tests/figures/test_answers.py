"""What is shown was found by ranking, and chosen without looking at the result."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap, fit_images
from eigenmap.data import ImageSet
from eigenmap.data.images import catalogue
from eigenmap.data.images.labels import Labels
from eigenmap.figures.answers import find_answers, first_of_each_class, name_of


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return catalogue.load("train").subset(range(100))


@pytest.fixture(scope="module")
def model(images: ImageSet) -> Eigenmap:
    return fit_images(images, 16, steps=3, batch_size=64, hidden=32, device="cpu", progress=False)


def test_hits_are_the_nearest_by_the_cosine_of_cut_codes(model: Eigenmap, images: ImageSet) -> None:
    queries = catalogue.load("query").subset([3, 4])
    answers = find_answers(model, images, queries, dims=(4, 8, 64), top=5)
    assert [list(answer.hits) for answer in answers] == [[4, 8], [4, 8]]  # the model has 16 features
    codes, asked = model.encode(images.pixels).astype(np.float64), model.encode(queries.pixels).astype(np.float64)
    for query, answer in enumerate(answers):
        assert answer.label == queries.labels.names[(3, 4)[query]]  # type: ignore[union-attr]
        for dim, hits in answer.hits.items():
            cut, q = codes[:, :dim], asked[query, :dim]
            nearest = np.argsort(-(cut @ q) / np.linalg.norm(cut, axis=1), kind="stable")[:5]
            for hit, row in zip(hits, nearest, strict=True):
                assert (hit.picture == images.pixels[row, 0].numpy()).all()
                assert hit.right == (row % 10 == (3, 4)[query])


def test_without_labels_nobody_knows_what_is_right(model: Eigenmap, images: ImageSet) -> None:
    bare = ImageSet(images.pixels, images.ids)
    (answer,) = find_answers(model, bare, bare.subset([7]), dims=(4,), top=3)
    assert answer.label == images.ids[7]
    assert [hit.right for hit in answer.hits[4]] == [None] * 3
    assert answer.hits[4][0].label == images.ids[7]


def test_queries_are_the_first_of_classes_spread_over_them(images: ImageSet) -> None:
    assert first_of_each_class(images, most=4) == [0, 3, 6, 9]
    assert first_of_each_class(images.subset([5, 15, 2]), most=4) == [2, 0]
    assert first_of_each_class(ImageSet(images.pixels, images.ids), most=3) == [0, 50, 99]


def test_names_of_several_labels_and_of_none() -> None:
    labels = Labels.from_names([["cat", "dog"], []])
    images = ImageSet(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), ["a/1.png", "2.png"], labels)
    assert (name_of(images, 0), name_of(images, 1)) == ("cat, dog", "2.png")
