"""Loading of pretrained encoder weights from files of various origins."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError

# Keys under which checkpoints wrap the weights.
_CONTAINERS = ("state_dict", "model", "model_state_dict")
# Names of classifiers in torchvision and timm.
_CLASSIFIERS = ("fc.", "head.", "heads.", "head_dist.", "classifier.")


def load_encoder_weights(encoder: nn.Module, file: str | Path) -> None:
    """Load a `.safetensors` file or a torch checkpoint into the encoder, in place.

    A torch file is opened with `weights_only=True`, so nothing in it is executed. Keys are interpreted as in
    `load_state`.

    Example:
        >>> load_encoder_weights(build_encoder("resnet50", image_size=224), "resnet50-11ad3fa6.pth")

    """
    load_state(encoder, _read(Path(file)), source=str(file))


def load_state(encoder: nn.Module, state: Mapping[str, Tensor], source: str = "The state dict") -> None:
    """Load named tensors into the encoder, in place; raise an error that names the first mismatch.

    Allowed are the prefixes `module.`, `network.` and `encoder.` (an entire saved network, such as one of our models,
    whose other parts are ignored), a classifier (`fc.*`, `head.*`, `classifier.*` ...) that the encoder does not have,
    and missing `num_batches_tracked` counters.
    """
    own = encoder.state_dict()
    given = _encoder_part(state, own)
    for key in own:
        if key.endswith("num_batches_tracked"):
            given.setdefault(key, own[key])
    fault = _first_fault(given, own)
    if fault is not None:
        raise EigenmapError(f"{source} does not fit the encoder {type(encoder).__name__}: {fault}.")
    encoder.load_state_dict(given)


def _first_fault(given: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str | None:
    """Describe the first key, in the encoder's order, that is missing, has another shape, or is unknown."""
    for key, tensor in own.items():
        if key not in given:
            return f"{key} is missing"
        found, wanted = tuple(given[key].shape), tuple(tensor.shape)
        if found != wanted:
            hint = "do channels and stem match? ImageNet networks have the stem imagenet"
            return f"{key} has shape {found} instead of {wanted} ({hint})"
        if given[key].is_floating_point() and not bool(given[key].isfinite().all()):
            return f"{key} contains NaN or infinity"
    unknown = next((key for key in given if key not in own), None)
    return None if unknown is None else f"it has no {unknown}"


def _encoder_part(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Select the entries of `state` for the encoder, under the encoder's names."""
    given = dict(state)
    for prefix in ("module.", "network.", "encoder."):
        inside = {key.removeprefix(prefix): t for key, t in given.items() if key.startswith(prefix)}
        if inside and not any(key.startswith(prefix) for key in own):
            given = inside
    return {key: tensor for key, tensor in given.items() if key in own or not key.startswith(_CLASSIFIERS)}


def _read(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise EigenmapError(f"No weights file at {file}.")
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about files that it then refuses; our error covers them
            content = torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        # torch's own message suggests opening the file in a way that can execute code.
        raise EigenmapError(f"{file} is not a torch weights file, or contains more than tensors.") from error
    except Exception as error:
        # A damaged file can fail in any way: as a zip, as a pickle, as text.
        reason = (isinstance(error, OSError) and error.strerror) or "it is damaged, or not a torch or safetensors file"
        raise EigenmapError(f"{file} is not a readable weights file: {reason}.") from error
    return _unwrap(content, file)


def _unwrap(content: object, file: Path) -> dict[str, Tensor]:
    while isinstance(content, Mapping):
        inner = next((content[name] for name in _CONTAINERS if isinstance(content.get(name), Mapping)), None)
        if inner is None:
            break
        content = inner
    if not isinstance(content, Mapping) or not all(map(_is_named_tensor, content.items())):
        raise EigenmapError(f"{file} does not contain a dictionary of named tensors.")
    return dict(content)


def _is_named_tensor(item: tuple[object, object]) -> bool:
    name, value = item
    if not isinstance(name, str) or not isinstance(value, Tensor):
        return False
    return value.layout is torch.strided and not (value.is_meta or value.is_complex() or value.is_quantized)
