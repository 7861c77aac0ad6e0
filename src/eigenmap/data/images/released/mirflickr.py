"""MIRFLICKR-25000: 38 annotations, 24 of potential and 14 of relevant labels."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.labels import Labels
from eigenmap.data.images.released.layout import Layout, Listing, Released

LAYOUT = Layout("MIRFLICKR-25000", "mirflickr/im1.jpg ... im25000.jpg and mirflickr25k_annotations_v080/*.txt")
ANNOTATIONS = "mirflickr25k_annotations_v080"
QUERIES = 2000
"""Number of queries. The set has no official split; 2,000 images, drawn with a fixed seed, are customary."""


def read_mirflickr(folder: Path, queries: int = QUERIES) -> Released:
    """Read 2,000 random images as queries and the others as gallery; omit images without annotations."""
    home = folder / ANNOTATIONS
    files = sorted(file for file in home.glob("*.txt") if "readme" not in file.name.lower())
    if not files:
        raise EigenmapError(f"{home} contains no annotations: {folder} must contain {LAYOUT.expected}.")
    numbers = {file.stem: _numbers(folder, file) for file in files}
    count = len(list((folder / "mirflickr").glob("im*.jpg")))
    names = [f"im{number}.jpg" for number in range(1, max(count, max(map(max, numbers.values()))) + 1)]
    images = LAYOUT.require_images(folder, "mirflickr", names)
    matrix = torch.zeros(len(images), len(numbers), dtype=torch.bool)
    for column, rows in enumerate(numbers.values()):
        matrix[torch.tensor(rows) - 1, column] = True
    every = Listing(images, Labels(matrix, list(numbers))).labelled()
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(0))
    asked, rest = (part.sort().values for part in (order[:queries], order[queries:]))
    if len(rest) == 0:
        raise EigenmapError(f"{folder} has {len(every):,} labelled images, too few for {queries:,} queries.")
    gallery, drawn = (
        Listing([every.files[i] for i in rows.tolist()], every.labels.subset(rows)) for rows in (rest, asked)
    )
    return Released(gallery, drawn)


def _numbers(folder: Path, file: Path) -> list[int]:
    """Return the numbers of the images that have an annotation, counted from 1."""
    words = LAYOUT.text(folder, f"{ANNOTATIONS}/{file.name}").split()
    if not words or not all(re.fullmatch("[1-9][0-9]{0,5}", word) for word in words):
        raise LAYOUT.damaged(file, "a line is not an image number")
    return [int(word) for word in words]
