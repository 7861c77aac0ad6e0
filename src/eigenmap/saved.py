"""Files of a saved model: `model.json` and `model.safetensors`, written atomically and durably, verified by digest.

    write_model(directory, tensors, lambda digest: {"format": ..., "version": 1, "weights_sha256": digest, ...})
    about, tensors = read_model(directory, read_description)

New weights wait under another name until the description with their digest is in place: at that moment the new model
replaces the old one. Nothing in either file is executed when it is opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from eigenmap.core.digests import sha256
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_path, make_folder, sync_directory
from eigenmap.description import DESCRIPTION, WEIGHTS, description_text, read_any

WAITING = f".{WEIGHTS}.next"


def write_model(directory: Path, tensors: Mapping[str, Tensor], describe: Callable[[str], Mapping[str, Any]]) -> str:
    """Write the tensors and the description that `describe` returns for their digest; return the digest.

    An existing model stays intact until the new one is complete.
    """
    from safetensors.torch import save

    try:
        make_folder(directory)
        _finish_save(directory)
        with atomic_path(directory / WAITING) as partial:
            # Not save_file, which makes a file readable only by its owner.
            content = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
            partial.write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
        with atomic_path(directory / DESCRIPTION) as partial:
            partial.write_text(description_text(describe(digest)), encoding="ascii")
        (directory / WAITING).replace(directory / WEIGHTS)
        sync_directory(directory)
    except OSError as error:
        with suppress(OSError):
            _finish_save(directory)
        raise EigenmapError(f"The model cannot be written to {directory}: {error.strerror}.") from error
    return digest


def read_model(directory: Path, read: Callable[[Path], dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the description, read by `read`, and the weights of one model; retry if another model replaces it."""
    while True:
        about = read(directory)
        try:
            return about, read_weights(directory, about["weights_sha256"])
        except EigenmapError:
            if read(directory)["weights_sha256"] == about["weights_sha256"]:
                raise


def read_weights(directory: Path, digest: str) -> dict[str, Tensor]:
    """Return the weights with this digest, from the usual file or the one waiting beside it."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    path, content = weights_of(directory, digest)
    try:
        return load(content)
    except SafetensorError as error:
        raise EigenmapError(f"{path} is damaged: {error}; restore it, or fit the model again.") from error


class Weights(NamedTuple):
    """A weights file and its content, which was verified by digest and is used even if the file changes."""

    path: Path
    content: bytes


def weights_of(directory: Path, digest: str) -> Weights:
    """Find the weights with this digest, in the usual file or among those waiting to replace it."""
    usual, waiting = directory / WEIGHTS, directory / WAITING
    try:
        for path in (usual, waiting, usual):  # a save that completes meanwhile renames the second to the first
            with suppress(FileNotFoundError):
                content = path.read_bytes()
                if hashlib.sha256(content).hexdigest() == digest:
                    return Weights(path, content)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not usual.is_file():
        raise EigenmapError(f"{usual} is missing: the model directory is incomplete.")
    raise EigenmapError(f"{usual} is damaged: it does not match the {DESCRIPTION} beside it.")


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names start with `prefix`, under the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _finish_save(directory: Path) -> None:
    """Complete an interrupted save: waiting weights named by the description take their place, others are removed."""
    waiting = directory / WAITING
    if not waiting.is_file():
        return
    try:
        with waiting.open("rb") as file:
            named = read_any(directory)["weights_sha256"] == sha256(file)
    except EigenmapError:  # there is no model yet
        named = False
    if named:
        waiting.replace(directory / WEIGHTS)
        sync_directory(directory)
    else:
        waiting.unlink()
