"""Trained model: images, node features or vectors in, ordered codes of any length out; and its directory on disk.

    model = Eigenmap.load("runs/mine")
    codes = model.encode(images, dim=16)          # (n, 16) float32, rows of norm 1
    model.eigenvalues_                            # how much of each feature two views share
    model.suggest_dim(recall=0.95)                # the shortest code that keeps 95 % of the neighbours

A directory holds `model.json` (what it is) and `model.safetensors` (its numbers): nothing that executes when opened.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from eigenmap.augment.views import Standardisation, plain_view
from eigenmap.core.arguments import a_device, a_path, is_number, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data import to_pixels
from eigenmap.data.graphs.graph import as_features, check_features
from eigenmap.data.vectors.input import VectorInput
from eigenmap.description import CHECKPOINT as CHECKPOINT  # these three are public names of this module too
from eigenmap.description import DESCRIPTION as DESCRIPTION
from eigenmap.description import MODEL_FORMAT, VERSION, check_tensors, kind_of, read_description
from eigenmap.description import WEIGHTS as WEIGHTS
from eigenmap.formats import sentence_transformers
from eigenmap.formats.linear_map import LinearMap
from eigenmap.networks import CodeSource as CodeSource
from eigenmap.networks import Network, ResidualMLP, SparseRows, build_encoder, code_rows
from eigenmap.networks.folding import Folding, Inference
from eigenmap.networks.vectors import VectorEncoderSpec
from eigenmap.relations.feature_propagation import propagated_features, without_rows
from eigenmap.relations.neighbour_codes import Cut, NeighbourCodes, require_same
from eigenmap.relations.neighbourhood import StoredNodes, missing_nodes, smoothing
from eigenmap.relations.propagation import Propagation, Smoothing
from eigenmap.saved import WAITING, prefixed, read_model, weights_of, write_model
from eigenmap.spectrum import Alignment, unit_rms_rows

Weighting = Literal["diffusion", "none"]
Kind = Literal["images", "nodes", "vectors"]
Side = Literal["left", "right"]
Codes = npt.NDArray[np.float32]

VECTORS_AT_A_TIME = 8_192
"""Minimum number of vectors per forward pass; a batch size for images is little work for a matrix product."""


@dataclass(frozen=True)
class ImageInput:
    """What becomes of an image before the network sees it.

    Images are read at `size` pixels a side; the network sees the middle `view` of them, by default all.
    """

    size: int
    channels: int
    standardisation: Standardisation = field(default_factory=Standardisation)
    view: int | None = None

    @property
    def view_size(self) -> int:
        """Side of what the network sees."""
        return self.view or self.size

    def read(self, images: object) -> Tensor:
        """Pixels of whatever images a caller has: uint8 (N, channels, size, size)."""
        return to_pixels(images, self.size, self.channels)  # type: ignore[arg-type]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Standardised floats (B, channels, view_size, view_size) from uint8 pixels."""
        return plain_view(pixels, self.view_size, self.standardisation, self.view_size / self.size)


@dataclass(frozen=True)
class NodeInput:
    """What the network of a graph model sees: the features of a node, and nothing of the graph."""

    n_features: int
    hops: int = 0
    """How often features were averaged over neighbours for the network to see; with 0 it sees a node's own alone."""

    @property
    def width(self) -> int:
        """Length of what the network sees."""
        return self.n_features * (self.hops + 1)

    def read(self, x: object) -> Tensor | SparseRows:
        """Checked rows of features, dense or sparse, from whatever matrix a caller has."""
        rows = as_features(x)
        if len(rows.shape) == 2 and rows.shape[1] != self.n_features:
            raise EigenmapError(f"This model takes {self.n_features} features a node, not {rows.shape[1]}.")
        if tuple(rows.shape) != (0, self.n_features):  # no nodes have no codes, and that is no error
            check_features(rows)
        return rows

    def __call__(self, rows: Tensor) -> Tensor:
        """The rows as they are: the network itself scales them."""
        return rows


@dataclass(frozen=True)
class EncoderSpec:
    """How to build the encoder again; `name` is None for a module of the user's own."""

    name: str | None
    stem: Literal["auto", "imagenet", "medium", "small"] = "auto"

    def build(self, image: ImageInput) -> nn.Module:
        """A freshly initialised encoder of this kind."""
        if self.name is None:
            raise EigenmapError(
                "This model was trained with an encoder of your own: pass it as Eigenmap.load(directory, encoder=...)."
            )
        return build_encoder(self.name, channels=image.channels, image_size=image.view_size, stem=self.stem)


@dataclass(frozen=True)
class NodeEncoderSpec:
    """How to build the residual perceptron of a graph model again."""

    width: int
    blocks: int = 5

    def build(self, node: NodeInput, feature_dropout: float = 0.0) -> ResidualMLP:
        """A freshly initialised encoder of this shape."""
        return ResidualMLP(node.width, self.width, self.blocks, feature_dropout)


class Eigenmap:
    """A network, and the alignment that turns its outputs into ordered codes.

    Args:
        network: the trained encoder and projector.
        alignment: order, eigenvalues and weights, from `spectrum.best_alignment`.
        source: which of the network's two outputs the alignment belongs to, or both side by side.
        input: preprocessing of images, node features or vectors.
        encoder: how to build the encoder again on load.
        training: what is worth knowing about how it was trained; stored, and otherwise left alone.
        neighbours: how codes of nodes use their neighbours if there are edges; by default not at all.
        right: the model of the other space, if two spaces share their codes.

    """

    _weights_sha256: str | None = None

    def __init__(
        self,
        network: Network,
        alignment: Alignment,
        source: CodeSource,
        input: ImageInput | NodeInput | VectorInput,
        encoder: EncoderSpec | NodeEncoderSpec | VectorEncoderSpec,
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

    @property
    def image(self) -> ImageInput:
        """Preprocessing of images; raise if the model takes something else."""
        if isinstance(self.input, NodeInput):
            raise EigenmapError("This is a model of the nodes of a graph: it takes rows of features, not images.")
        if isinstance(self.input, VectorInput):
            raise EigenmapError("This is a model of vectors: it takes rows of numbers, not images.")
        return self.input

    @property
    def kind(self) -> Kind:
        """Kind of things that the model takes."""
        if isinstance(self.input, VectorInput):
            return "vectors"
        return "nodes" if isinstance(self.input, NodeInput) else "images"

    def side(self, side: Side | None = None) -> Eigenmap:
        """Return the model of one of two spaces, "left" (this one) or "right"; None is for models of one space."""
        if side is not None and side not in get_args(Side):
            raise EigenmapError(f'side must be "left" or "right", not {side!r}.')
        if self.right is None:
            if side == "right":
                raise EigenmapError("This model has one space, and so no right side; leave the side out.")
            return self
        if side is None:
            raise EigenmapError("This model has two spaces, left and right: say which of them is meant.")
        return self if side == "left" else self.right

    @property
    def weights_sha256(self) -> str | None:
        """Which saved weights these are, as `fingerprint` of their directory; None before they are saved or loaded.

        A directory may get another model at any time: this is what was read from it, or written to it.
        """
        return self._weights_sha256

    @property
    def n_components(self) -> int:
        """The number of ordered features: the longest code."""
        return self.alignment.n_components

    @property
    def eigenvalues_(self) -> npt.NDArray[np.float64]:
        """Held-out eigenvalue of each feature: its correlation between two related things.

        They descend if the code is made of one output; in a staged code features are sorted by shared variance.
        """
        return cast(npt.NDArray[np.float64], self.alignment.eigenvalues.cpu().numpy())

    @property
    def device(self) -> torch.device:
        """Device of the network; the CPU for one without weights."""
        return next((weights.device for weights in self.network.parameters()), torch.device("cpu"))

    def suggest_dim(self, *, spectrum: float | None = None, recall: float | None = None) -> int:
        """The shortest code that keeps this share of the spectrum, or of the full-length nearest neighbours."""
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

        Cutting a longer code gives the same numbers; only the norm of the rows has to be made 1 again.

        Args:
            images: uint8 arrays or tensors (NHWC, NCHW, NHW), floats in [0, 1], a Pillow image, a list of images; for a
                model of nodes their features, an array (n, d) or a scipy sparse matrix; for one of vectors an array or
                a file of them.
            dim: length of the codes, 1 ... `n_components`.
            edges: between the nodes, for a model of nodes: (2, edges), that and weights, or a sparse adjacency matrix.
                Codes then use neighbours in the way that the fit chose (`neighbours.propagation`).
            missing: numbers, or a mask, of nodes whose features are unknown; their code comes from their neighbours.
            stored: codes of a graph on disk (`embedding.NodeCodes`) into which the edges lead: its nodes keep their
                numbers, and the rows of `images` are numbered after them.
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
        if t is not None and not (is_number(t) and t >= 0):
            raise EigenmapError(f"t must be a number of at least 0, not {t!r}.")
        t = 0.0 if weighting == "none" else t
        batch_size = whole_number(batch_size, "batch_size")
        place = None if device is None else a_device(device)
        rows = self.input.read(images)
        if place is not None:
            self.network.to(place)
        if edges is not None:
            return self._with_neighbours(rows, edges, missing, stored, Cut(dim, t, normalize), batch_size)
        if missing is not None or stored is not None:
            raise EigenmapError("missing and stored go with edges: give the edges of the nodes, too.")
        if isinstance(self.input, NodeInput) and self.input.hops:
            raise EigenmapError("This model was trained to see averages over neighbours: give the edges of the nodes.")
        return self.codes_of(rows, Cut(dim, t, normalize), batch_size)

    def codes_of(self, rows: Tensor | SparseRows, cut: Cut | None = None, batch_size: int = 4096) -> Codes:
        """Codes of what the network sees, pixels or features as they are; full length by default."""
        cut = cut or Cut(self.n_components)
        made = self.raw(rows, batch_size)
        codes = [self.alignment.apply(psi, cut.dim, cut.t, unit=cut.normalize).float() for psi in made]
        return cast(Codes, torch.cat([torch.empty(0, cut.dim), *codes]).numpy())

    def _with_neighbours(
        self,
        rows: Tensor | SparseRows,
        edges: object,
        missing: object,
        stored: StoredNodes | None,
        cut: Cut,
        batch_size: int,
    ) -> Codes:
        if not isinstance(self.input, NodeInput):
            raise EigenmapError(
                f"edges belong to the nodes of a graph, but this is a model of {self.kind}; leave them out."
            )
        how = self.neighbours
        if self.input.hops:
            if stored is not None:
                raise EigenmapError(
                    "This model sees features of neighbours, which are not stored; embed the whole graph again."
                )
            rows = self.seen(rows, smoothing(edges, len(rows)), missing)
        # What is propagated is the code itself, at full length: that is also what is stored of a graph.
        own = self.codes_of(rows, Cut(self.n_components, cut.t if how.alignment is None else None), batch_size)
        if stored is None:
            return how.of_graph(own, edges, missing, cut)
        require_same(stored, self.weights_sha256, how, self.n_components)
        return how.of_new_nodes(own, edges, missing, stored, cut)

    def seen(self, rows: Tensor | SparseRows, smooth: Smoothing, missing: object = None) -> Tensor | SparseRows:
        """What the network of a graph model sees: features of the nodes, and their averages if it learned with them."""
        hops = self.input.hops if isinstance(self.input, NodeInput) else 0
        if hops == 0:
            return rows
        unknown = missing_nodes(missing, len(rows))
        return propagated_features(without_rows(rows, unknown) if unknown.any() else rows, smooth, hops)

    @torch.inference_mode()
    def raw(
        self, rows: Tensor | SparseRows, batch_size: int = 256, source: CodeSource | None = None
    ) -> Iterator[Tensor]:
        """What the alignment applies to: unit rows of the network's output `source`, batch by batch, on the CPU.

        `rows` are pixels, features of nodes or vectors, as `input.read` makes them; `source` is by default the model's
        own. Vectors themselves keep the norm that they are learned with.
        """
        output = source or self.source
        run = None if output == "both" else self._folding.of(self.network, output, self.inference)
        if isinstance(self.input, VectorInput):
            batch_size = max(batch_size, VECTORS_AT_A_TIME)
        for start in range(0, len(rows), batch_size):
            batch = self.input(rows[start : start + batch_size].to(self.device))  # type: ignore[arg-type]
            if run is None:
                features, psi = self.network(batch)
                plain = isinstance(self.input, VectorInput) and output == "encoder"
                yield (features if plain else code_rows(features, psi, output)).cpu()
            else:
                yield unit_rms_rows(run(batch)).cpu()

    def check_dim(self, dim: object) -> int:
        """`dim` itself if a code can be cut there, all features for None, else an error that says what is allowed."""
        if dim is None:
            return self.n_components
        if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or not 1 <= dim <= self.n_components:
            raise EigenmapError(f"dim must be a whole number from 1 to {self.n_components}, not {dim!r}.")
        return int(dim)

    @property
    def is_linear(self) -> bool:
        """Whether codes are a linear map of vectors, and nothing else."""
        return isinstance(self.input, VectorInput) and self.source == "encoder"

    def linear_map(self, dim: int | None = None) -> LinearMap:
        """Return the codes of a linear model of vectors as plain numbers, cut at `dim` features."""
        if not isinstance(self.input, VectorInput) or not self.is_linear:
            what = "has a neural head" if isinstance(self.input, VectorInput) else f"takes {self.kind}"
            raise EigenmapError(f"Only a linear model of vectors is a matrix, but this one {what}; export it as ONNX.")
        return LinearMap.of(self.alignment, self.input.unit, self.check_dim(dim))

    def to_sentence_transformers(
        self,
        base: object,
        out: str | Path,
        dim: int | None = None,
        *,
        side: Side | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write a folder of sentence-transformers: texts in, codes out.

        The folder of a linear model loads without eigenmap. That of a neural one needs eigenmap installed, and
        `SentenceTransformer(out, trust_remote_code=True)`. Both can be cut with `truncate_dim`.

        Args:
            base: the model that made the vectors: its sentence-transformers folder, or a `SentenceTransformer`.
            out: the new folder.
            dim: length of the codes; all features by default.
            side: which space of a model of two.
            overwrite: replace `out` if it is such a folder.

        Example:
            >>> model.to_sentence_transformers("all-MiniLM-L6-v2", "text-codes")  # doctest: +SKIP
            >>> SentenceTransformer("text-codes", truncate_dim=32).encode("a text")  # doctest: +SKIP

        """
        model = self.side(side)
        if not isinstance(model.input, VectorInput):
            raise EigenmapError(f"sentence-transformers needs a model of vectors, and this one takes {model.kind}.")
        dim = model.check_dim(dim)
        if model.is_linear:
            modules = sentence_transformers.linear_modules(model.linear_map(dim))
        else:
            cut = model.alignment.cut(dim)
            alone = Eigenmap(model.network, cut, model.source, model.input, model.encoder, model.training)
            modules = sentence_transformers.own_modules(alone.save)
        return sentence_transformers.write_folder(base, out, modules, (model.input.length, dim), overwrite)

    def save(self, directory: str | Path) -> Path:
        """Write the model; it is on disk when this returns, and until then a model that was there stays whole."""
        directory = a_path(directory, "directory")
        tensors = self._tensors("")
        if self.right is not None:
            tensors |= self.right._tensors("right.")
        self._know_weights(write_model(directory, tensors, self._description))
        return directory

    def _know_weights(self, digest: str) -> None:
        self._weights_sha256 = digest
        if self.right is not None:
            self.right._weights_sha256 = digest

    def _tensors(self, where: str) -> dict[str, Tensor]:
        tensors = {f"{where}network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for prefix, alignment in {"alignment": self.alignment, "neighbours": self.neighbours.alignment}.items():
            values = {} if alignment is None else vars(alignment)
            tensors |= {f"{where}{prefix}.{name}": value for name, value in values.items() if _is_tensor(value)}
        return tensors

    def _description(self, digest: str) -> dict[str, Any]:
        right = {} if self.right is None else {"right": self.right._side_description()}
        nodes = {"neighbours": _neighbours_description(self.neighbours)} if isinstance(self.input, NodeInput) else {}
        return {
            "format": MODEL_FORMAT,
            "version": VERSION,
            "weights_sha256": digest,
            **self._side_description(),
            "source": self.source,
            **nodes,
            "training": self.training,
            **right,
        }

    def _side_description(self) -> dict[str, Any]:
        network = self.network
        sizes = (
            {"n_components": network.n_components, "out_features": self.input.length}
            if isinstance(self.input, VectorInput)
            else {
                "n_components": network.n_components,
                "hidden": network.projector.hidden_features,
                "out_features": network.projector.in_features,
            }
        )
        return {
            "input": _input_description(self.input),
            "encoder": asdict(self.encoder),
            "network": sizes,
            "alignment": _numbers(self.alignment),
        }

    @classmethod
    def load(cls, directory: str | Path, encoder: nn.Module | None = None) -> Eigenmap:
        """Read a model; `encoder` is needed only if it was trained with an encoder of your own."""
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
    def _built(
        cls, about: Mapping[str, Any], tensors: Mapping[str, Tensor], directory: Path, encoder: nn.Module | None
    ) -> Eigenmap:
        """Build the model of one space."""
        try:
            input, spec, network = _input_and_network(about, encoder)
        except EigenmapError as error:
            raise EigenmapError(f"{directory}: {error}") from error
        alignment = _alignment(about["alignment"], prefixed("alignment.", tensors))
        try:
            network.load_state_dict(prefixed("network.", tensors))
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            which = f"that {DESCRIPTION} names" if encoder is None else "passed"
            raise EigenmapError(f"The encoder {which} does not fit the weights in {directory}: {reason}") from error
        neighbours = _neighbours(about.get("neighbours"), prefixed("neighbours.", tensors))
        return cls(network, alignment, about["source"], input, spec, about["training"], neighbours)

    @staticmethod
    def fingerprint(directory: str | Path) -> str:
        """What tells one saved model from another: the digest of its weights, as its description has it."""
        return str(read_description(a_path(directory, "directory"))["weights_sha256"])

    @staticmethod
    def verify(directory: str | Path) -> list[str]:
        """Read a saved model and compare digests: one line per file, or an error for the first that is damaged."""
        directory = a_path(directory, "directory")
        _, tensors = read_model(directory, read_description)
        return [f"{DESCRIPTION}: intact", f"{WEIGHTS}: {len(tensors):,} tensors"]

    @staticmethod
    def is_of_nodes(directory: str | Path) -> bool:
        """Tell whether a saved model takes features of nodes."""
        return Eigenmap.kind_at(directory) == "nodes"

    @staticmethod
    def kind_at(directory: str | Path) -> Kind:
        """Return the kind of things that a saved model takes."""
        return kind_of(read_description(a_path(directory, "directory"))["input"])


def _input_and_network(
    about: Mapping[str, Any], encoder: nn.Module | None
) -> tuple[ImageInput | NodeInput | VectorInput, EncoderSpec | NodeEncoderSpec | VectorEncoderSpec, Network]:
    """Build input and network from a description; the encoder is built unless it is given."""
    given, sizes = about["input"], about["network"]
    if kind_of(given) == "vectors":
        vector, head = VectorInput(**given), VectorEncoderSpec(**about["encoder"])
        return vector, head, head.build(vector.length, vector.unit, sizes["n_components"])
    if "n_features" in given:
        node, shape = NodeInput(**given), NodeEncoderSpec(**about["encoder"])
        return node, shape, Network(shape.build(node) if encoder is None else encoder, **sizes)
    standardisation = Standardisation(**given["standardisation"])
    image = ImageInput(given["size"], given["channels"], standardisation, given.get("view"))
    if image.view_size > image.size:
        raise EigenmapError(f"{DESCRIPTION} has a view of {image.view_size} pixels in images of {image.size}.")
    if image.standardisation.channels not in (None, image.channels):
        raise EigenmapError(f"{DESCRIPTION} has other channels in its standardisation than in its images.")
    spec = EncoderSpec(**about["encoder"])
    return image, spec, Network(spec.build(image) if encoder is None else encoder, **sizes)


def _alignment(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Alignment:
    """The alignment, from its numbers in the description and its tensors."""
    numbers: dict[str, Any] = {
        **about,
        **{name: tensors[name] for name in ("mean", "rotation", "eigenvalues", "power")},
    }
    numbers["recall"] = {int(dim): share for dim, share in about["recall"].items()}
    numbers["agreement"] = {float(t): share for t, share in about.get("agreement", {}).items()}
    if about.get("quality") is None:
        numbers["quality"] = float("nan")
    return Alignment(**numbers)


def _input_description(input: ImageInput | NodeInput | VectorInput) -> dict[str, Any]:
    """Return the input's settings without those that earlier versions do not know and that are not used."""
    about = {name: value for name, value in asdict(input).items() if value is not None}
    if isinstance(input, NodeInput) and input.hops == 0:
        del about["hops"]
    return about


def _numbers(alignment: Alignment) -> dict[str, Any]:
    """What an alignment says in the description; its tensors are in the other file."""
    return {name: value for name, value in vars(alignment).items() if not _is_tensor(value)}


def _neighbours_description(neighbours: NeighbourCodes) -> dict[str, Any]:
    about: dict[str, Any] = asdict(neighbours.propagation)
    return about if neighbours.alignment is None else {**about, "alignment": _numbers(neighbours.alignment)}


def _neighbours(about: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]) -> NeighbourCodes | None:
    if about is None:
        return None
    alignment = _alignment(about["alignment"], tensors) if "alignment" in about else None
    return NeighbourCodes(Propagation(about["way"], about["restart"]), alignment)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def weights_file(directory: Path) -> Path:
    """The file of a model's weights: the usual one, unless a save was cut short before it could replace it."""
    waits = (directory / WAITING).is_file()
    return weights_of(directory, Eigenmap.fingerprint(directory)).path if waits else directory / WEIGHTS


def copy_model(directory: Path, to: Path) -> str:
    """Copy the two files of a model, whatever else its folder holds, into a new folder: the model's fingerprint."""
    digest = Eigenmap.fingerprint(directory)
    weights = weights_of(directory, digest)
    to.mkdir()
    shutil.copyfile(directory / DESCRIPTION, to / DESCRIPTION)
    (to / WEIGHTS).write_bytes(weights.content)
    if Eigenmap.fingerprint(to) != digest:
        raise EigenmapError(f"The model in {directory} was replaced while it was copied; run the same command again.")
    return digest
