"""Construction of the embedded catalogue from the four files of Fashion-MNIST.

    python -m benchmarks.catalogue.make FOLDER [--out src/eigenmap/data/images/catalogue]

FOLDER contains train-images-idx3-ubyte.gz and the other three files; Debian's package dataset-fashion-mnist installs
them in /usr/share/datasets/fashion-mnist. The SHA-256 of every sheet and of its pixels is printed. The pixels are
always the same; the file also depends on the versions of Pillow and zlib.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

SEED = 2017
CLASSES = 10
COLUMNS = 100

Pixels = npt.NDArray[np.uint8]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("src/eigenmap/data/images/catalogue"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    seen: set[bytes] = set()
    query = choose(*read(arguments.folder, "t10k"), per_class=100, seen=seen)
    rest = choose(*read(arguments.folder, "train"), per_class=1100, seen=seen)
    # Both stay balanced: ten consecutive images contain every class once.
    for split, images in {"train": rest[:10_000], "validation": rest[10_000:], "query": query}.items():
        file = arguments.out / f"{split}.png"
        Image.fromarray(sheet(images)).save(file, optimize=True)
        content = file.read_bytes()
        print(f"{file.name:15} {len(images):6} images {len(content):9} bytes")
        print(f"  file    {hashlib.sha256(content).hexdigest()}")
        print(f"  pixels  {hashlib.sha256(images.tobytes()).hexdigest()}")


def read(folder: Path, part: str) -> tuple[Pixels, Pixels]:
    """Read images (N, 28, 28) and classes (N,) from a pair of gzipped IDX files."""
    images = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
    classes = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    return (
        np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28),
        np.frombuffer(classes, np.uint8, offset=8),
    )


def choose(images: Pixels, classes: Pixels, per_class: int, seen: set[bytes]) -> Pixels:
    """Draw images at random, none twice and none in ``seen``; image i of the result has class i mod 10."""
    # Sorting raw numbers of the bit generator draws the same images with every version of NumPy.
    order = np.argsort(np.random.PCG64(SEED).random_raw(len(images)))
    chosen: list[list[Pixels]] = [[] for _ in range(CLASSES)]
    for i in order:
        key = hashlib.sha256(images[i].tobytes()).digest()
        if len(chosen[classes[i]]) < per_class and key not in seen:
            seen.add(key)
            chosen[classes[i]].append(images[i])
    return np.stack([chosen[c][row] for row in range(per_class) for c in range(CLASSES)])


def sheet(images: Pixels) -> Pixels:
    """Lay the images out as tiles in reading order."""
    n, height, width = images.shape
    tiles = images.reshape(n // COLUMNS, COLUMNS, height, width)
    return tiles.swapaxes(1, 2).reshape(n // COLUMNS * height, COLUMNS * width)


if __name__ == "__main__":
    main()
