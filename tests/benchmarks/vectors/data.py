"""A miniature set: pairs that share six directions, by two models."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.vectors.sets import Pairs


def pairs(count: int = 600, features: int = 24, shared: int = 6, seed: int = 0) -> Pairs:
    """Both sides show the shared directions, amid stronger noise of their own, behind one random matrix."""
    rng = np.random.default_rng(seed)
    meaning = rng.normal(size=(count, shared))
    mix = np.random.default_rng(99).normal(size=(features, features))
    sides = []
    for _ in range(2):
        own = np.hstack(
            [meaning + 0.3 * rng.normal(size=meaning.shape), 2 * rng.normal(size=(count, features - shared))]
        )
        sides.append((own @ mix).astype(np.float32))
    return Pairs(*sides)


def write(folder: Path, count: int = 600) -> Path:
    """The set `small` with both models, and the judged set `asked`."""
    made = {"minilm": pairs(count), "wordllama": pairs(count, features=16)}
    (folder / "small").mkdir(parents=True)
    (folder / "asked").mkdir()
    for model, sides in made.items():
        for name, rows in zip(("left", "right"), sides, strict=True):
            np.save(folder / "small" / f"{name}.{model}.npy", rows)
        np.save(folder / "asked" / f"queries.{model}.npy", sides.left[:40])
        np.save(folder / "asked" / f"documents.{model}.npy", sides.right[:400])
    ids = {"query": [f"q{k}" for k in range(40)], "document": [f"d{k}" for k in range(400)]}
    for side, names in ids.items():
        (folder / "asked" / f"{side}-ids.txt").write_text("\n".join(names) + "\n")
    lines = "".join(f"q{k}\td{k}\t1\n" for k in range(40))
    (folder / "asked" / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    return folder
