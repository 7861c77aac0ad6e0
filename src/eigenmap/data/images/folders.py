"""Search for image files in a folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.decode import EXTENSIONS


@dataclass
class Folder:
    """Content of a folder at any depth, as sorted relative paths without hidden files."""

    root: Path
    images: list[str] = field(default_factory=list)
    parquet: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)

    def without_images(self) -> EigenmapError:
        """Return an error that says what is in the folder instead of images."""
        if not self.others:
            return EigenmapError(f"the folder {self.root} is empty")
        kinds = Counter(Path(name).suffix.lower() or "no extension" for name in self.others)
        listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common(3))
        files = f"{len(self.others):,} other file{'' if len(self.others) == 1 else 's'}"
        return EigenmapError(f"the folder {self.root} contains no images, only {files} ({listed})")


def list_folder(root: Path) -> Folder:
    """List a folder at any depth by file extension, following links.

    >>> list_folder(Path("photos")).images  # doctest: +SKIP
    ['2023/beach.jpg', '2024/hill.png']
    """
    folder = Folder(root)
    for name in _walk(root, "", (), folder.closed):
        suffix = _suffix(name)
        kind = folder.images if suffix in EXTENSIONS else folder.parquet if suffix == ".parquet" else folder.others
        kind.append(name)
    if any(name == "" for name, _ in folder.closed):
        raise EigenmapError(f"the folder {root} cannot be listed: {folder.closed[0][1]}")
    return folder


def walk_images(root: Path, closed: list[tuple[str, str]] | None = None) -> Iterator[str]:
    """Yield the names that `list_folder(root).images` lists, in the same order, without storing them.

    Folders that cannot be opened are added to `closed` with the reason.
    """
    for name in _walk(root, "", (), [] if closed is None else closed):
        if _suffix(name) in EXTENSIONS:
            yield name


def require_files(paths: Sequence[Path], names: Sequence[str]) -> None:
    """Refuse paths that are not regular files; a FIFO or device would block or never end."""
    absent = []
    for path, name in zip(paths, names, strict=True):
        if not path.is_file():
            if path.exists():
                raise EigenmapError(f"{name} is {'a folder, not a file' if path.is_dir() else 'not a regular file'}")
            absent.append(name)
    if absent:
        shown = ", ".join(absent[:3]) + (", ..." if len(absent) > 3 else "")
        raise EigenmapError(f"{len(absent):,} of {len(names):,} image files cannot be found: {shown}")


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 - a million names, no Path for each


def _walk(root: Path, inner: str, above: tuple[tuple[int, int], ...], closed: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the paths of visible files, sorted; ``above`` are the enclosing folders, so that links cannot loop."""
    here = root / inner
    try:
        status = here.stat()
        with os.scandir(here) as entries:
            # With its slash, a folder sorts where the paths of its files do: "a-b.jpg" before "a/x.jpg".
            listed = sorted(
                (f"{entry.name}/" if entry.is_dir() else entry.name, entry)
                for entry in entries
                if not entry.name.startswith(".")
            )
    except OSError as error:
        closed.append((inner, error.strerror or str(error)))
        return
    key = (status.st_dev, status.st_ino)
    if key in above:
        return
    for key_name, entry in listed:
        name = f"{inner}/{entry.name}" if inner else entry.name
        if key_name.endswith("/"):
            yield from _walk(root, name, (*above, key), closed)
        elif entry.is_file() or entry.is_symlink():  # a broken link is listed and then skipped with its reason
            yield name
