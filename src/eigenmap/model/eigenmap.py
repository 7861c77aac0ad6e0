"""`Eigenmap`: a trained network and the alignment that orders its features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from eigenmap.core.arguments import a_device, a_path, is_number, whole_number
from eigenmap.core.devices import moved
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count
from eigenmap.data.vectors.input import VectorInput
from eigenmap.description import DESCRIPTION, WEIGHTS, check_tensors, kind_of, read_description
from eigenmap.formats.linear_map import LinearMap
from eigenmap.formats.sentence_transformers import write_folder
from eigenmap.hub import model_folder, publish
from eigenmap.hub.card import model_card
from eigenmap.model import exported
from eigenmap.model.files import fingerprint
from eigenmap.model.graph_codes import with_neighbours
from eigenmap.model.inputs import Encoder, ImageInput, Input, NodeInput
from eigenmap.model.stored import model_description, model_tensors, stored_parts
from eigenmap.networks import CodeSource, Network, SparseRows, code_rows
from eigenmap.networks.folding import Folding, Inference
from eigenmap.networks.vectors import VectorEncoderSpec
from eigenmap.relations.feature_propagation import propagated_features, without_rows
from eigenmap.relations.neighbour_codes import Cut, NeighbourCodes
from eigenmap.relations.neighbourhood import StoredNodes, missing_nodes
from eigenmap.relations.propagation import Smoothing
from eigenmap.saved import prefixed, read_model, write_model
from eigenmap.spectrum import Alignment, unit_rms_rows

Weighting = Literal["diffusion", "none"]
Kind = Literal["images", "nodes", "vectors"]
Side = Literal["left", "right"]
Codes = npt.NDArray[np.float32]

VECTORS_AT_A_TIME, VECTORS_ON_CPU = 8_192, 2_048
"""Minimum number of vectors per forward pass: batches for images are too small for a matrix product, and larger ones
leave the caches of a CPU."""
NODES_ON_CPU = 512
"""Maximum number of nodes per forward pass on a CPU: the layers of more nodes leave its caches too."""


class Eigenmap:
    """A network and the alignment that turns its outputs into ordered codes.

    Args:
        network: the trained encoder and projector.
        alignment: order, eigenvalues and weights, from `spectrum.best_alignment`.
        source: output of the network from which codes are made: "encoder", "projector" or "both".
        input: preprocessing of images, node features or vectors.
        encoder: specification from which `load` builds the encoder.
        training: facts about the training; stored with the model, and not used otherwise.
        neighbours: use of neighbours in the codes of nodes with edges; by default none.
        right: model of the other space, if two spaces share their codes.

    """

    _weights_sha256: str | None = None

    def __init__(
        self,
        network: Network,
        alignment: Alignment,
        source: CodeSource,
        input: Input,
        encoder: Encoder,
        training: Mapping[str, Any] | None = None,
        neighbours: NeighbourCodes | None = None,
        right: Eigenmap | None = None,
    ) -> None:
        self.network = network.eval()
        self.alignment = alignment
        self.source: CodeSource = source
        self.input = input
        self.encoder = encoder
        self.training = dict(training or {})
        self.neighbours = neighbours or NeighbourCodes()
        self.right = right
        self.inference = Inference()
        self._folding = Folding()

    def __repr__(self) -> str:
        source = "both outputs" if self.source == "both" else f"the {self.source}"
        steps = self.training.get("steps")
        trained = f", {count(steps, 'step')}" if isinstance(steps, int) and steps else ""
        return f"Eigenmap({self._input_in_words()}, n_components={self.n_components}, codes from {source}{trained})"

    def _input_in_words(self) -> str:
        if isinstance(self.input, ImageInput):
            return f"images of {self.input.size} x {self.input.size} x {self.input.channels}"
        length = self.input.length if isinstance(self.input, VectorInput) else self.input.n_features
        return f"{self.kind} of {count(length, 'feature')}"

    @property
    def image(self) -> ImageInput:
        """Image preprocessing; raise if the model does not take images."""
        if isinstance(self.input, NodeInput):
            raise EigenmapError("This is a model for graph nodes: it takes rows of features, not images.")
        if isinstance(self.input, VectorInput):
            raise EigenmapError("This is a model for vectors: it takes rows of numbers, not images.")
        return self.input

    @property
    def kind(self) -> Kind:
        """Kind of input."""
        if isinstance(self.input, VectorInput):
            return "vectors"
        return "nodes" if isinstance(self.input, NodeInput) else "images"

    def side(self, side: Side | None = None) -> Eigenmap:
        """Return the model of one of two spaces, "left" (this one) or "right"; None for a model of one space."""
        if side is not None and side not in get_args(Side):
            raise EigenmapError(f'side must be "left" or "right", not {side!r}.')
        if self.right is None:
            if side == "right":
                raise EigenmapError("This model has one space and no right side; leave the side out.")
            return self
        if side is None:
            raise EigenmapError("This model has two spaces: give the side, left or right.")
        return self if side == "left" else self.right

    @property
    def weights_sha256(self) -> str | None:
        """Digest of the weights as read from or written to a directory; None before the model is saved or loaded.

        `fingerprint` returns the digest of what a directory contains now.
        """
        return self._weights_sha256

    @property
    def n_components(self) -> int:
        """Number of ordered features: the length of the longest code."""
        return self.alignment.n_components

    @property
    def eigenvalues_(self) -> npt.NDArray[np.float64]:
        """Held-out eigenvalue of each feature: its correlation between two related items.

        They descend if codes are made from one output; features of staged codes are sorted by shared variance.
        """
        return cast(npt.NDArray[np.float64], self.alignment.eigenvalues.cpu().numpy())

    @property
    def device(self) -> torch.device:
        """Device of the network; the CPU if it has no weights."""
        return next((weights.device for weights in self.network.parameters()), torch.device("cpu"))

    def suggest_dim(self, *, spectrum: float | None = None, recall: float | None = None) -> int:
        """Return the shortest length that keeps a share of the spectrum, or of the full-length nearest neighbours."""
        return self.alignment.suggest_dim(spectrum=spectrum, recall=recall)

    def encode(
        self,
        images: object,
        dim: int | None = None,
        *,
        edges: object = None,
        missing: object = None,
        stored: StoredNodes | None = None,
        weighting: Weighting = "diffusion",
        t: float | None = None,
        normalize: bool = True,
        device: torch.device | str | None = None,
        batch_size: int = 256,
    ) -> Codes:
        """Return the ordered codes of images, nodes or vectors, cut at `dim` features (default all).

        Cutting longer codes and normalising the rows again gives the same result.

        Args:
            images: uint8 arrays or tensors (NHWC, NCHW, NHW), floats in [0, 1], a Pillow image, a list of images; or
                a file, a list of files or a folder, read in the order of names. A model of nodes takes features, an
                array (n, d) or a scipy sparse matrix; a model of vectors takes an array or a file of vectors.
            dim: length of the codes, 1 ... `n_components`.
            edges: edges between the nodes, for a model of nodes: (2, edges), a pair of these and weights, or a sparse
                adjacency matrix. Codes then use neighbours in the way chosen by the fit (`neighbours.propagation`).
            missing: indices or mask of nodes whose features are unknown; their codes come from their neighbours.
            stored: codes of a graph on disk (`embedding.NodeCodes`), for edges that lead to its nodes. These keep their
                numbers; the rows of `images` are numbered after them.
            weighting: "diffusion" multiplies feature j by max(mu_j, 0)^t; "none" leaves features unchanged.
            t: exponent; by default the one chosen on held-out pairs.
            normalize: whether rows have norm 1, for cosine similarity.
            device: device to compute on; by default that of the model.
            batch_size: images per forward pass.

        Returns:
            float32 codes of shape (n, dim).

        """
        dim = self.check_dim(dim)
        if weighting not in get_args(Weighting):
            raise EigenmapError(f'weighting must be "diffusion" or "none", not {weighting!r}.')
        if t is not None and not (is_number(t) and t >= 0):
            raise EigenmapError(f"t must be a number of at least 0, not {t!r}.")
        t = 0.0 if weighting == "none" else t
        batch_size = whole_number(batch_size, "batch_size")
        place = None if device is None else a_device(device)
        rows = self.input.read(images)
        if place is not None:
            self.network.to(place)
        if edges is not None:
            return with_neighbours(self, rows, edges, missing, stored, Cut(dim, t, normalize), batch_size)
        if missing is not None or stored is not None:
            raise EigenmapError("missing and stored need edges: give the edges of the nodes too.")
        if isinstance(self.input, NodeInput) and self.input.hops:
            raise EigenmapError(
                "This model needs averages over neighbours: give the edges of the nodes (`eigenmap embed RUN GRAPH "
                "--neighbours`)."
            )
        return self.codes_of(rows, Cut(dim, t, normalize), batch_size)

    def codes_of(self, rows: Tensor | SparseRows, cut: Cut | None = None, batch_size: int = 4096) -> Codes:
        """Return codes of rows as `input.read` returns them; full length by default."""
        cut = cut or Cut(self.n_components)
        made = self.raw(rows, batch_size)
        parts = [self.alignment.apply(psi, cut.dim, cut.t, unit=cut.normalize).float() for psi in made]
        codes = torch.cat([torch.empty(0, cut.dim), *parts])
        if not bool(codes.isfinite().all()):
            row = int(codes.isfinite().all(1).logical_not().int().argmax())
            raise EigenmapError(
                f"The code of row {row:,} (counted from 0) is not finite: its numbers are too large, or the model is "
                "damaged."
            )
        return cast(Codes, codes.numpy())

    def seen(self, rows: Tensor | SparseRows, smooth: Smoothing, missing: object = None) -> Tensor | SparseRows:
        """Return the input of a graph model's network: node features, and their averages if trained with them."""
        hops = self.input.hops if isinstance(self.input, NodeInput) else 0
        if hops == 0:
            return rows
        unknown = missing_nodes(missing, len(rows))
        return propagated_features(without_rows(rows, unknown) if unknown.any() else rows, smooth, hops)

    @torch.inference_mode()
    def raw(
        self, rows: Tensor | SparseRows, batch_size: int = 256, source: CodeSource | None = None
    ) -> Iterator[Tensor]:
        """Yield rows of norm sqrt(k) of the network's output `source`, by batch, on the CPU; the alignment takes these.

        `rows` are pixels, node features or vectors as `input.read` returns them; `source` is the model's own by
        default. The encoder output of a vector model keeps its norm.
        """
        output = source or self.source
        run = None if output == "both" else self._folding.of(self.network, output, self.inference)
        batch_size = self._at_a_time(batch_size)
        place = self.device if run is None else run.stem.device
        for start in range(0, len(rows), batch_size):
            part = rows[start : start + batch_size]
            part = moved(part, place) if isinstance(part, Tensor) else part.to(place)
            batch = self.input(part)  # type: ignore[arg-type]
            if run is None:
                features, psi = self.network(batch)
                yield code_rows(features, psi, output, self._plain(output)).cpu()
            else:
                yield unit_rms_rows(run(batch)).cpu()

    def _at_a_time(self, batch_size: int) -> int:
        """Return the number of rows per forward pass."""
        on_cpu = self.device.type == "cpu"
        if isinstance(self.input, VectorInput):
            return max(batch_size, VECTORS_ON_CPU if on_cpu else VECTORS_AT_A_TIME)
        return min(batch_size, NODES_ON_CPU) if isinstance(self.input, NodeInput) and on_cpu else batch_size

    @property
    def plain(self) -> bool:
        """Whether the alignment takes rows unchanged; otherwise they are scaled to one norm first."""
        return self._plain(self.source)

    def _plain(self, output: CodeSource) -> bool:
        plain_head = isinstance(self.encoder, VectorEncoderSpec) and self.encoder.plain
        return isinstance(self.input, VectorInput) and (output == "encoder" or plain_head)

    def check_dim(self, dim: object) -> int:
        """Return `dim`, or the full length for None; raise if codes cannot be cut there."""
        if dim is None:
            return self.n_components
        if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or not 1 <= dim <= self.n_components:
            raise EigenmapError(f"dim must be a whole number from 1 to {self.n_components}, not {dim!r}.")
        return int(dim)

    @property
    def is_linear(self) -> bool:
        """Whether codes are a purely linear map of vectors."""
        return isinstance(self.input, VectorInput) and self.source == "encoder"

    def linear_map(self, dim: int | None = None) -> LinearMap:
        """Return the map of a linear vector model as plain numbers, cut at `dim` features."""
        return exported.linear_map(self, dim)

    def to_sentence_transformers(
        self,
        base: object,
        out: str | Path,
        dim: int | None = None,
        *,
        side: Side | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write a sentence-transformers folder that turns texts into codes.

        The folder of a linear model loads without eigenmap. That of a neural one needs eigenmap, and
        `SentenceTransformer(out, trust_remote_code=True)`. Both can be cut with `truncate_dim`.

        Args:
            base: the model that made the vectors: its sentence-transformers folder, or a `SentenceTransformer`.
            out: the new folder.
            dim: length of the codes; all features by default.
            side: "left" or "right", for a model of two spaces.
            overwrite: replace `out` if it is a sentence-transformers folder.

        Example:
            >>> model.to_sentence_transformers("all-MiniLM-L6-v2", "text-codes")  # doctest: +SKIP
            >>> SentenceTransformer("text-codes", truncate_dim=32).encode("a text")  # doctest: +SKIP

        """
        modules, lengths = exported.modules_of(self.side(side), dim)
        return write_folder(base, out, modules, lengths, overwrite)

    def save(self, directory: str | Path) -> Path:
        """Write the model; it is on disk when this returns. An existing model stays intact until then."""
        directory = a_path(directory, "directory")
        if (directory / "index.json").is_file():
            raise EigenmapError(f"{directory} is an index; choose another folder for the model.")
        self._know_weights(write_model(directory, model_tensors(self), lambda digest: model_description(self, digest)))
        return directory

    def _know_weights(self, digest: str) -> None:
        self._weights_sha256 = digest
        if self.right is not None:
            self.right._weights_sha256 = digest

    @classmethod
    def load(cls, directory: str | Path, encoder: nn.Module | None = None) -> Eigenmap:
        """Read a model; `encoder` is needed only if it was trained with your own encoder."""
        directory = a_path(directory, "directory")
        if encoder is not None and not isinstance(encoder, nn.Module):
            raise EigenmapError(f"encoder must be the module that the model was trained with, not {encoder!r}.")
        about, tensors = read_model(directory, read_description)
        check_tensors(about, tensors, directory, own_encoder=encoder is not None)
        model = cls._built(about, tensors, directory, encoder)
        if "right" in about:
            other = {**about["right"], "source": about["source"], "training": {}}
            model.right = cls._built(other, prefixed("right.", tensors), directory, None)
        model._know_weights(about["weights_sha256"])
        return model

    @classmethod
    def from_pretrained(cls, path_or_name: str | Path, revision: str | None = None) -> Eigenmap:
        """Read a model from a folder, or from the Hugging Face Hub by its name, "owner/model"."""
        return cls.load(model_folder(path_or_name, revision))

    def card(self, name: str = "this/model") -> str:
        """Return a page about the model, as Markdown: input, training, spectrum, limits."""
        digest = self.weights_sha256 or "not saved yet"
        return model_card(model_description(self, digest), self.eigenvalues_.tolist(), self.kind, name)

    def push_to_hub(self, name: str, *, private: bool = False) -> str:
        """Upload the model with its card to the Hugging Face Hub as "owner/model"; return its address."""
        with TemporaryDirectory() as folder:
            self.save(folder)
            return publish(Path(folder), name, self.card(name), private=private)

    @classmethod
    def _built(
        cls, about: Mapping[str, Any], tensors: Mapping[str, Tensor], directory: Path, encoder: nn.Module | None
    ) -> Eigenmap:
        """Build the model of one space."""
        parts = stored_parts(about, tensors, directory, encoder)
        return cls(source=about["source"], training=about["training"], **parts._asdict())

    @staticmethod
    def fingerprint(directory: str | Path) -> str:
        """Return the digest of the weights in a directory, which identifies a saved model."""
        return fingerprint(a_path(directory, "directory"))

    @staticmethod
    def verify(directory: str | Path) -> list[str]:
        """Read a saved model and compare digests; return one line per file, or raise at the first damaged one."""
        directory = a_path(directory, "directory")
        _, tensors = read_model(directory, read_description)
        return [f"{DESCRIPTION}: intact", f"{WEIGHTS}: {len(tensors):,} tensors"]

    @staticmethod
    def is_of_nodes(directory: str | Path) -> bool:
        """Tell whether a saved model takes node features."""
        return Eigenmap.kind_at(directory) == "nodes"

    @staticmethod
    def kind_at(directory: str | Path, side: Side | None = None) -> Kind:
        """Return the kind of input of a saved model, or of one side of it."""
        about = read_description(a_path(directory, "directory"))
        return kind_of(about["right"]["input"] if side == "right" and "right" in about else about["input"])
