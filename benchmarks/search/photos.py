"""Codes of photos, made on a CPU: `python -m benchmarks.search.photos --help`.

Of 10,000 training images and 1,000 test images of a set: by a model trained on the training images (recipe `laptop`),
or by EfficientNet-Lite0 (see `benchmarks.vectors.pictures`) and `fit_vectors`, which takes an image and its mirror
image as two views of one item. The codes of the training images are the gallery, those of the test images the queries.
Labels have no part in the codes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.common.codes import Floats
from benchmarks.search.ways import Ids
from benchmarks.vectors.pictures import features
from eigenmap import Eigenmap, fit_images, fit_vectors
from eigenmap.data.images.decode import Pixels

GALLERY, QUERIES = 10_000, 1000
COMPONENTS = 256


def chosen(count: int, most: int) -> Ids:
    """Up to `most` of `count` rows."""
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


def trained(gallery: Pixels, queries: Pixels) -> tuple[Eigenmap, Floats, Floats]:
    """A model of the images themselves, with the codes of gallery and queries."""
    model = fit_images(gallery, recipe="laptop", seed=0, device="cpu")
    return model, model.encode(gallery), model.encode(queries)


def pretrained(gallery: Pixels, queries: Pixels, weights: Path) -> tuple[Eigenmap, Floats, Floats]:
    """A model of the features of EfficientNet-Lite0, with the codes of gallery and queries."""
    mirrored = np.ascontiguousarray(gallery[:, :, ::-1])
    described, asked, again = (features(map(Image.fromarray, one), weights) for one in (gallery, queries, mirrored))
    model = fit_vectors(described, COMPONENTS, views=[again], seed=0, device="cpu", progress=False)
    return model, model.encode(described), model.encode(asked)


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    with np.load(given.images) as file:
        parts = {name: file[name] for name in ("train_x", "train_y", "test_x", "test_y")}
    first, second = chosen(len(parts["train_x"]), GALLERY), chosen(len(parts["test_x"]), QUERIES)
    images = parts["train_x"][first], parts["test_x"][second]
    model, gallery, queries = (
        trained(*images) if given.efficientnet is None else pretrained(*images, given.efficientnet)
    )
    np.savez(
        given.out,
        gallery=gallery.astype(np.float16),
        queries=queries.astype(np.float16),
        gallery_labels=parts["train_y"][first],
        query_labels=parts["test_y"][second],
        eigenvalues=model.eigenvalues_,
    )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("images", type=Path, help="an .npz file with train_x, train_y, test_x and test_y")
    made.add_argument("out", type=Path, help="the .npz file of codes to write")
    made.add_argument("--efficientnet", type=Path, help="the .pth file of efficientnet-lite0; default: train a model")
    return made


if __name__ == "__main__":
    main()
