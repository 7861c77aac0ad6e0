"""What version 0.1.0 wrote and computed, recorded once: models, indexes, checkpoints, losses, the public surface.

    python -m tests.compatibility.recording      # in the repository's root, with the version that is to be recorded

The tests beside this file compare every later version with it. Inputs are made from seeds, so that only results are
stored. `RECORDED` must never be written again by a later version: a new format gets a folder of its own.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import torch

import eigenmap as em
from eigenmap.training.progress import Silent
from tests.graphs import blocks

RECORDED = Path(__file__).parent / "v0_1"
STEPS = 20
STOPPED_AT = 10
IMAGES: dict[str, Any] = {
    "n_components": 8,
    "hidden": 8,
    "batch_size": 16,
    "optimizer": "sgd",
    "lr": 0.05,
    "momentum": 0.0,
    "epochs": 4,
    "channels_last": False,
}
"""A tiny fit; without momentum the optimizer has no state, which keeps the checkpoint small."""
GRAPH: dict[str, Any] = {"n_components": 8, "width": 16, "batch_size": 64, "steps": STEPS}
BLOCKS: dict[str, Any] = {**GRAPH, "objective": "neuralef", "sampler": "node-blocks", "held_out": 0.0}
INDEXES: dict[str, dict[str, Any]] = {
    "flat": {},
    "compact": {"precision": "bits", "bytes_per_item": 4},
    "approximate": {"backend": "faiss"},
}


class StoppedError(Exception):
    """Raised to cut a run short."""


class StopAt(Silent):
    """Ends a run after some steps, as a kill would, but after the checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def advance(self, step: int) -> None:
        if step > self.step:
            raise StoppedError


def pictures(count: int = 96, seed: int = 0) -> np.ndarray:
    """Coloured noise around four shades."""
    rng = np.random.default_rng(seed)
    shade = rng.integers(0, 200, size=(4, 1, 1, 3))[np.arange(count) % 4]
    return (shade + rng.integers(0, 56, size=(count, 16, 16, 3))).astype(np.uint8)


def graph() -> tuple[np.ndarray, np.ndarray]:
    made = blocks()
    return made.x, made.edge_index


def vectors(count: int = 500, features: int = 16) -> np.ndarray:
    """Ordered codes: each feature weighs less than the one before."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(count, features)) * 0.8 ** np.arange(features)).astype(np.float32)


def fit_pictures(**more: Any) -> em.Eigenmap:
    return em.fit_images(
        pictures(), recipe="laptop", device="cpu", progress=more.pop("progress", False), **IMAGES, **more
    )


def fit_blocks(**more: Any) -> em.Eigenmap:
    settings = {**GRAPH, "progress": False, **more}
    return em.fit_graph(graph(), device="cpu", **settings)


def kernel_codes() -> np.ndarray:
    """Values of the first eigenfunctions of an RBF kernel, trained for some steps."""
    x = np.linspace(-1, 1, 64)[:, None]
    settings: dict[str, Any] = {"max_steps": STEPS, "tol": 0.0, "batch_size": 32, "random_state": 0}
    # Version 0.1.0 had this length scale by default.
    model = em.NeuralEigenmap(n_components=4, kernel="rbf", kernel_params={"length_scale": 1.0}, **settings)
    return np.asarray(model.fit(x).transform(x))


def losses(metrics: Path) -> list[float]:
    lines = [json.loads(line) for line in (metrics / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines]


def trained_losses(folder: Path) -> dict[str, list[float]]:
    """Losses of 20 steps through every front door that trains by the loop."""
    fit_pictures(out=folder / "images")
    fit_blocks(out=folder / "edges")
    fit_blocks(out=folder / "node blocks", **BLOCKS)
    return {path.name: losses(path) for path in sorted(folder.iterdir())}


def weights(model: em.Eigenmap) -> np.ndarray:
    """All weights in one vector."""
    return torch.cat([value.double().flatten() for value in model.network.state_dict().values()]).numpy()


def found(index: em.CodeIndex) -> dict[str, Any]:
    """Results at two lengths and through a funnel, on what stays after an update and a deletion."""
    queries = vectors(8)
    results = {
        "full": index.search(queries, top=5),
        "short": index.search(queries, top=5, dim=4),
        "funnel": index.search(queries, top=5, shortlist_dim=4, shortlist=50),
        "filtered": index.search(queries, top=5, where={"half": "even"}),
    }
    return {name: {"ids": each.ids, "scores": each.scores.tolist()} for name, each in results.items()}


def make_index(path: Path, **options: Any) -> em.CodeIndex:
    codes = vectors()
    names = [f"item {number}" for number in range(len(codes))]
    halves = [{"half": "even" if number % 2 == 0 else "odd"} for number in range(len(codes))]
    index = em.CodeIndex(codes.shape[1], where=path, **options)
    index.add(codes[:400], names[:400], halves[:400])
    index.add(codes[400:], names[400:], halves[400:])
    index.delete(names[10:20])
    index.update(codes[20:30] * 0.5, names[20:30])
    return index


def embed(recorded: Path, out: Path, files: Any) -> None:
    """Shards of codes of some pictures."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "pictures.npy", pictures(24, seed=1))
        em.embed_images(recorded / "images" / "model", Path(folder) / "pictures.npy", out, files=files, shard_size=10)


def options_of_verbs() -> dict[str, Any]:
    """Every verb with its options: names, types, defaults, whether they are required."""
    import typer

    from eigenmap.cli import app

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for word, sub in command.commands.items():
                yield from walk(sub, f"{name} {word}")
        else:
            kinds = get_type_hints(command.callback)
            yield name, {each.name: _described(each, kinds.get(each.name)) for each in command.params}

    return dict(sorted(walk(typer.main.get_command(app), "eigenmap")))


def _described(parameter: Any, kind: Any) -> dict[str, Any]:
    default = getattr(parameter.default, "value", parameter.default)
    return {
        "options": [*parameter.opts, *parameter.secondary_opts],
        "type": re.sub(r"<\w+ '([^']*)'>", r"\1", re.sub(r"\b(?:[a-z_]+\.)+", "", str(kind))),
        "metavar": parameter.metavar,
        "multiple": parameter.multiple or parameter.nargs == -1,
        "default": default if isinstance(default, str | int | float | bool | None) else repr(default),
        "required": parameter.required,
    }


def record(to: Path) -> None:
    to.mkdir()
    for name, fit in (("images", fit_pictures), ("graph", fit_blocks)):
        with tempfile.TemporaryDirectory() as folder:
            with suppress(StoppedError):
                fit(out=Path(folder) / "run", progress=StopAt(STOPPED_AT))
            shutil.copytree(Path(folder) / "run", to / name / "stopped")
            model = fit(out=Path(folder) / "whole")
            (to / name / "model").mkdir()
            for file in ("model.json", "model.safetensors"):
                shutil.copy(Path(folder) / "whole" / file, to / name / "model" / file)
        rows = pictures(24, seed=1) if name == "images" else graph()[0]
        np.savez(to / name / "expected.npz", codes=model.encode(rows), short=model.encode(rows, dim=3))
        if name == "images":
            for files in ("npy", "parquet"):
                embed(to, to / f"shards-{files}", files)
    expected = {name: found(make_index(to / f"{name}.index", **options)) for name, options in INDEXES.items()}
    (to / "indexes.json").write_text(json.dumps(expected) + "\n")
    np.save(to / "kernel.npy", kernel_codes())
    with tempfile.TemporaryDirectory() as folder:
        (to / "losses.json").write_text(json.dumps(trained_losses(Path(folder)), indent=1) + "\n")
    surface = {"names": sorted(em.__all__), "verbs": options_of_verbs()}
    (to / "surface.json").write_text(json.dumps(surface, indent=1) + "\n")


if __name__ == "__main__":
    record(RECORDED)
