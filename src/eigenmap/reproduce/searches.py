"""Search tasks for a trained network: queries, and a gallery to search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, load_images
from eigenmap.data.images.released import RELEASED, Listing, Released, read_released
from eigenmap.reproduce.methods import Scale, recipe_of
from eigenmap.reproduce.sets import Sets

MOST_QUERIES = 5000
"""Maximum number of queries; of more, this many are drawn with a fixed seed."""


@dataclass(frozen=True)
class Search:
    """Queries, the gallery, and the number of results that count."""

    name: str
    gallery: ImageSet
    queries: ImageSet
    top: int

    def truth(self) -> tuple[Tensor, Tensor]:
        """Return the labels of queries and gallery, with the classes of the gallery."""
        assert self.gallery.labels is not None and self.queries.labels is not None
        return self.queries.labels.in_classes(self.gallery.labels.names).matrix, self.gallery.labels.matrix


def own_search(sets: Sets, top: int) -> Search:
    """Return the search with test images as queries and training images as the gallery."""
    return Search("own", sets.train, sets.test, top)


def parse_searches(given: list[str]) -> dict[str, Path]:
    """Parse `NAME=DIR` pairs.

    >>> parse_searches(["coco=COCO/"])
    {'coco': PosixPath('COCO')}
    """
    found: dict[str, Path] = {}
    for pair in given:
        name, equals, folder = pair.partition("=")
        if not equals or not folder or name not in RELEASED:
            raise EigenmapError(f"search= takes NAME=DIR with one of {', '.join(RELEASED)}, not {pair!r}.")
        if name in found:
            raise EigenmapError(f"search= names {name} twice; give it once.")
        found[name] = Path(folder)
    return found


def check_searches(scale: Scale, given: list[str]) -> dict[str, Released]:
    """Read the lists of the sets that were asked for, before images are read; the paper's scale needs at least one."""
    folders = parse_searches(given)
    if scale == "paper" and not folders:
        raise EigenmapError(
            "scale=paper searches released sets: give one as search=, such as coco=DIR, or another of "
            + ", ".join(RELEASED)
            + "."
        )
    return {name: read_released(name, folder) for name, folder in folders.items()}


def load_search(name: str, folder: Path, scale: Scale, progress: Callable[[int, int], object] | None = None) -> Search:
    """Read a released set at the image size of a scale."""
    lists = read_released(name, folder)
    recipe = recipe_of("ordered", scale)
    size = recipe.read_size or recipe.image_size

    def images(listing: Listing) -> ImageSet:
        return load_images(list(listing.files), size, 3, labels=listing.labels, progress=progress)

    return Search(name, images(lists.gallery), images(lists.queries.drawn(MOST_QUERIES, seed=0)), RELEASED[name].top)


def load_searches(
    scale: Scale, sets: Sets, given: list[str], top: int, progress: Callable[[int, int], object] | None = None
) -> list[Search]:
    """Read the requested sets; without any, the test images are searched for in the training images."""
    folders = parse_searches(given)
    if not folders:
        return [own_search(sets, top)]
    return [load_search(name, folder, scale, progress) for name, folder in folders.items()]
