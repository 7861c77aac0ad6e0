"""Encoder and projector combined: the network that is trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.networks.projector import Projector


class Network(nn.Module):
    """x -> (features, psi) = (encoder(x), projector(encoder(x))).

    With BatchNorm, one pass over both views joined differs from two separate passes and trains better: join the views
    before the call and split psi afterwards.

    Args:
        encoder: any module that maps a batch to features (B, out_features).
        n_components: length of psi.
        hidden: width of the projector's hidden layer; default `n_components`.
        out_features: length of the encoder's output; default the encoder's attribute `out_features`, or else determined
            by a dry run on an input of `example_shape`.
        example_shape: shape of one input without the batch, e.g. (3, 32, 32); needed only for the dry run.
        projector_layers: number of linear layers of the projector.

    Example:
        >>> network = Network(build_encoder("resnet18"), n_components=128)
        >>> features, psi = network(torch.cat([x, x_plus]))
        >>> loss = objective(*psi.chunk(2))

    """

    def __init__(
        self,
        encoder: nn.Module,
        n_components: int,
        hidden: int | None = None,
        out_features: int | None = None,
        example_shape: tuple[int, ...] | None = None,
        projector_layers: int = 2,
    ) -> None:
        super().__init__()
        if n_components < 1:
            raise EigenmapError(f"n_components must be at least 1, not {n_components}.")
        if out_features is None:
            out_features = encoder_width(encoder, example_shape)
        self.encoder = encoder
        self.projector = Projector(out_features, n_components, hidden, projector_layers)
        self.n_components = n_components

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map a batch to its features (B, out_features) and psi (B, n_components)."""
        features = self.encoder(x)
        return features, self.projector(features)

    def train(self, mode: bool = True) -> Network:
        """Switch the mode, keeping a frozen encoder in evaluation mode so that its BN statistics do not change."""
        super().train(mode)
        if is_frozen(self.encoder):
            self.encoder.eval()
        return self


def freeze(encoder: nn.Module) -> nn.Module:
    """Exclude the encoder from training: no gradients, BN in evaluation mode (`Network` keeps it there)."""
    return encoder.requires_grad_(False).eval()


def is_frozen(encoder: nn.Module) -> bool:
    """Tell whether the encoder has parameters and none of them is trained."""
    parameters = list(encoder.parameters())
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def encoder_width(encoder: nn.Module, example_shape: tuple[int, ...] | None = None) -> int:
    """Return the length of the encoder's output: its attribute `out_features`, or that of a dry run."""
    declared = getattr(encoder, "out_features", None)
    if isinstance(declared, int):
        return declared
    if example_shape is None:
        raise EigenmapError(
            f"The encoder {type(encoder).__name__} does not state how many features it returns; give it an "
            "integer attribute out_features, or pass out_features."
        )
    return dry_run_width(encoder, example_shape)


def dry_run_width(encoder: nn.Module, example_shape: tuple[int, ...]) -> int:
    """Return the length of the encoder's output for an input of this shape; refuse an encoder that cannot take it."""
    tensor = next(encoder.parameters(), torch.empty(0))
    example = torch.zeros(2, *example_shape, dtype=tensor.dtype, device=tensor.device)
    modes = {module: module.training for module in encoder.modules()}
    encoder.eval()
    try:
        with torch.no_grad():
            features = encoder(example)
    except Exception as error:
        # Any exception of a user's module on this input means that module and shape do not match.
        raise EigenmapError(
            f"The encoder {type(encoder).__name__} cannot take an input of shape {example_shape}: {error}"
        ) from error
    finally:
        for module, training in modes.items():
            module.training = training
    if not isinstance(features, Tensor) or features.ndim != 2:
        found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise EigenmapError(
            f"The encoder {type(encoder).__name__} must return a tensor of shape (batch, features), "
            f"not {found}; pool or flatten its output."
        )
    return features.shape[1]
