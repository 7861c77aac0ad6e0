"""What eigenmap writes and then calls done, one operation a class: small, and the same each time it is made.

As a program (`python -m tests.robustness.operations FOLDER`) it makes all of them, each in a folder of its own, and
says how far it is by writes to the file `marks`, which stand among its recorded system calls.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigenmap import Eigenmap, NeuralEigenmap, embed_images
from eigenmap.cli.outputs import write_json_output
from eigenmap.cli.vector_codes import embed_vectors
from eigenmap.data.graphs.files import save_graph
from eigenmap.data.graphs.graph import Graph, load_graph
from eigenmap.description import MODEL_FORMAT, format_of
from eigenmap.embedding.append import append_nodes
from eigenmap.embedding.node_store import NodeCodes
from eigenmap.embedding.nodes import embed_nodes
from eigenmap.embedding.shards import Codebook
from eigenmap.export import export_faiss, export_map, export_parquet
from eigenmap.objectives import build
from eigenmap.search import CodeIndex
from eigenmap.training import TrainingConfig, checkpoint, train
from eigenmap.training.metrics import MetricsFile
from eigenmap.training.progress import Silent
from tests.formats.models import vector_model
from tests.formats.test_sentence_transformers import VECTORS, run_folder, write_base
from tests.graphs import blocks
from tests.robustness import index_operations  # noqa: F401 - its operations are among all
from tests.robustness.operation import Acknowledge, K, Operation, Step, codes, existing, make_inputs, node_model, table
from tests.training.toys import ToyNetwork, ToyRelation


class SaveModel(Operation):
    """A model in a new folder of a new folder."""

    def steps(self) -> list[Step]:
        return [partial(self.save, seed=1)]

    def save(self, folder: Path, seed: int) -> None:
        node_model(seed).save(folder / "runs" / "mine")

    def read(self, folder: Path) -> object:
        model = Eigenmap.load(folder / "runs" / "mine")
        return table(range(5), model.encode(np.eye(5, 8, dtype=np.float32)))


class SaveModelAgain(SaveModel):
    """A model over another, twice."""

    def prepare(self, folder: Path) -> None:
        self.save(folder, seed=0)

    def steps(self) -> list[Step]:
        return [partial(self.save, seed=seed) for seed in (1, 2)]


class SaveEstimator(Operation):
    """An estimator over a model of another kind, and then over itself."""

    def prepare(self, folder: Path) -> None:
        node_model(0).save(folder / "mine")

    def steps(self) -> list[Step]:
        return [partial(self.save, seed=seed) for seed in (1, 2)]

    def save(self, folder: Path, seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=(20, 2))
        NeuralEigenmap(2, network_params={"width": 4, "depth": 1}, max_steps=0, random_state=0).fit(x).save(
            folder / "mine"
        )

    def read(self, folder: Path) -> object:
        if format_of(folder / "mine") == MODEL_FORMAT:
            return table(range(5), Eigenmap.load(folder / "mine").encode(np.eye(5, 8, dtype=np.float32)))
        return table(range(2), NeuralEigenmap.load(folder / "mine").transform(np.eye(2)))


class Train(Operation):
    """A run that saves a checkpoint after every step."""

    config = TrainingConfig(steps=4, lr=1e-2, log_every=1, checkpoint_every=1, accelerator="cpu")

    def perform(self, folder: Path, acknowledge: Acknowledge) -> None:
        class Steps(Silent):
            def advance(self, step: int) -> None:
                if step > 1:  # before a step is done, the one before it is saved
                    acknowledge(f"checkpoint {step - 1}")

        run = folder / "runs" / "mine"
        train(ToyNetwork(), ToyRelation(), build("nested"), self.config, out=run, resume=True, progress=Steps())
        acknowledge(f"checkpoint {self.config.steps}")

    def read(self, folder: Path) -> object:
        run = folder / "runs" / "mine"
        saved = checkpoint.load(run / "checkpoint.pt")
        history = MetricsFile(run / "metrics.jsonl", resume_step=saved.step).history
        weights = {name: round(float(values.double().sum()), 4) for name, values in saved.network.items()}
        return saved.step, [record["step"] for record in history], weights


class EmbedFolder(Operation):
    """Shards in a new folder, and then others in their place."""

    files = "parquet"

    def steps(self) -> list[Step]:
        return [partial(self.embed, dim=dim) for dim in (4, 2)]

    def embed(self, folder: Path, dim: int) -> None:
        out = folder / "new" / "codes"
        run, source, files = self.inputs / "images", self.inputs / "pictures.npy", self.files
        embed_images(run, source, out, dim, shard_size=4, files=files)  # type: ignore[arg-type]

    def read(self, folder: Path) -> object:
        book = Codebook.open(folder / "new" / "codes")
        content = {name: row for ids, matrix in book for name, row in table(ids, matrix).items()}
        assert len(content) == len(book)
        return content


class EmbedNpyFolder(EmbedFolder):
    """The same, as files of NumPy."""

    files = "npy"


class EmbedNodes(Operation):
    """Codes of the nodes of a graph in a new folder, and then those of another graph in their place."""

    def steps(self) -> list[Step]:
        return [partial(self.embed, seed=seed) for seed in (0, 1)]

    def embed(self, folder: Path, seed: int) -> None:
        graph = load_graph(blocks(12, seed=seed)[:2])
        model = Eigenmap.load(self.inputs / "nodes")
        embed_nodes(model, graph.x, graph.walk(), folder / "new" / "codes", overwrite=True)

    def read(self, folder: Path) -> object:
        stored = NodeCodes.open(folder / "new" / "codes")
        stored.verify()
        return table(range(len(stored)), stored.codes), stored.walk().edges().tolist()


class AppendNodes(EmbedNodes):
    """Nodes that arrive one after another."""

    def prepare(self, folder: Path) -> None:
        self.embed(folder, seed=0)

    def steps(self) -> list[Step]:
        return [partial(self.append, number=number) for number in (12, 13)]

    def append(self, folder: Path, number: int) -> None:
        model, path = Eigenmap.load(self.inputs / "nodes"), folder / "new" / "codes"
        if len(NodeCodes.open(path)) == number:  # else it had arrived before
            append_nodes(model, path, np.ones((1, 8), np.float32), [[number, number], [0, number - 1]])


class EmbedFile(Operation):
    """All codes in one file, and then others in its place."""

    name = "codes.npz"

    def steps(self) -> list[Step]:
        return [partial(self.embed, dim=dim) for dim in (4, 2)]

    def embed(self, folder: Path, dim: int) -> None:
        embed_images(self.inputs / "images", self.inputs / "pictures.npy", folder / self.name, dim, shard_size=4)

    def read(self, folder: Path) -> object:
        path = existing(folder / self.name)
        with np.load(path) as content:
            return table(content["ids"], content["codes"])


class EmbedParquetFile(EmbedFile):
    """The same, as a table."""

    name = "codes.parquet"

    def read(self, folder: Path) -> object:
        return read_parquet(folder / self.name)


class EmbedNpyFile(EmbedFile):
    """The same, as a matrix with names in a file beside it, which are never those of other codes."""

    name = "codes.npy"
    gap = True

    def read(self, folder: Path) -> object:
        names = existing(folder / "codes.ids.json")
        return table(json.loads(names.read_bytes()), np.load(existing(folder / self.name)))


class EmbedVectors(EmbedNpyFile):
    """Codes of vectors with the names of these beside them, and then others in their place."""

    def prepare(self, folder: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        vector_model(True).save(folder / "run")
        rows = pa.array(VECTORS.tolist(), pa.list_(pa.float64()))
        for dim in (4, 2):
            columns = {"id": [f"{dim} {row}" for row in range(len(VECTORS))], "vector": rows}
            pq.write_table(pa.table(columns), folder / f"x{dim}.parquet")

    def embed(self, folder: Path, dim: int) -> None:
        embed_vectors(
            folder / "run", folder / f"x{dim}.parquet", folder / self.name, dim, "cpu", None, force=True, quiet=True
        )


class SaveGraph(Operation):
    """A graph as a folder, new and then over another."""

    name = "new/graph"

    def steps(self) -> list[Step]:
        return [partial(self.save, seed=seed) for seed in (0, 1, 2)]

    def save(self, folder: Path, seed: int) -> None:
        made = blocks(12, seed=seed)
        x, edges, y = (torch.from_numpy(array) for array in made)
        save_graph(Graph(x, edges, y=y), folder / self.name)

    def read(self, folder: Path) -> object:
        graph = load_graph(str(folder / self.name))
        x = graph.x
        assert isinstance(x, torch.Tensor)
        return table(range(len(x)), x.numpy()), graph.walk().edges().tolist()


class SaveGraphFile(SaveGraph):
    """The same as one file."""

    name = "graph.npz"


class ExportParquet(Operation):
    """Codes of an index in one file, and then others in its place."""

    def steps(self) -> list[Step]:
        return [partial(self.export, index=memory(seed)) for seed in (0, 1)]

    def export(self, folder: Path, index: CodeIndex) -> None:
        export_parquet(index, folder / "codes.parquet")

    def read(self, folder: Path) -> object:
        return read_parquet(folder / "codes.parquet")


class ExportFaiss(ExportParquet):
    """The same for FAISS; ids are numbers, and so in the file."""

    def export(self, folder: Path, index: CodeIndex) -> None:
        export_faiss(index, folder / "codes.faiss")

    def read(self, folder: Path) -> object:
        import faiss

        found: Any = faiss.read_index(str(existing(folder / "codes.faiss")))
        return table(faiss.vector_to_array(found.id_map), found.index.reconstruct_n(0, found.ntotal))


class ExportFaissTexts(ExportParquet):
    """The same, with ids that are texts, and so in a file beside it."""

    def export(self, folder: Path, index: CodeIndex) -> None:
        texts = CodeIndex(K, "inner")
        (batch,) = index.batches()
        texts.add(batch.codes, [f"{batch.codes[i, 0]:.4f}" for i in range(len(batch.ids))])
        export_faiss(texts, folder / "codes.faiss")

    def read(self, folder: Path) -> object:
        import faiss

        names = [*folder.glob("*.ids.json")]
        found: Any = faiss.read_index(str(existing(folder / "codes.faiss")))
        texts = json.loads(existing((names or [folder / "names"])[0]).read_bytes())
        if isinstance(found, faiss.IndexIDMap2):  # between two steps
            numbers, flat = faiss.vector_to_array(found.id_map), found.index
        else:
            numbers, flat = range(found.ntotal), found
        return table([texts[i] for i in numbers], flat.reconstruct_n(0, found.ntotal))


class ExportMap(Operation):
    """A linear model of vectors as plain numbers, and then another in its place."""

    def steps(self) -> list[Step]:
        return [partial(self.export, seed=seed) for seed in (0, 1)]

    def prepare(self, folder: Path) -> None:
        for seed in (0, 1):
            vector_model(True, seed=seed).save(folder / f"run{seed}")

    def export(self, folder: Path, seed: int) -> None:
        export_map(folder / f"run{seed}", folder / "map.npy")

    def read(self, folder: Path) -> object:
        matrix = np.load(existing(folder / "map.npy"))
        return table(range(len(matrix)), matrix)


class ExportSentenceTransformers(ExportMap):
    """A folder of sentence-transformers, and then another in its place."""

    def prepare(self, folder: Path) -> None:
        write_base(folder / "base")

    def export(self, folder: Path, seed: int) -> None:
        vector_model(True, seed=seed).to_sentence_transformers(folder / "base", folder / "out", overwrite=True)

    def read(self, folder: Path) -> object:
        existing(folder / "out")
        return table(range(8), run_folder(folder / "out", VECTORS))


class WriteResults(Operation):
    """A JSON file of results in a new folder, and then another."""

    def steps(self) -> list[Step]:
        return [partial(self.write, n=n) for n in (1, 2)]

    def write(self, folder: Path, n: int) -> None:
        write_json_output(folder / "a" / "b" / "results.json", {"n": n})

    def read(self, folder: Path) -> object:
        return json.loads(existing(folder / "a" / "b" / "results.json").read_bytes())


def read_parquet(path: Path) -> object:
    import pyarrow.parquet as pq

    content = pq.read_table(existing(path)).to_pydict()
    return table(content["id"], content["code"])


def memory(seed: int) -> CodeIndex:
    index = CodeIndex(K, "inner")
    index.add(codes(5, seed), list(range(5)))
    return index


def kinds(base: type[Operation] = Operation) -> list[type[Operation]]:
    """All operations that there are."""
    return [kind for child in base.__subclasses__() for kind in [child, *kinds(child)]]


def main(root: Path) -> None:
    """Make all operations below a folder, and mark each acknowledgement."""
    torch.set_num_threads(1)
    descriptor = os.open(root / "marks", os.O_WRONLY | os.O_CREAT)
    (root / "inputs").mkdir()
    make_inputs(root / "inputs")
    for kind in kinds():
        folder = root / kind.__name__
        os.write(descriptor, b"operation " + kind.__name__.encode())
        folder.mkdir()
        operation = kind(root / "inputs")
        operation.prepare(folder)
        os.write(descriptor, b"begin")
        operation.perform(folder, lambda text: os.write(descriptor, text.encode()))
        os.write(descriptor, b"end")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
