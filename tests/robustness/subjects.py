"""What we read: for each format how to write a good file, how to damage it, and what must come out of reading it."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
import torch
from PIL import Image

from eigenmap import Eigenmap
from eigenmap.data import load_images
from eigenmap.data.graphs.files import read_features, read_nodes, save_graph
from eigenmap.data.graphs.graph import load_graph
from eigenmap.data.images.decode import UnreadableImageError
from eigenmap.data.images.labels import labels_from_csv
from eigenmap.data.images.rows import square
from eigenmap.data.images.stream import open_stream
from eigenmap.embedding import embed_images
from eigenmap.embedding.node_store import NodeCodes
from eigenmap.embedding.nodes import embed_nodes
from eigenmap.embedding.shards import Codebook
from eigenmap.estimators import NeuralEigenmap
from eigenmap.figures.scores import read_scores
from eigenmap.model import NodeEncoderSpec, NodeInput
from eigenmap.networks import Network, SmallCNN, SparseRows, load_encoder_weights
from eigenmap.relations.neighbour_codes import NeighbourCodes
from eigenmap.relations.propagation import Propagation
from eigenmap.spectrum import Alignment
from eigenmap.training import checkpoint, metrics
from tests.end_to_end.photos import pictures
from tests.robustness import index_subjects as indexes
from tests.robustness import vector_subjects as vectors
from tests.robustness.damage import Damage, in_json, in_npy, in_npz, in_parquet
from tests.robustness.released_subjects import KINDS as RELEASED_KINDS
from tests.test_model import make_model

Read = Callable[[Path], Any]
FEATURES = np.arange(24, dtype=np.float32).reshape(6, 4)
EDGES = np.array([[0, 1, 2, 3, 4, 5, 1, 0], [1, 0, 3, 2, 5, 4, 2, 5]])


def _nothing_known(content: bytes) -> Iterator[Damage]:
    """Blind damage only."""
    return iter(())


def _none_earlier(folder: Path, read: Read) -> list[Any]:
    """Only the whole file is right."""
    return []


@dataclass(frozen=True)
class Subject:
    """A kind of file.

    Attributes:
        name: of the subject.
        file: the file to damage, in the folder.
        write: makes the folder's content.
        read: reads it; what it returns is compared, so that it is made of bytes, numbers and texts.
        damages: ways to damage it that know what it means; more are blind.
        exact: whether damage that is not noticed must not change the result (there is a checksum).
        earlier: gives the results of earlier states, which a file with a torn end may be read as: a kill leaves such.

    """

    name: str
    file: str
    write: Callable[[Path], object]
    read: Read
    damages: Callable[[bytes], Iterator[Damage]] = _nothing_known
    exact: bool = False
    earlier: Callable[[Path, Read], list[Any]] = _none_earlier

    def rights(self, folder: Path) -> list[Any]:
        """All results that a good folder may give."""
        return [self.read(folder), *self.earlier(folder, self.read)]


def _codes(model: Eigenmap, given: object) -> bytes:
    codes = model.encode(given)
    assert np.isfinite(codes).all() and codes.dtype == np.float32
    return codes.tobytes()


# Models


def _write_model(folder: Path) -> None:
    make_model().save(folder)


def _read_model(folder: Path) -> Any:
    return _codes(Eigenmap.load(folder), pictures(3))


def _write_old_model(folder: Path) -> None:
    """As version 0.1.0 wrote it: without a seal."""
    _write_model(folder)
    _unseal(folder)


def _unseal(folder: Path) -> None:
    about = json.loads((folder / "model.json").read_text())
    about.pop("description_sha256", None)
    (folder / "model.json").write_text(json.dumps(about, indent=2))


def _write_node_model(folder: Path) -> None:
    torch.manual_seed(0)
    node, spec = NodeInput(4), NodeEncoderSpec(8, 1)
    network = Network(spec.build(node), 3, hidden=5)
    alignment = Alignment(
        torch.zeros(3), torch.eye(3), torch.tensor([0.9, 0.5, 0.1]), torch.ones(3), t=1.0, recall={1: 0.5, 3: 1.0}
    )
    about = {"steps": 3, "seconds": 0.5, "graph": {"nodes": 6, "edges": 8, "components": 1}, "recipe": {"hops": 1}}
    how = NeighbourCodes(Propagation("S2"), copy.deepcopy(alignment))
    Eigenmap(network, alignment, "projector", node, spec, about, how).save(folder)
    _unseal(folder)


def _read_node_model(folder: Path) -> Any:
    model = Eigenmap.load(folder)
    codes = model.encode(FEATURES, edges=EDGES)
    assert np.isfinite(codes).all()
    return _codes(model, FEATURES), codes.tobytes()


def _write_nodes(folder: Path) -> None:
    _write_node_model(folder / "run")
    graph = load_graph((FEATURES, EDGES))
    embed_nodes(Eigenmap.load(folder / "run"), graph.x, graph.walk(), folder / "codes")


def _read_nodes(folder: Path) -> Any:
    stored = NodeCodes.open(folder / "codes")
    stored.verify()
    codes = Eigenmap.load(folder / "run").encode(FEATURES[:1], edges=[[6, 6], [0, 3]], stored=stored)
    return codes.tobytes(), np.array(stored.codes).tobytes(), stored.walk().edges().tolist()


def _read_forged_weights(folder: Path) -> Any:
    """Weights that were changed by somebody who changed the digest too."""
    about = json.loads((folder / "model.json").read_text())
    about["weights_sha256"] = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    (folder / "model.json").write_text(json.dumps(about))
    model = Eigenmap.load(folder)
    assert model.encode(FEATURES).shape == (6, model.n_components)


def _in_safetensors(content: bytes) -> Iterator[Damage]:
    length = int.from_bytes(content[:8], "little")
    for damage in in_json(content[8 : 8 + length].rstrip()):
        header = damage.content
        yield Damage(damage.what, len(header).to_bytes(8, "little") + header + content[8 + length :])
    for size in (0, 1, length + 1, 2**31, 2**63 - 1, 2**64 - 1):
        yield Damage(f"header of {size}", size.to_bytes(8, "little") + content[8:])


# Estimators


def _write_kernel_model(folder: Path) -> None:
    rng = np.random.default_rng(0)
    parameters = {"kernel_params": {"length_scale": 1.5}, "network_params": {"width": 8, "depth": 1}}
    model = NeuralEigenmap(2, **parameters, max_steps=2, reference_size=20, tol=0.0, random_state=0)
    model.fit(rng.normal(size=(30, 2))).save(folder)


def _write_open_kernel_model(folder: Path) -> None:
    """Without a seal: every value has to be looked at."""
    _write_kernel_model(folder)
    _unseal(folder)


def _read_kernel_model(folder: Path) -> Any:
    model = NeuralEigenmap.load(folder)
    codes = model.transform(FEATURES[:, :2].astype(np.float64) / 10)
    assert codes.shape == (6, len(model.eigenvalues_)) and np.isfinite(codes).all()
    return codes.tobytes(), model.n_steps_, model.rank_, model.groups_


def _read_forged_kernel_model(folder: Path) -> Any:
    about = json.loads((folder / "model.json").read_text())
    about["weights_sha256"] = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    (folder / "model.json").write_text(json.dumps(about))
    _read_kernel_model(folder)


# Checkpoints and weights


def _write_checkpoint(folder: Path) -> None:
    state = {"weight": torch.arange(6.0)}
    optimizer = {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    now = checkpoint.Checkpoint(3, 1.5, {"lr": 0.1, "name": "x", "none": None}, state, {}, optimizer)
    checkpoint.save(now, folder / "checkpoint.pt")


def _read_checkpoint(folder: Path) -> Any:
    found = checkpoint.load(folder / "checkpoint.pt")
    return found.step, found.seconds, found.settings, {name: str(value) for name, value in found.network.items()}


def _in_checkpoint(content: bytes) -> Iterator[Damage]:
    import io

    good = torch.load(io.BytesIO(content), weights_only=True)
    for name in good:
        for value in (None, -1, "x", [], {}, {1: 2}, float("nan"), torch.zeros(2), True, 10**30):
            file = io.BytesIO()
            torch.save(good | {name: value}, file)
            yield Damage(f"{name} = {value!r}", file.getvalue())
        file = io.BytesIO()
        torch.save({k: v for k, v in good.items() if k != name}, file)
        yield Damage(f"without {name}", file.getvalue())
    for other in (3, [1], torch.zeros(2), good | {"more": 1}, Path("x"), Image.Image.frombytes):
        file = io.BytesIO()
        torch.save(other, file)
        yield Damage(f"only {type(other)}", file.getvalue())


def _write_weights(folder: Path) -> None:
    torch.manual_seed(0)
    torch.save({"state_dict": SmallCNN(3).state_dict()}, folder / "weights.pt")


def _read_weights(folder: Path) -> Any:
    encoder = SmallCNN(3)
    load_encoder_weights(encoder, folder / "weights.pt")
    assert all(bool(value.isfinite().all()) for value in encoder.state_dict().values())


def _in_weights(content: bytes) -> Iterator[Damage]:
    import io

    state = SmallCNN(3).state_dict()
    name = next(iter(state))
    value = state[name]
    others: list[Any] = [
        *(3, [], {}, {1: value}, {"state_dict": 3}, {"state_dict": {"model": [value]}}, value, Image.Image.frombytes),
        *(state | {name: other} for other in (value.to_sparse(), value.to("meta"), value * 1j, value.long(), value[0])),
        state | {name: value * float("nan")},
        {3: value, **state},
    ]
    for other in others:
        file = io.BytesIO()
        torch.save(other, file)
        yield Damage(f"{type(other)}", file.getvalue())


# Arrays of images


def _image_array(file: str, **options: Any) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        images = pictures(4, 8)
        if file.endswith(".npy"):
            np.save(folder / file, images)
        else:
            save = np.savez_compressed if options.get("compressed") else np.savez
            save(folder / file, images=images, labels=np.array(["a", "b", "a", "c"]))

    return write


def _read_images(file: str) -> Read:
    def read(folder: Path) -> Any:
        images = load_images(folder / file)
        rows = list(_streamed(folder / file))
        assert len(rows) == len(images)
        assert images.pixels.dtype == torch.uint8 and images.pixels.ndim == 4
        names = None if images.labels is None else (images.labels.names, images.labels.matrix.tolist())
        return images.pixels.numpy().tobytes(), names

    return read


def _streamed(file: Path) -> Iterator[Any]:
    for shard in open_stream(file).shards(3):
        for _, image in shard.rows:
            with suppress(UnreadableImageError):  # one picture, which is skipped
                yield square(image, 8, 3)


def _write_photo(kind: str) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        for name, image in zip(("a", "b"), pictures(2, 24), strict=True):
            Image.fromarray(image).save(folder / f"{name}.{kind}")

    return write


def _read_photos(folder: Path) -> Any:
    images = load_images(folder)
    assert 1 <= len(images) <= 2 and len(images) + len(images.skipped) == 2


# Features and graphs


def _write_sparse(kind: str) -> Callable[[Path], object]:
    return lambda folder: scipy.sparse.save_npz(folder / "x.npz", scipy.sparse.csr_matrix(FEATURES).asformat(kind))


def _read_rows(file: str) -> Read:
    def read(folder: Path) -> Any:
        return _plain(read_features(folder / file))

    return read


def _plain(x: Any) -> Any:
    if isinstance(x, SparseRows):
        return [None if part is None else part.tolist() for part in (x.offsets, x.columns, x.values)], x.width
    return x.tolist()


def _graph(**more: Any) -> dict[str, Any]:
    parts = {"edge_index": EDGES, "edge_weight": np.arange(1.0, 9.0), "x": FEATURES, "y": np.array([0, 1, -1, 0, 1, 1])}
    return parts | {"train_idx": np.array([0, 1]), "test_idx": np.array([False, False, True, True, False, True])} | more


def _sparse_graph() -> dict[str, Any]:
    rows = scipy.sparse.csr_matrix(FEATURES)
    parts = {"x_indptr": rows.indptr, "x_indices": rows.indices, "x_data": rows.data, "x_shape": np.array([6, 4])}
    return {name: value for name, value in _graph(**parts).items() if name not in ("x", "edge_weight")}


def _read_graph(path: str) -> Read:
    def read(folder: Path) -> Any:
        graph = load_graph(folder / path)
        nodes = read_nodes(folder / path)
        if graph.edge_index is not None and bool((graph.edge_index[0] == graph.edge_index[1]).all()):
            return "self-loops alone"
        walk = graph.walk()
        weights = walk.weights(torch.arange(walk.n_entries))
        assert bool(weights.isfinite().all())
        return _plain(graph.x), _plain(nodes.x), walk.indptr.tolist(), walk.indices.tolist(), weights.tolist()

    return read


def _write_graph_folder(folder: Path) -> None:
    np.savez(folder.parent / "graph.npz", **_graph())
    save_graph(load_graph(folder.parent / "graph.npz"), folder / "graph")


# Tables, shards and lines


def _write_bare_parquet(folder: Path) -> None:
    _write_parquet(folder, bare=True)


def _write_parquet(folder: Path, bare: bool = False) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    encoded = []
    for image in pictures(4, 8):
        file = io.BytesIO()
        Image.fromarray(image).save(file, "png")
        encoded.append(file.getvalue())
    table = pa.table({"image": encoded, "label": ["a", "b", "a", None], "id": ["1", "2", "3", "4"]})
    table = table.select(["image"]) if bare else table
    pq.write_table(table, folder / "images.parquet", row_group_size=2)


def _write_shards(files: Literal["npy", "parquet"]) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        make_model().save(folder / "model")
        np.save(folder / "images.npy", pictures(3))
        embed_images(folder / "model", folder / "images.npy", folder / "codes", files=files, shard_size=2)

    return write


def _read_shards(folder: Path) -> Any:
    book = Codebook.open(folder / "codes")
    rows = []
    for ids, codes in book:
        assert codes.dtype == np.float32 and codes.shape == (len(ids), book.plan.dim)
        rows.append((ids, codes.tobytes()))
    return rows, book.skipped, len(book)


def _write_labels(folder: Path) -> None:
    (folder / "labels.csv").write_text('file,labels\na.jpg,cat dog\n"b,b.jpg",\né.jpg,cat\n', encoding="utf-8")


def _in_csv(content: bytes) -> Iterator[Damage]:
    yield Damage("NUL", content.replace(b"cat", b"c\0t"))
    yield Damage("latin-1", content.decode().encode("latin-1"))
    yield Damage("UTF-16", content.decode().encode("utf-16"))
    yield Damage("a quote that never ends", content.replace(b"cat", b'"cat'))
    yield Damage("a long cell", content + b"x" * 200_000)
    yield Damage("carriage returns", content.replace(b"\n", b"\r"))
    yield Damage("many columns", b"file,labels" + b",x" * 50_000 + content[11:])
    yield Damage("columns twice", content.replace(b"file,labels", b"file,labels,file,labels"))


def _write_metrics(folder: Path) -> None:
    record = {"step": 1, "loss": 0.5, "eigenvalues": [0.9, 0.1], "monitor": {"knn": None, "x": 0.5}, "lr": 1e-3}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(record | {"step": 2}) + "\n")


def _read_metrics(folder: Path) -> Any:
    records = metrics.read(folder / "metrics.jsonl")
    kept = metrics.MetricsFile(folder / "metrics.jsonl", resume_step=1).history
    assert all(record["step"] <= 1 for record in kept)
    return json.dumps(records)


def _in_lines(content: bytes) -> Iterator[Damage]:
    first, rest = content.split(b"\n", 1)
    for damage in in_json(first):
        yield Damage(damage.what, damage.content + b"\n" + rest)


def _write_scores(folder: Path) -> None:
    rows = [{"dim": 2, "accuracy": 0.5, "spread": 0.1, "share": 1.0}, {"dim": 4, "accuracy": 0.7, "share": 1.0}]
    (folder / "scores.json").write_text(json.dumps({"rows": rows, "model": "x"}))


def _read_scores(folder: Path) -> Any:
    scores = read_scores(folder / "scores.json")
    return [scores.values(metric, share) for metric in scores.metrics for share in scores.shares]


IDS = ["a.jpg", "b,b.jpg", "é.jpg"]

SUBJECTS = [
    Subject("model.json", "model.json", _write_model, _read_model, in_json, exact=True),
    Subject("model.json of 0.1.0", "model.json", _write_old_model, _read_model, in_json),
    Subject("model.json of nodes", "model.json", _write_node_model, _read_node_model, in_json),
    Subject("model.safetensors", "model.safetensors", _write_model, _read_model, exact=True),
    Subject("forged weights", "model.safetensors", _write_node_model, _read_forged_weights, _in_safetensors),
    Subject("model.json of a kernel", "model.json", _write_kernel_model, _read_kernel_model, in_json, exact=True),
    Subject("open model.json of a kernel", "model.json", _write_open_kernel_model, _read_kernel_model, in_json),
    Subject(
        "forged weights of a kernel",
        "model.safetensors",
        _write_open_kernel_model,
        _read_forged_kernel_model,
        _in_safetensors,
    ),
    Subject("checkpoint.pt", "checkpoint.pt", _write_checkpoint, _read_checkpoint, _in_checkpoint),
    Subject("encoder weights", "weights.pt", _write_weights, _read_weights, _in_weights),
    Subject("images .npy", "images.npy", _image_array("images.npy"), _read_images("images.npy"), in_npy),
    Subject("images .npz", "images.npz", _image_array("images.npz"), _read_images("images.npz"), in_npz),
    Subject(
        "images .npz, compressed",
        "images.npz",
        _image_array("images.npz", compressed=True),
        _read_images("images.npz"),
        in_npz,
    ),
    *(
        Subject(f"photo .{kind}", f"a.{kind}", _write_photo(kind), _read_photos)
        for kind in ("png", "jpg", "tiff", "gif")
    ),
    Subject("images .parquet", "images.parquet", _write_parquet, _read_images("images.parquet"), in_parquet),
    Subject("images alone", "images.parquet", _write_bare_parquet, _read_images("images.parquet"), in_parquet),
    Subject("features .npy", "x.npy", lambda folder: np.save(folder / "x.npy", FEATURES), _read_rows("x.npy"), in_npy),
    *(
        Subject(f"scipy {kind}", "x.npz", _write_sparse(kind), _read_rows("x.npz"), in_npz)
        for kind in ("csr", "csc", "coo", "bsr", "dia")
    ),
    Subject("graph .npz", "g.npz", lambda folder: np.savez(folder / "g.npz", **_graph()), _read_graph("g.npz"), in_npz),
    Subject(
        "sparse graph .npz",
        "g.npz",
        lambda folder: np.savez_compressed(folder / "g.npz", **_sparse_graph()),
        _read_graph("g.npz"),
        in_npz,
    ),
    *(
        Subject(f"graph folder, {name}", f"graph/{name}.npy", _write_graph_folder, _read_graph("graph"), in_npy)
        for name in ("indptr", "indices", "weights", "x", "y", "train_idx", "test_idx")
    ),
    Subject("labels .csv", "labels.csv", _write_labels, lambda folder: _labels(folder), _in_csv),
    Subject("shards .npy", "codes/part-00000.npy", _write_shards("npy"), _read_shards, in_npy),
    Subject("names of a shard", "codes/part-00000.ids.json", _write_shards("npy"), _read_shards, in_json),
    Subject("shards .parquet", "codes/part-00000.parquet", _write_shards("parquet"), _read_shards, in_parquet),
    Subject("_embedding.json", "codes/_embedding.json", _write_shards("npy"), _read_shards, in_json),
    Subject("_nodes.json", "codes/_nodes.json", _write_nodes, _read_nodes, in_json),
    *(
        Subject(f"codes of nodes, {name}", f"codes/{name}.npy", _write_nodes, _read_nodes, in_npy, exact=True)
        for name in ("own", "state", "indptr")
    ),
    Subject("model.json of vectors", "model.json", vectors.write_linear, vectors.read_model, in_json),
    Subject("model.json of two spaces", "model.json", vectors.write_two_spaces, vectors.read_model, in_json),
    Subject(
        "forged weights of two spaces",
        "model.safetensors",
        vectors.write_two_spaces,
        vectors.read_forged,
        _in_safetensors,
    ),
    Subject("vectors .parquet", "x.parquet", vectors.write_parquet, vectors.read_rows("x.parquet"), in_parquet),
    Subject("vectors .arrow", "x.arrow", vectors.write_arrow, vectors.read_rows("x.arrow")),
    Subject("modules.json", "modules.json", vectors.write_modules, vectors.read_listed, in_json),
    Subject("pooling", "1_Pooling/config.json", vectors.write_modules, vectors.read_listed, in_json),
    Subject("qrels", "qrels.tsv", vectors.write_qrels, vectors.read_qrels),
    *(Subject(*kind) for kind in RELEASED_KINDS),
    *(
        Subject(
            f"index, {name}",
            f"an.index/{name}",
            indexes.write_index,
            indexes.read_index,
            in_json if name == "index.json" else _nothing_known,
            exact=True,
            earlier=indexes.earlier_states if name == "log" else _none_earlier,
        )
        for name in (*indexes.FILES, "thumbnails.sqlite")
    ),
    *(
        Subject(f"index unverified, {name}", f"an.index/{name}", indexes.write_index, indexes.read_unverified)
        for name in indexes.FILES
    ),
    *(
        Subject(
            f"compact index, {name}",
            f"an.index/{name}",
            indexes.write_compact,
            indexes.read_compact,
            exact=True,
            earlier=indexes.earlier_states if name == "log" else _none_earlier,
        )
        for name in ("codec.json", "log", "features-0-8.bin")
    ),
    Subject("metrics.jsonl", "metrics.jsonl", _write_metrics, _read_metrics, _in_lines),
    Subject("scores", "scores.json", _write_scores, _read_scores, in_json),
]


def _labels(folder: Path) -> Any:
    labels = labels_from_csv(folder / "labels.csv", IDS, missing="unlabelled")
    return labels.names, labels.matrix.tolist()
