"""Encoders with trained weights, by their name on the Hugging Face hub or from a folder saved from there.

    hf:facebook/dinov2-small          a vision model of transformers: first token, or the mean over the map
    hf:folder/saved/by/transformers   the same from disk
    hf-hub:timm/resnet18.a1_in1k      a model of timm (`networks.build_encoder`)

Weights are read from safetensors only, and no code from the hub is run.
"""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError

TRANSFORMERS, TIMM = "hf:", ("hf-hub:", "local-dir:")


def comes_trained(name: str) -> bool:
    """Tell whether the name of an encoder brings trained weights with it.

    >>> comes_trained("hf:facebook/dinov2-small"), comes_trained("resnet18")
    (True, False)
    """
    return name.startswith((TRANSFORMERS, *TIMM))


class HuggingFaceEncoder(nn.Module):
    """Vision model of transformers as an encoder: (B, channels, size, size) -> (B, out_features)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the first token of a transformer, or the mean over the map of a convolutional network."""
        hidden = cast(Tensor, self.model(pixel_values=pixels).last_hidden_state)
        return hidden[:, 0] if hidden.ndim == 3 else hidden.mean(dim=(2, 3))


def load_hugging_face(name: str, channels: int) -> HuggingFaceEncoder:
    """Load a vision model of transformers by "hf:NAME" or "hf:FOLDER"."""
    place = name.removeprefix(TRANSFORMERS)
    model = _auto_model(name).from_pretrained(place, use_safetensors=True, trust_remote_code=False)
    wanted = getattr(model.config, "num_channels", channels)
    if wanted != channels:
        raise EigenmapError(
            f"The encoder {name!r} takes images of {wanted} channels, not {channels}; "
            "give standardisation=IMAGENET_STANDARDISATION, which reads grey images as colour."
        )
    return HuggingFaceEncoder(model)


def require_transformers(name: str) -> None:
    """Refuse a name of transformers if transformers is not installed, or knows no such model."""
    try:
        config = _auto_config(name).from_pretrained(name.removeprefix(TRANSFORMERS), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise EigenmapError(f"The encoder {name!r} cannot be found: {str(error).splitlines()[0]}") from error
    if not hasattr(config, "num_channels"):
        raise EigenmapError(f"The encoder {name!r} is a {config.model_type} model, which takes no images.")


def _auto_model(name: str) -> Any:
    return _transformers(name).AutoModel


def _auto_config(name: str) -> Any:
    return _transformers(name).AutoConfig


def _transformers(name: str) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise EigenmapError(
            f"The encoder {name!r} needs transformers: pip install 'eigenmap[transformers]'."
        ) from error
    return transformers
