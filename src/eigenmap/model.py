"""A trained model: images in, ordered codes of any length out; and its directory on disk.

    model = Eigenmap.load("runs/mine")
    codes = model.encode(images, dim=16)          # (n, 16) float32, rows of norm 1
    model.eigenvalues_                            # how much of each feature two views share, sorted
    model.suggest_dim(recall=0.95)                # the shortest code that keeps 95 % of the neighbours

A directory holds `model.json` (what it is) and `model.safetensors` (its numbers): nothing that executes when opened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from eigenmap.data import to_pixels
from eigenmap.errors import EigenmapError
from eigenmap.networks import Network, build_encoder
from eigenmap.relations.augmentation import Standardisation, plain
from eigenmap.spectrum import Alignment, unit_rows

Source = Literal["encoder", "projector"]
Weighting = Literal["diffusion", "none"]
Codes = npt.NDArray[np.float32]

FORMAT = "eigenmap-model"
VERSION = 1
DESCRIPTION = "model.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class ImageInput:
    """What becomes of an image before the network sees it."""

    size: int
    channels: int
    standardisation: Standardisation = field(default_factory=Standardisation)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Standardised floats (B, channels, size, size) from uint8 pixels."""
        return plain(pixels, self.size, self.standardisation)


@dataclass(frozen=True)
class EncoderSpec:
    """How to build the encoder again; `name` is None for a module of the user's own."""

    name: str | None
    stem: Literal["auto", "imagenet", "small"] = "auto"

    def build(self, image: ImageInput) -> nn.Module:
        """A freshly initialised encoder of this kind."""
        if self.name is None:
            raise EigenmapError(
                "This model was trained with an encoder of your own: pass it as Eigenmap.load(directory, encoder=...)."
            )
        return build_encoder(self.name, channels=image.channels, image_size=image.size, stem=self.stem)


class Eigenmap:
    """A network, and the alignment that turns its outputs into ordered codes.

    Args:
        network: the trained encoder and projector.
        alignment: order, eigenvalues and weights, from `spectrum.best_alignment`.
        source: which of the network's two outputs the alignment belongs to.
        image: what is done to images first.
        encoder: how to build the encoder again on load.
        training: what is worth knowing about how it was trained; stored, and otherwise left alone.

    """

    def __init__(
        self,
        network: Network,
        alignment: Alignment,
        source: Source,
        image: ImageInput,
        encoder: EncoderSpec,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        self.network = network.eval()
        self.alignment = alignment
        self.source: Source = source
        self.image = image
        self.encoder = encoder
        self.training = dict(training or {})

    @property
    def n_components(self) -> int:
        """The number of ordered features: the longest code."""
        return self.alignment.n_components

    @property
    def eigenvalues_(self) -> npt.NDArray[np.float64]:
        """Held-out eigenvalue of each feature, largest first: its correlation between two views of one image."""
        return cast(npt.NDArray[np.float64], self.alignment.eigenvalues.cpu().numpy())

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def suggest_dim(self, *, spectrum: float | None = None, recall: float | None = None) -> int:
        """The shortest code that keeps this share of the spectrum, or of the full-length nearest neighbours."""
        return self.alignment.suggest_dim(spectrum=spectrum, recall=recall)

    def encode(
        self,
        images: object,
        dim: int | None = None,
        *,
        weighting: Weighting = "diffusion",
        t: float | None = None,
        normalize: bool = True,
        device: torch.device | str | None = None,
        batch_size: int = 256,
    ) -> Codes:
        """The ordered codes of images, cut at `dim` features (all of them by default).

        Cutting a longer code gives the same numbers; only the norm of the rows has to be made 1 again.

        Args:
            images: uint8 arrays or tensors (NHWC, NCHW, NHW), floats in [0, 1], a Pillow image, a list of images.
            dim: length of the codes, 1 ... `n_components`.
            weighting: "diffusion" weighs feature j by max(mu_j, 0)^t; "none" leaves features as they are.
            t: the exponent; by default the one chosen on held-out pairs.
            normalize: rows of norm 1, for cosine similarity.
            device: where to compute; by default where the model is.
            batch_size: images per forward pass.

        Returns:
            float32 codes of shape (n, dim).

        """
        dim = self.check_dim(dim)
        if weighting not in get_args(Weighting):
            raise EigenmapError(f'weighting must be "diffusion" or "none", not {weighting!r}.')
        t = 0.0 if weighting == "none" else t
        pixels = to_pixels(images, self.image.size, self.image.channels)  # type: ignore[arg-type]
        if device is not None:
            self.network.to(device)
        codes = [self.alignment.apply(psi, dim, t, unit=normalize) for psi in self.raw(pixels, batch_size)]
        return cast(Codes, torch.cat([torch.empty(0, dim), *codes]).numpy())

    @torch.inference_mode()
    def raw(self, pixels: Tensor, batch_size: int = 256) -> Iterator[Tensor]:
        """What the alignment applies to: unit rows of the network's output `source`, batch by batch, on the CPU."""
        for start in range(0, len(pixels), batch_size):
            batch = pixels[start : start + batch_size]
            features, psi = self.network(self.image(batch.to(self.device)))
            yield unit_rows(features if self.source == "encoder" else psi).cpu()

    def check_dim(self, dim: object) -> int:
        """`dim` itself if a code can be cut there, all features for None, else an error that says what is allowed."""
        if dim is None:
            return self.n_components
        if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or not 1 <= dim <= self.n_components:
            raise EigenmapError(f"dim must be a whole number from 1 to {self.n_components}, not {dim!r}.")
        return int(dim)

    def save(self, directory: str | Path) -> Path:
        """Write the model; files appear whole or not at all, the description last."""
        from safetensors.torch import save

        directory = Path(directory)
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"alignment.{name}": value for name, value in vars(self.alignment).items() if _is_tensor(value)}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            partial = directory / f".{WEIGHTS}.partial"
            # Not save_file, which makes a file that only its owner may read.
            partial.write_bytes(save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))
            digest = _sha256(partial)
            partial.replace(directory / WEIGHTS)
            description = directory / f".{DESCRIPTION}.partial"
            description.write_text(json.dumps(self._description(digest), indent=2) + "\n", encoding="utf-8")
            description.replace(directory / DESCRIPTION)
        except OSError as error:
            raise EigenmapError(f"The model cannot be written to {directory}: {error.strerror}.") from error
        return directory

    def _description(self, digest: str) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "weights_sha256": digest,
            "input": asdict(self.image),
            "encoder": asdict(self.encoder),
            "network": {
                "n_components": self.network.n_components,
                "hidden": self.network.projector.hidden_features,
                "out_features": self.network.projector.in_features,
            },
            "source": self.source,
            "alignment": {name: value for name, value in vars(self.alignment).items() if not _is_tensor(value)},
            "training": self.training,
        }

    @classmethod
    def load(cls, directory: str | Path, encoder: nn.Module | None = None) -> Eigenmap:
        """Read a model; `encoder` is needed only if it was trained with an encoder of your own."""
        directory = Path(directory)
        about = _read_description(directory)
        tensors = _read_weights(directory / WEIGHTS, about["weights_sha256"])
        try:
            given = about["input"]
            image = ImageInput(given["size"], given["channels"], Standardisation(**given["standardisation"]))
            spec = EncoderSpec(**about["encoder"])
            network = Network(encoder if encoder is not None else spec.build(image), **about["network"])
            parts: dict[str, Any] = {**about["alignment"], **_prefixed("alignment.", tensors)}
            parts["recall"] = {int(dim): share for dim, share in parts["recall"].items()}
            alignment = Alignment(**parts)
            source, training = about["source"], about["training"]
        except EigenmapError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EigenmapError(f"{directory / DESCRIPTION} is damaged: it does not describe a whole model.") from error
        try:
            network.load_state_dict(_prefixed("network.", tensors))
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise EigenmapError(f"The encoder passed does not fit the weights in {directory}: {reason}") from error
        return cls(network, alignment, source, image, spec, training)

    @staticmethod
    def fingerprint(directory: str | Path) -> str:
        """What tells one saved model from another: the digest of its weights, as its description has it."""
        return str(_read_description(Path(directory))["weights_sha256"])


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read_description(directory: Path) -> dict[str, Any]:
    path = directory / DESCRIPTION
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        what = "has no model.json in it" if directory.is_dir() else "does not exist"
        raise EigenmapError(f"{directory} is not a model directory: it {what}.") from None
    except (OSError, ValueError) as error:
        raise EigenmapError(f"{path} is damaged or cannot be read: {error}.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise EigenmapError(f"{path} does not describe an eigenmap model.")
    if about.get("version") != VERSION:
        raise EigenmapError(
            f"{path} is of format version {about.get('version')}, and this eigenmap reads version {VERSION}: "
            "use the eigenmap that wrote it, or fit the model again."
        )
    if not isinstance(about.get("weights_sha256"), str):
        raise EigenmapError(f"{path} is damaged: it does not say which weights belong to it.")
    return about


def _read_weights(path: Path, digest: str) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    if not path.is_file():
        raise EigenmapError(f"{path} is missing: the model directory is incomplete.")
    if _sha256(path) != digest:
        raise EigenmapError(f"{path} is damaged: it is not the file that {DESCRIPTION} beside it describes.")
    return load_file(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
