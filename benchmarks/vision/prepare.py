r"""Preparation of the .npz file of an image set.

    python -m benchmarks.vision.prepare tiny.npz --train TRAIN_FOLDER --test TEST_FOLDER --size 64
    python -m benchmarks.vision.prepare coco.npz --train train.parquet --test query.parquet --size 96
    python -m benchmarks.vision.prepare coco.npz --train TRAIN_FOLDER --train-labels train.csv \
        --test QUERY_FOLDER --test-labels query.csv --size 96

A source is a folder (its class folders are the labels), parquet files, an array file with labels, or images with a CSV
file `file,labels`. Images with one label each get class numbers, others a yes/no matrix; classes are those of both
parts, in the order of their names.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, Labels, load_images


def read(sources: list[Path], labels: Path | None, size: int) -> ImageSet:
    """Return the images of one part, in colour; all must be readable and labelled."""
    source = sources[0] if len(sources) == 1 else list(sources)
    images = load_images(source, size=size, channels=3, labels=labels, strict=True)
    if images.labels is None:
        raise EigenmapError(f"The images in {sources[0]} have no labels: give a CSV file with the columns file,labels.")
    return images


def arrays(train: ImageSet, test: ImageSet) -> dict[str, np.ndarray]:
    """Return both parts in the format of the study, with the same classes."""
    parts = {"train": train, "test": test}
    labels = {name: part.labels for name, part in parts.items() if part.labels is not None}
    names = sorted({name for part in labels.values() for name in part.names}, key=_place)
    found = {name: part.in_classes(names) for name, part in labels.items()}
    single = all(bool((part.matrix.sum(1) == 1).all()) for part in found.values())
    result = {f"{name}_x": part.pixels.permute(0, 2, 3, 1).contiguous().numpy() for name, part in parts.items()}
    return result | {f"{name}_y": _numbers(part) if single else part.matrix.numpy() for name, part in found.items()}


def _place(name: str) -> tuple[int, str]:
    """Where a class name is sorted: numbers by value, whether they come from folders or from parquet files."""
    return (int(name), name) if name.isdecimal() else (-1, name)


def _numbers(labels: Labels) -> np.ndarray:
    return labels.to_integers().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT.npz")
    parser.add_argument("--size", type=int, required=True, help="side of the images in pixels")
    for part in ("train", "test"):
        parser.add_argument(f"--{part}", type=Path, nargs="+", required=True, metavar="SOURCE")
        parser.add_argument(f"--{part}-labels", type=Path, metavar="FILE.csv")
    given = parser.parse_args()
    train = read(given.train, given.train_labels, given.size)
    test = read(given.test, given.test_labels, given.size)
    made = arrays(train, test)
    np.savez(given.out, **made)  # type: ignore[arg-type]
    print(given.out, {name: (*array.shape, str(array.dtype)) for name, array in made.items()})


if __name__ == "__main__":
    main()
