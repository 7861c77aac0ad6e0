"""Checks and preparation of a run's folder before training."""

from __future__ import annotations

from pathlib import Path

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import make_folder, require_writable, sync_directory
from eigenmap.model import CHECKPOINT, DESCRIPTION
from eigenmap.training import checkpoint
from eigenmap.training.checkpoint import Checkpoint
from eigenmap.training.run import METRICS_FILE, claim


def prepare(out: str | Path | None, *, resume: bool, force: bool) -> Path | None:
    """Return the output folder if it may be written to; nothing is created yet."""
    if out is None:
        if resume:
            raise EigenmapError("resume continues the run in a folder: give the folder as out=.")
        return None
    folder = a_path(out, "out")
    if resume and force:
        raise EigenmapError("resume continues an existing run and force replaces it: choose one.")
    if folder.exists() and not folder.is_dir():
        raise EigenmapError(f"{folder} is a file; choose a folder for the output.")
    if folder.is_dir() and any(folder.iterdir()) and not (resume or force):
        raise EigenmapError(f"{folder} exists and is not empty: choose another, or use force=True or resume=True.")
    require_writable(folder / DESCRIPTION)
    return folder


def clear_run(folder: Path) -> None:
    """Create the folder, and remove the checkpoint and metrics of an earlier run, unless it is still going on."""
    try:
        make_folder(folder)
        claimed = claim(folder)
        try:
            for name in (CHECKPOINT, METRICS_FILE):
                (folder / name).unlink(missing_ok=True)
            sync_directory(folder)
        finally:
            if claimed is not None:
                claimed.close()
    except OSError as error:
        raise EigenmapError(f"{folder} cannot be written to: {error.strerror}.") from error


def last_checkpoint(folder: Path | None, resume: bool) -> Checkpoint | None:
    """Return the checkpoint from which a run continues, or None if it starts from the beginning."""
    if folder is None or not resume or not (folder / CHECKPOINT).is_file():
        return None
    return checkpoint.load(folder / CHECKPOINT)
