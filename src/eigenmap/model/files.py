"""Files of a saved `Eigenmap`: fingerprint, path of the weights, copies."""

from __future__ import annotations

import shutil
from pathlib import Path

from eigenmap.core.errors import EigenmapError
from eigenmap.description import DESCRIPTION, WEIGHTS, read_description
from eigenmap.saved import WAITING, weights_of


def fingerprint(directory: Path) -> str:
    """Return the digest of the weights, which identifies a saved model."""
    return str(read_description(directory)["weights_sha256"])


def weights_file(directory: Path) -> Path:
    """Return the path of the weights: the usual file, or the one beside it if a save was interrupted."""
    waits = (directory / WAITING).is_file()
    return weights_of(directory, fingerprint(directory)).path if waits else directory / WEIGHTS


def copy_model(directory: Path, to: Path) -> str:
    """Copy the two files of a model, and nothing else, into a new folder; return the model's fingerprint."""
    digest = fingerprint(directory)
    weights = weights_of(directory, digest)
    to.mkdir()
    shutil.copyfile(directory / DESCRIPTION, to / DESCRIPTION)
    (to / WEIGHTS).write_bytes(weights.content)
    if fingerprint(to) != digest:
        raise EigenmapError(f"The model in {directory} was replaced during the copy; run the same command again.")
    return digest
