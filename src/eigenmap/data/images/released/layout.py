"""Image lists of released data sets, and errors about incomplete ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.labels import Labels


@dataclass(frozen=True)
class Listing:
    """Image files and their labels, in one order."""

    files: list[Path]
    labels: Labels

    def __len__(self) -> int:
        return len(self.files)

    def labelled(self) -> Listing:
        """Return the images that have at least one label."""
        rows = self.labels.matrix.any(1).nonzero().flatten()
        return Listing([self.files[row] for row in rows.tolist()], self.labels.subset(rows))

    def drawn(self, count: int, seed: int) -> Listing:
        """Return at most `count` randomly drawn images, in the order of the list."""
        if len(self) <= count:
            return self
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        rows = order[:count].sort().values
        return Listing([self.files[row] for row in rows.tolist()], self.labels.subset(rows))


@dataclass(frozen=True)
class Released:
    """A released set: `queries`, and the `gallery` in which they are searched."""

    gallery: Listing
    queries: Listing


@dataclass(frozen=True)
class Layout:
    """Expected files of a released set, for errors."""

    name: str
    expected: str

    def text(self, folder: Path, inside: str) -> str:
        """Read a text file of the set."""
        file = folder / inside
        if not file.is_file():
            raise self._missing(file, folder)
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self.damaged(file, str(error)) from error

    def damaged(self, file: Path, reason: str) -> EigenmapError:
        """Return an error about a file that cannot be parsed."""
        return EigenmapError(f"{file} is damaged ({reason}): extract {self.name} again.")

    def _missing(self, path: Path, folder: Path) -> EigenmapError:
        return EigenmapError(
            f"{path} does not exist: {folder} must contain {self.name} as released, with {self.expected}."
        )

    def require_images(self, folder: Path, inside: str, names: Sequence[str]) -> list[Path]:
        """Return the paths of listed images; raise if some are not there."""
        home = folder / inside
        if not home.is_dir():
            raise self._missing(home, folder)
        if not names:
            raise EigenmapError(f"{self.name} in {folder} lists no images for {inside}: extract it again.")
        for name in names:
            if name.startswith("/") or ".." in name.split("/") or "\0" in name:
                raise self.damaged(home, f"an image is called {name!r}")
        parts = [name.rpartition("/") for name in names]
        there = {place: _files_in(home / place) for place in {place for place, _, _ in parts}}
        absent = [name for name, (place, _, own) in zip(names, parts, strict=True) if own not in there[place]]
        if absent:
            raise EigenmapError(
                f"{len(absent):,} of {len(names):,} images of {self.name} are not in {home}, the first of them "
                f"{absent[0]}: extract it completely."
            )
        return [home / name for name in names]


def _files_in(folder: Path) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except OSError:
        return set()
