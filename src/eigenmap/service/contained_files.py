"""Safe access to files inside a folder: no path leads out of it, and no file blocks when opened.

A name is resolved first, so that links within the folder work. Its components are then opened one by one without
following links: if one of them changes meanwhile, the caller gets an error, not another file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from eigenmap.core.files import FOLDER, NO_FOLLOW, PLAIN, open_regular

_FOLDER = os.O_RDONLY | FOLDER | NO_FOLLOW | PLAIN


@contextmanager
def opened_inside(folder: Path, name: str) -> Iterator[int]:
    """Open the regular file `name` in a folder for reading; raise OSError or ValueError if there is none.

    with opened_inside(Path("photos"), "holiday/beach.jpg") as descriptor:
        os.fstat(descriptor)
    """
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts:
        raise ValueError("the name leaves the folder")
    root = Path(os.path.realpath(folder, strict=True))
    *parents, last = Path(os.path.realpath(root / place, strict=True)).relative_to(root).parts or (".",)
    descriptor = os.open(root, _FOLDER)
    try:
        for parent in parents:
            inner = os.open(parent, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        file = open_regular(Path(last), folder=descriptor)
    finally:
        os.close(descriptor)
    try:
        yield file
    finally:
        os.close(file)
