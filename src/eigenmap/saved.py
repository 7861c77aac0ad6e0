"""The files of a saved model: `model.json` and `model.safetensors`, written atomically and durably, read by digest.

    write_model(directory, tensors, lambda digest: {"format": ..., "version": 1, "weights_sha256": digest, ...})
    about, tensors = read_model(directory, read_description)

Weights wait under another name until the description that names their digest is in place: that is the moment at which
the new model replaces the old one. Nothing in either file executes when it is opened.
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
    """Write the tensors and what `describe` says of them, given their digest, which is returned.

    A model that was there stays whole until the new one is.
    """
    from safetensors.torch import save

    try:
        make_folder(directory)
        _finish_save(directory)
        with atomic_path(directory / WAITING) as partial:
            # Not save_file, which makes a file that only its owner may read.
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
    """The description, as `read` has it, and the weights of one model, read again if another takes its place."""
    while True:
        about = read(directory)
        try:
            return about, read_weights(directory, about["weights_sha256"])
        except EigenmapError:
            if read(directory)["weights_sha256"] == about["weights_sha256"]:
                raise


def read_weights(directory: Path, digest: str) -> dict[str, Tensor]:
    """The weights of this digest, from the usual file or from the one that waits beside it."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    path, content = weights_of(directory, digest)
    try:
        return load(content)
    except SafetensorError as error:
        raise EigenmapError(f"{path} is damaged: {error}; restore it, or fit the model again.") from error


class Weights(NamedTuple):
    """A file of weights and its content: what was compared with a digest is what is used, whatever the name gets."""

    path: Path
    content: bytes


def weights_of(directory: Path, digest: str) -> Weights:
    """The weights of this digest, in the usual file or among those that wait to replace it."""
    usual, waiting = directory / WEIGHTS, directory / WAITING
    try:
        for path in (usual, waiting, usual):  # a save that ends meanwhile renames the second to the first
            with suppress(FileNotFoundError):
                content = path.read_bytes()
                if hashlib.sha256(content).hexdigest() == digest:
                    return Weights(path, content)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not usual.is_file():
        raise EigenmapError(f"{usual} is missing: the model directory is incomplete.")
    raise EigenmapError(f"{usual} is damaged: it is not the file that {DESCRIPTION} beside it describes.")


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _finish_save(directory: Path) -> None:
    """After a save that was cut short: waiting weights that the description names get their place, others go."""
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
