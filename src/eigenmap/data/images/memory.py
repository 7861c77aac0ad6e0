"""Memory for the pixels of an image set: RAM if they fit, else a memory-mapped file.

The file is in the folder for temporary files (`TMPDIR`), has no name, and disappears when the program ends. Images are
decoded once; after that, an epoch reads the file once, from the page cache if possible.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError

SHARE_OF_MEMORY = 0.5
"""Share of the memory above which pixels go to a file."""


def allocate_pixels(n: int, channels: int, size: int) -> Tensor:
    """Return an empty uint8 tensor (n, channels, size, size), or raise an error that says how much space is missing."""
    needed, memory = n * channels * size * size, memory_bytes()
    if memory is None or needed <= SHARE_OF_MEMORY * memory:
        return torch.empty(n, channels, size, size, dtype=torch.uint8)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise EigenmapError(
            f"{n:,} images of {size} pixels need {needed / 1e9:,.0f} GB; this machine has {memory / 1e9:,.0f} GB of "
            f"memory, and {free / 1e9:,.0f} GB are free in {folder}: choose a smaller size, or set TMPDIR to a folder "
            "with more space"
        )
    with tempfile.TemporaryFile(dir=folder) as file:
        return torch.from_numpy(np.memmap(file, np.uint8, "w+", shape=(n, channels, size, size)))


def memory_bytes() -> int | None:
    """Return the memory of this machine in bytes, or None if unknown."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
