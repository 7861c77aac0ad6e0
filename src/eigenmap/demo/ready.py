"""Trained model in the package: search and the explorer without training.

    model = load()
    place = unpack(Path("runs/ready"))        # model/, and pictures to search for in queries/

`tools/ready_model.py` trains it on the catalogue as it is, with the recipe `catalogue`, and records in `ready.json`
what it finds among the catalogue's queries.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from eigenmap.core.addresses import require_path
from eigenmap.core.files import atomic_write, make_folder
from eigenmap.core.folders import require_free
from eigenmap.data.images import catalogue
from eigenmap.demo.methods import TOP, Method
from eigenmap.evaluation import baselines
from eigenmap.model import Eigenmap

FOLDER = Path(__file__).parent / "ready"
SCORES = "ready.json"
QUERIES = 20
"""Pictures that are written to search for: two of each class, none of which the model has seen."""


def load() -> Eigenmap:
    """Return the trained model."""
    return Eigenmap.load(FOLDER)


def scores() -> dict[str, Any]:
    """Return what the model found when it was stored: one row per length, by method."""
    recorded: dict[str, Any] = json.loads((FOLDER / SCORES).read_text(encoding="utf-8"))
    return recorded


def measure(model: Eigenmap) -> dict[str, Any]:
    """Score a model on the catalogue's queries, beside principal components of the pixels."""
    found = baselines.compare(model, catalogue.load("train"), catalogue.load("query"), TOP)
    return {
        "protocol": "catalogue, clean: 1,000 queries, 10,000 pictures to find; relevant is what has the same class",
        "scores": {key: Method(key, found[key]).rows for key in ("ours", "pixel-pca")},
    }


def unpack(out: Path, force: bool = False) -> Path:
    """Write `model/` and `queries/*.png` into a folder, and return it."""
    require_path(out)
    require_free(out, force)
    load().save(out / "model")
    make_folder(out / "queries")
    queries = catalogue.load("query")
    for row in range(QUERIES):
        number, kind = divmod(row, len(catalogue.CLASSES))
        name = f"{catalogue.CLASSES[kind].replace(' ', '-')}-{number + 1}.png"
        with atomic_write(out / "queries" / name) as file:
            Image.fromarray(np.asarray(queries.pixels[row, 0])).save(file, format="PNG")
    return out
