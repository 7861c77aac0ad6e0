"""Files of vectors that we read, and models of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from eigenmap import Eigenmap
from eigenmap.data.vectors.input import VectorInput
from eigenmap.data.vectors.qrels import load_qrels
from eigenmap.data.vectors.vectors import load_vectors
from eigenmap.formats.sentence_transformers import output_length, read_modules
from eigenmap.networks.vectors import VectorEncoderSpec
from eigenmap.spectrum import Alignment
from tests.formats.test_sentence_transformers import write_base

ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)


def _side(length: int, width: int, seed: int) -> Eigenmap:
    torch.manual_seed(seed)
    spec, input = VectorEncoderSpec(width), VectorInput(length, unit=False)
    network = spec.build(length, False, 3 if width else length)
    rotation = torch.eye(3 if width else length)[:, :3]
    alignment = Alignment(torch.zeros(len(rotation)), rotation, torch.tensor([0.9, 0.5, 0.1]), torch.ones(3), t=1.0)
    about = {"steps": 3, "vectors": {"scores": {"ours": {"3": 0.5}}}}
    return Eigenmap(network, alignment, "projector" if width else "encoder", input, spec, about)


def write_two_spaces(folder: Path) -> None:
    """A model of two spaces with neural heads, not sealed."""
    model = _side(4, 5, 0)
    model.right = _side(6, 5, 1)
    model.save(folder)
    _unseal(folder)


def write_linear(folder: Path) -> None:
    _side(4, 0, 0).save(folder)
    _unseal(folder)


def _unseal(folder: Path) -> None:
    about = json.loads((folder / "model.json").read_text())
    about.pop("description_sha256")
    (folder / "model.json").write_text(json.dumps(about, indent=2))


def read_model(folder: Path) -> Any:
    model = Eigenmap.load(folder)
    codes = [model.encode(ROWS)]
    if model.right is not None:
        codes.append(model.right.encode(np.ones((2, 6), np.float32)))
    assert all(np.isfinite(each).all() and each.dtype == np.float32 for each in codes)
    return [each.tobytes() for each in codes]


def read_forged(folder: Path) -> Any:
    """Weights that were changed by somebody who changed the digest too."""
    about = json.loads((folder / "model.json").read_text())
    about["weights_sha256"] = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    (folder / "model.json").write_text(json.dumps(about))
    model = Eigenmap.load(folder)
    assert model.encode(ROWS).shape == (6, model.n_components)


def write_parquet(folder: Path) -> None:
    lists = pa.array(ROWS.tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": [f"r{i}" for i in range(6)], "vector": lists}), folder / "x.parquet")


def write_arrow(folder: Path) -> None:
    table = pa.table({"vector": pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 4)})
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_rows(file: str) -> Any:
    def read(folder: Path) -> Any:
        vectors = load_vectors(folder / file)
        return vectors.names(), b"".join(block.tobytes() for block in vectors.blocks(4))

    return read


def write_qrels(folder: Path) -> None:
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n0\t1\t1\n2\t3\t2\n4\t5\t0\n")


def read_qrels(folder: Path) -> Any:
    found = load_qrels(folder / "qrels.tsv", [str(i) for i in range(6)], [str(i) for i in range(6)])
    return [column.tolist() for column in found[:3]]


def write_modules(folder: Path) -> None:
    write_base(folder, "Normalize")


def read_listed(folder: Path) -> Any:
    listed = read_modules(folder)
    length = output_length(folder, listed)
    assert length is None or length > 0
    return [[entry["path"], entry["type"]] for entry in listed]
