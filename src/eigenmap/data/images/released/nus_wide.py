"""NUS-WIDE: the 21 most frequent of its 81 concepts, as in the literature on retrieval."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from eigenmap.data.images.labels import Labels
from eigenmap.data.images.released.layout import Layout, Listing, Released

LAYOUT = Layout(
    "NUS-WIDE",
    "ConceptsList/Concepts81.txt, ImageList/TrainImagelist.txt and TestImagelist.txt, "
    "Groundtruth/TrainTestLabels/Labels_CONCEPT_Train.txt and _Test.txt, Flickr/CONCEPT/*.jpg",
)
CLASSES = 21


def read_nus_wide(folder: Path, classes: int = CLASSES) -> Released:
    """Read the official training list as gallery and the test list as queries.

    Both keep only images with one of the most frequent concepts: 195,834 of 269,648 have one of the 21.
    """
    concepts = LAYOUT.text(folder, "ConceptsList/Concepts81.txt").split()
    names = {part: _images(folder, part) for part in ("Train", "Test")}
    marks = {
        part: torch.stack([_marks(folder, concept, part, len(names[part])) for concept in concepts], 1)
        for part in names
    }
    counts = sum(mark.sum(0) for mark in marks.values())
    assert isinstance(counts, Tensor)
    kept = torch.argsort(counts, descending=True, stable=True)[:classes].sort().values
    chosen = [concepts[number] for number in kept.tolist()]

    def listing(part: str) -> Listing:
        files = LAYOUT.require_images(folder, "Flickr", names[part])
        return Listing(files, Labels(marks[part][:, kept], chosen)).labelled()

    return Released(listing("Train"), listing("Test"))


def _images(folder: Path, part: str) -> list[str]:
    """Return the listed images; the lists use backslashes."""
    lines = LAYOUT.text(folder, f"ImageList/{part}Imagelist.txt").splitlines()
    return [line.strip().replace("\\", "/") for line in lines if line.strip()]


def _marks(folder: Path, concept: str, part: str, count: int) -> Tensor:
    """Return whether each listed image shows the concept, from one 0 or 1 per line."""
    inside = f"Groundtruth/TrainTestLabels/Labels_{concept}_{part}.txt"
    words = LAYOUT.text(folder, inside).split()
    if not set(words) <= {"0", "1"}:
        raise LAYOUT.damaged(folder / inside, "a line is neither 0 nor 1")
    if len(words) != count:
        raise LAYOUT.damaged(folder / inside, f"it has {len(words):,} lines for {count:,} images")
    return torch.tensor([word == "1" for word in words])
