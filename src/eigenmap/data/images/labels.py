"""Labels: classes of images (none, one or several) and their sources."""

from __future__ import annotations

import csv
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError


@dataclass(frozen=True, eq=False)
class Labels:
    """Class membership of N images: ``matrix[i, c]`` is true if image i belongs to class ``names[c]``.

    A single label is a row with one true entry; an unlabelled image is a row with none.

    Example:
        >>> labels = Labels.from_names([["cat"], ["cat", "dog"], []])
        >>> labels.names, labels.matrix.int().tolist()
        (['cat', 'dog'], [[1, 0], [1, 1], [0, 0]])

    """

    matrix: Tensor
    names: list[str]

    def __post_init__(self) -> None:
        if self.matrix.dtype != torch.bool or self.matrix.ndim != 2 or self.matrix.shape[1] != len(self.names):
            raise EigenmapError("labels are a bool matrix (images, classes) with one name per class")

    @classmethod
    def from_names(cls, rows: Sequence[str | Sequence[str]]) -> Labels:
        """Build labels from one class name per image, or one list of names per image."""
        lists = [[row] if isinstance(row, str) else list(row) for row in rows]
        names = sorted({name for row in lists for name in row})
        column = {name: c for c, name in enumerate(names)}
        matrix = torch.zeros(len(lists), len(names), dtype=torch.bool)
        for i, row in enumerate(lists):
            matrix[i, [column[name] for name in row]] = True
        return cls(matrix, names)

    @classmethod
    def from_integers(cls, values: Tensor | npt.ArrayLike, names: Sequence[str] | None = None) -> Labels:
        """Build labels from one integer per image; a negative one means "unlabelled".

        With ``names`` the integers are positions in it; otherwise classes are named after the integers that occur.
        """
        y = np.asarray(values)
        if y.ndim != 1 or y.dtype.kind not in "iu":
            raise EigenmapError(f"integer labels are one integer per image, not {y.dtype} of shape {y.shape}")
        classes = np.unique(y[y >= 0]) if names is None else np.arange(len(names))
        if names is not None and len(y) and y.max() >= len(names):
            raise EigenmapError(f"label {y.max()} has no name: {len(names)} names are given")
        return cls(
            torch.from_numpy(y[:, None] == classes),
            [str(name) for name in (classes if names is None else names)],
        )

    @classmethod
    def from_array(cls, values: Any) -> Labels:
        """Build labels from an array of any supported form.

        One integer or one name per image, one list of names per image, or a 0/1 matrix (images, classes).
        """
        if isinstance(values, (list, tuple)) and values and isinstance(values[0], (list, tuple, set, frozenset)):
            return cls.from_names([[str(name) for name in row] for row in values])
        y = np.asarray(values.cpu() if isinstance(values, Tensor) else values)
        if y.ndim == 2 and y.shape[1] == 1 and y.dtype.kind != "b":
            y = y[:, 0]
        if y.ndim == 1 and y.dtype.kind in "US":
            return cls.from_names([str(name) for name in y.astype(str)])
        if y.ndim == 2 and y.dtype.kind in "iubf" and np.isin(y, (0, 1)).all():
            return cls(torch.from_numpy(y.astype(bool)), [str(c) for c in range(y.shape[1])])
        return cls.from_integers(y)

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.names)

    def subset(self, indices: Tensor) -> Labels:
        """Return the labels at these positions, in this order; the classes stay."""
        return Labels(self.matrix[indices.to(self.matrix.device)], self.names)

    def part(self, start: int, stop: int) -> Labels:
        """Return the labels from `start` to `stop`; the classes stay."""
        return Labels(self.matrix[start:stop], self.names)

    def rows(self) -> list[list[str]]:
        """Return the class names of each image.

        >>> Labels.from_names([["cat", "dog"], []]).rows()
        [['cat', 'dog'], []]
        """
        return [[self.names[c] for c in row.nonzero()[:, 0].tolist()] for row in self.matrix]

    def to_integers(self) -> Tensor:
        """Return one class number per image (int64), -1 for none; refuse images with several labels."""
        if bool((self.matrix.sum(1) > 1).any()):
            raise EigenmapError("some images have several labels, but exactly one per image is needed here")
        if not self.names:
            return torch.full((len(self),), -1)
        return torch.where(self.matrix.any(1), self.matrix.int().argmax(1), -1)

    def in_classes(self, names: Sequence[str]) -> Labels:
        """Return the same labels in other columns: the classes ``names``, in that order."""
        column = {name: c for c, name in enumerate(self.names)}
        matrix = torch.zeros(len(self), len(names), dtype=torch.bool, device=self.matrix.device)
        for c, name in enumerate(names):
            if name in column:
                matrix[:, c] = self.matrix[:, column[name]]
        return Labels(matrix, list(names))

    def relevant(self, other: Labels) -> Tensor:
        """Return a bool matrix (len(self), len(other)): whether two images share at least one class.

        Classes are matched by name, so the two sets may come from different folders. For a large ``self`` process it in
        blocks: ``labels.subset(rows).relevant(gallery)``.
        """
        mine = self.in_classes(other.names).matrix.float()
        return mine @ other.matrix.float().T > 0.5


def labels_from_folders(ids: Sequence[str]) -> Labels | None:
    """Return labels from class folders, the first part of each path; None unless every file is in a folder.

    Example:
        >>> labels_from_folders(["cat/1.jpg", "cat/more/2.jpg", "dog/1.jpg"]).names
        ['cat', 'dog']

    """
    if not ids or not all("/" in name.strip("/") for name in ids):
        return None
    return Labels.from_names([class_folder(name) for name in ids])


def class_folder(name: str) -> str:
    """Return the first part of a path."""
    return PurePosixPath(name.strip("/")).parts[0]


def labels_from_csv(path: str | Path, ids: Sequence[str], missing: Literal["error", "unlabelled"] = "error") -> Labels:
    """Read labels from a CSV file with the header ``file,labels``, several labels separated by spaces.

    A file is matched by its path relative to the image folder or, if only one image has it, by its bare name. An empty
    ``labels`` cell means "none of the classes". A row that matches no image is an error, and so is an image without a
    row, since it would silently count as relevant to nothing; ``missing="unlabelled"`` allows the latter.
    """
    table = _read_table(Path(path))
    found, absent = _match(table, ids, Path(path))
    if absent:
        raise EigenmapError(f"{path} lists {_count(absent, 'file')} that {_are(absent)} not among the images")
    bare = [name for i, name in enumerate(ids) if i not in found]
    if bare and missing == "error":
        raise EigenmapError(
            f"{_count(bare, 'image')} {'has' if len(bare) == 1 else 'have'} no row in {path}; "
            "add one with an empty label cell for each image that belongs to no class"
        )
    return Labels.from_names([found.get(i, []) for i in range(len(ids))])


_BEYOND = "\0 beyond the header"


def _read_table(path: Path) -> dict[str, list[str]]:
    """Read ``file -> labels`` from the CSV file; the columns may be in any order, among others."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, restkey=_BEYOND, skipinitialspace=True)
            header = [name.strip().lower() for name in reader.fieldnames or []]
            reader.fieldnames = header
            column = next((name for name in ("labels", "label") if name in header), None)
            if "file" not in header or column is None:
                raise EigenmapError(f"{path} must begin with the header line 'file,labels'")
            table: dict[str, list[str]] = {}
            for row in reader:
                beyond = row.pop(_BEYOND, None) or ()  # DictReader's list of cells without a header
                name = _normal(row["file"] or "")
                if any(beyond):
                    raise EigenmapError(
                        f"{path} has more cells than its header in the row of {name or 'no file'}: separate the labels "
                        "of a file by spaces"
                    )
                if not name:
                    if any(cell and cell.strip() for cell in row.values()):
                        raise EigenmapError(f"{path} has a row without a file, line {reader.line_num}")
                    continue
                if name in table:
                    raise EigenmapError(f"{path} has two rows for {name}; put all labels of a file in one row")
                table[name] = (row[column] or "").split()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise EigenmapError(f"the label file {path} cannot be read: {reason}") from None
    return table


def _match(table: dict[str, list[str]], ids: Sequence[str], path: Path) -> tuple[dict[int, list[str]], list[str]]:
    """Find the image of every row; return {position: labels} and the names without a match."""
    by_path = {_normal(name): i for i, name in enumerate(ids)}
    by_name: dict[str, list[int]] = defaultdict(list)
    for i, name in enumerate(ids):
        by_name[PurePosixPath(_normal(name)).name].append(i)
    found: dict[int, list[str]] = {}
    absent = []
    for name, labels in table.items():
        matches = [by_path[name]] if name in by_path else by_name.get(name, [])
        if len(matches) > 1:
            raise EigenmapError(f"{path} lists {name}, but {len(matches)} images have this name; give its folder too")
        if not matches:
            absent.append(name)
        elif matches[0] in found:
            raise EigenmapError(f"{path} has two rows for {ids[matches[0]]}; put all labels of a file in one row")
        else:
            found[matches[0]] = labels
    return found, absent


def _normal(name: str) -> str:
    """Normalise a path: forward slashes, no leading './', composed accents (macOS splits them)."""
    name = unicodedata.normalize("NFC", name.strip().replace("\\", "/"))
    return str(PurePosixPath(name)) if name else ""


def _count(names: Sequence[str], noun: str) -> str:
    """Format a number of names with examples: '1 file (a.jpg)', '12 files (a.jpg, b.jpg, c.jpg, ...)'."""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names):,} {noun}{'' if len(names) == 1 else 's'} ({shown})"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
