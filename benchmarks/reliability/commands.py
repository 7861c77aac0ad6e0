"""Commands that are killed, starved of disk space and run against each other, and readers of their results."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.children import succeed

CLOCKS = {"finished", "peak_memory_mb", "description_sha256"}
"""Fields that differ between two equal runs, besides names with seconds: clocks, and the seal over them."""
SMALL = ("--device", "cpu", "--quiet")
Content = dict[str, str]
"""Content visible to a user: digest of each part, by name."""


def make_inputs(folder: Path) -> None:
    """Create the inputs of the commands, which never change."""
    from tests.end_to_end.photos import pictures
    from tests.graphs import blocks

    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "pictures.npy", pictures(240))
    np.save(folder / "more.npy", pictures(120, seed=1))
    x, edges, y = blocks(300)
    np.savez(folder / "graph.npz", x=x, edge_index=edges, y=y)
    rng = np.random.default_rng(0)
    left = rng.normal(size=(2000, 12)).astype(np.float32)
    np.save(folder / "left.npy", left)
    np.save(folder / "right.npy", left @ rng.normal(size=(12, 12)).astype(np.float32) / 4)
    new = np.arange(300, 320)
    arrivals = np.stack([np.repeat(new, 2), np.random.default_rng(1).integers(0, 300, 40)])
    np.savez(folder / "arrivals.npz", x=rng.normal(size=(20, 8)).astype(np.float32), edge_index=arrivals)
    fit = ("-k", 8, "--steps", 20, *SMALL)
    succeed("fit", "images", folder / "pictures.npy", "--out", folder / "model", "--batch-size", 24, *fit)
    succeed("fit", "graph", folder / "graph.npz", "--out", folder / "nodes", "--batch-size", 64, "--width", 16, *fit)
    index = ("index", folder / "model", folder / "pictures.npy", "--device", "cpu", "--quiet")
    succeed(*index, "--out", folder / "an.index")
    succeed("index", folder / "model", folder / "more.npy", *SMALL, "--out", folder / "more.index")
    succeed("export", folder / "more.index", "--to", folder / "old.faiss", "--quiet")
    succeed(
        *("embed", folder / "nodes", folder / "graph.npz", "--neighbours"),
        *("--out", folder / "stored", "--device", "cpu", "--quiet"),
    )


@dataclass(frozen=True)
class Command:
    """A command with its output in its own folder.

    Attributes:
        name: name of the command.
        words: its words, given the inputs and the output folder.
        again: words added to repeat it after a fault.
        before: initial content of the output folder, by name, copied from the inputs.
        whole: names that must be complete whenever they exist; the others (checkpoints, metrics) belong to unfinished
            work.
        repeatable: whether it may be repeated after it was complete.
        database: whether it writes to a database instead.

    """

    name: str
    words: Callable[[Path, Path], tuple[object, ...]]
    again: tuple[str, ...] = ()
    before: Mapping[str, str] | None = None
    whole: Callable[[Path], Content] = lambda place: {}
    repeatable: bool = True
    database: bool = False

    def prepare(self, inputs: Path, place: Path) -> None:
        """Restore the output folder to its state before the command."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, source in (self.before or {}).items():
            (shutil.copytree if (inputs / source).is_dir() else shutil.copy)(inputs / source, place / name)


def run_content(place: Path) -> Content:
    """Return the content of a model, if there is one: weights, description and metrics without clocks."""
    from eigenmap.model.files import weights_file

    run = place / "run"
    if not (run / "model.json").exists():
        return {}
    about = json.loads((run / "model.json").read_text())
    weights = weights_file(run)  # beside its place if the save was interrupted after the description
    lines = (run / "metrics.jsonl").read_text().splitlines() if (run / "metrics.jsonl").exists() else []
    metrics = [json.loads(line) for line in lines]
    return {
        "weights": digest(weights.read_bytes()),
        "description": digest(json.dumps(timeless(about)).encode()),
        "metrics": digest(json.dumps(timeless(metrics)).encode()),
    }


def timeless(value: Any) -> Any:
    """Return a value without clocks."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in CLOCKS and "second" not in k}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def tree_content(*names: str) -> Callable[[Path], Content]:
    """Return a reader of the bytes of every file under these names."""

    def content(place: Path) -> Content:
        roots = [place / name for name in names]
        files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*")))]
        return {str(file.relative_to(place)): digest(file.read_bytes()) for file in files if file.is_file()}

    return content


def file_with_names(name: str) -> Callable[[Path], Content]:
    """Return a reader of a file and of the texts beside it, which mean nothing without the file."""
    both = tree_content(name, f"{name}.ids.json")
    return lambda place: both(place) if (place / name).exists() else {}


def faiss_content(place: Path) -> Content:
    """Return the codes of a FAISS index by their texts: the text at place i of its list is that of id i."""
    import faiss

    texts = json.loads((place / "codes.faiss.ids.json").read_text())
    found: Any = faiss.read_index(str(place / "codes.faiss"))
    flat, ids = found, range(found.ntotal)
    if isinstance(found, faiss.IndexIDMap2):
        flat, ids = found.index, faiss.vector_to_array(found.id_map)
    return {texts[i]: digest(code.tobytes()) for i, code in zip(ids, flat.reconstruct_n(0, found.ntotal), strict=True)}


def index_content(place: Path) -> Content:
    """Return items of an index with codes and metadata, its pictures and its model, independent of its log's order."""
    from eigenmap import Eigenmap
    from eigenmap.search import CodeIndex
    from eigenmap.service.thumbnails import StoredPictures

    path = place / "an.index"
    index, pictures = CodeIndex.open(path), StoredPictures(path)
    index.verify()
    found = {}
    for batch in index.batches(1000):
        for name, code, about in zip(batch.ids, batch.codes, batch.metadata, strict=True):
            picture = pictures.read(str(name))
            found[str(name)] = digest(code.tobytes() + json.dumps(about).encode() + (picture or b"none"))
    return {**found, "model": Eigenmap.load(path / "model").weights_sha256 or ""}


def table_content(url: str) -> Callable[[Path], Content]:
    """Return a reader of the rows of a table."""

    def content(place: Path) -> Content:
        from tests.database import rows, tables

        if "photos" not in tables(url):
            return {}
        found = rows(url, "SELECT to_jsonb(p)::text FROM photos p ORDER BY 1")
        return {"rows": digest(json.dumps(found).encode()), "count": str(len(found)), "tables": str(tables(url))}

    return content


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _index(*more: object) -> Callable[[Path, Path], tuple[object, ...]]:
    def words(inputs: Path, place: Path) -> tuple[object, ...]:
        out = ("--out", place / "an.index", "--device", "cpu", "--quiet")
        return ("index", inputs / "model", inputs / "more.npy", *out, *more)

    return words


def _export(name: str) -> Command:
    source = "model" if name.endswith(".onnx") else "an.index"
    return Command(
        f"export {name.partition('.')[2]}",
        lambda inputs, place: ("export", inputs / source, "--to", place / name, "--quiet"),
        ("--force",),
        whole=file_with_names(name),
    )


def commands(url: str = "") -> dict[str, Command]:
    """Return all commands; `url` is the address of an empty database."""
    every = [
        Command(
            "fit images",
            lambda inputs, place: (
                *("fit", "images", inputs / "pictures.npy", "--out", place / "run", "-k", 8, "--steps", 20),
                *("--batch-size", 16, "--image-size", 8, "--set", "hidden=32", *SMALL),
            ),
            ("--resume",),
            whole=run_content,
        ),
        Command(
            "fit graph",
            lambda inputs, place: (
                *("fit", "graph", inputs / "graph.npz", "--out", place / "run", "-k", 8, "--steps", 60),
                *("--batch-size", 64, "--width", 16, *SMALL),
            ),
            ("--resume",),
            whole=run_content,
        ),
        Command(
            "fit vectors",
            lambda inputs, place: (
                *("fit", "vectors", inputs / "left.npy", "--pairs", inputs / "right.npy", "--out", place / "run"),
                *("-k", 8, "--solver", "neural", "--steps", 40, "--width", 16, "--two-spaces", *SMALL),
            ),
            ("--resume",),
            whole=run_content,
        ),
        Command(
            "embed",
            lambda inputs, place: (
                *("embed", inputs / "model", inputs / "pictures.npy", "--out", place / "codes"),
                *("--files", "npy", "--shard-size", 20, *SMALL),
            ),
            whole=tree_content("codes"),
        ),
        Command(
            "embed, one file",
            lambda inputs, place: (
                *("embed", inputs / "model", inputs / "pictures.npy", "--out", place / "codes.parquet"),
                *("--shard-size", 20, *SMALL),
            ),
            whole=tree_content("codes.parquet"),
        ),
        Command(
            "append nodes",
            lambda inputs, place: (
                *("embed", inputs / "nodes", inputs / "arrivals.npz", "--append", "--out", place / "stored", *SMALL),
            ),
            before={"stored": "stored"},
            whole=tree_content("stored"),
            repeatable=False,
        ),
        Command("index append", _index("--add"), before={"an.index": "an.index"}, whole=index_content),
        Command("index replace", _index("--force"), before={"an.index": "an.index"}, whole=index_content),
        *(_export(name) for name in ("codes.parquet", "codes.faiss", "model.onnx")),
        Command(
            "export faiss again",
            lambda inputs, place: ("export", inputs / "an.index", "--to", place / "codes.faiss", "--force", "--quiet"),
            before={f"codes.faiss{more}": f"old.faiss{more}" for more in ("", ".ids.json")},
            whole=faiss_content,
        ),
        Command(
            "database load",
            lambda inputs, place: (
                *("index", inputs / "model", inputs / "pictures.npy", "--to", url, "--table", "photos"),
                *("--batch-size", 16, *SMALL),
            ),
            whole=table_content(url),
            database=True,
        ),
    ]
    return {command.name: command for command in every}
