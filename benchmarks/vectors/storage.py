"""A few bytes per vector: our bit allocation beside the quantisers of faiss and turboquant-pro.

    python -m benchmarks.vectors.storage --data DATA --json OUT.json --seed 0

Documents of the training part and of the test are in one index; test queries, not quantised, search it for their
partner. Quantisers are trained only on the training part, and their settings (number of features and bits of RaBitQ and
turboquant-pro) are chosen there, on held-out pairs. Each row is scored by two rankings of the same decoded vectors, by
their inner product with the query and by their cosine; settings are chosen for each. recall@10 is the share of the ten
nearest documents by the full float vectors of the same kind. "ours" quantises codes learned from pairs; "... on our
codes" gives rivals the same codes, and "ours without pairs" quantises codes of documents alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.vectors import ours, rivals, sets
from benchmarks.vectors.rows import measured
from benchmarks.vectors.scores import Scores, of_ranks
from benchmarks.vectors.sets import Floats, Pairs, Split
from eigenmap import fit_vectors
from eigenmap.search import CodeIndex

BYTES = (16, 32, 96)
NEAREST = 10
BITS = (1, 2, 3, 4)
BY_PRODUCT, BY_COSINE = "scores", "scores by cosine"
"""The scores of a row, by the ranking of the decoded vectors."""
RANKINGS = {BY_PRODUCT: "inner product", BY_COSINE: "cosine"}
"""Words for the rankings, by the scores of a row."""


class Task(NamedTuple):
    """Unit vectors of queries and documents; query k belongs to document k, and further documents are distractors."""

    train: Floats
    queries: Floats
    documents: Floats

    def scores(self, stored: Floats, queries: Floats | None = None) -> Scores:
        """Return the scores of stored documents, compared with the queries by inner product."""
        asked = self.queries if queries is None else queries
        rank, share = [], []
        for start in range(0, len(asked), 500):
            rows = slice(start, start + 500)
            similarity = asked[rows] @ stored.T
            own = similarity[np.arange(len(similarity)), np.arange(start, start + len(similarity))]
            rank.append((similarity >= own[:, None]).sum(1))
            true = _top(self.queries[rows] @ self.documents.T)
            found = _top(similarity)
            share += [len(set(a) & set(b)) / NEAREST for a, b in zip(true, found, strict=True)]
        return {**of_ranks(np.concatenate(rank)), "recall of nearest": float(np.mean(share))}


class Stored(NamedTuple):
    """Decoded content of an index, and the queries to compare it with."""

    documents: Floats
    queries: Floats
    bytes: int

    def by_cosine(self) -> Stored:
        """Return documents of norm 1, whose inner products rank as their cosines do."""
        norms = np.linalg.norm(self.documents, axis=1, keepdims=True)
        return self._replace(documents=self.documents / np.maximum(norms, 1e-12))


Quantiser = Callable[[Task, int], Stored]


def _top(similarity: Floats) -> Any:
    return np.argpartition(-similarity, NEAREST, axis=1)[:, :NEAREST]


def exact(task: Task, n_bytes: int) -> Stored:
    """Nothing is quantised."""
    return Stored(task.documents, task.queries, 4 * task.documents.shape[1])


def bit_allocation(task: Task, n_bytes: int) -> Stored:
    """Ours: bytes by importance of the features."""
    index = CodeIndex(task.documents.shape[1], precision="bits", bytes_per_item=n_bytes)
    index.add(task.documents, range(len(task.documents)))
    stored = np.concatenate([batch.codes for batch in index.batches()])
    return Stored(stored, task.queries, n_bytes)


def product(task: Task, n_bytes: int) -> Stored:
    """Product quantisation of faiss: one byte per part of the vector."""
    import faiss

    quantiser = faiss.ProductQuantizer(_divisible(task, n_bytes), n_bytes, 8)
    train, queries, documents = (_padded(rows, quantiser.d) for rows in task)
    quantiser.train(train)
    return Stored(quantiser.decode(quantiser.compute_codes(documents)), queries, quantiser.code_size)


def optimised_product(task: Task, n_bytes: int) -> Stored:
    """Product quantisation after the rotation that faiss learns for it."""
    import faiss

    n = _divisible(task, n_bytes)
    rotation = faiss.OPQMatrix(n, n_bytes)
    train, queries, documents = (_padded(rows, n) for rows in task)
    rotation.train(train)
    turned = Task(*(rotation.apply(rows) for rows in (train, queries, documents)))
    return product(turned, n_bytes)


def rabitq(task: Task, n_bytes: int, features: int, bits: int) -> Stored:
    """RaBitQ of faiss, on leading principal components."""
    import faiss

    turned, code = _components(task, features), faiss.RaBitQuantizer(features, faiss.METRIC_INNER_PRODUCT, bits)
    code.train(turned.train)
    stored = code.decode(code.compute_codes(turned.documents))
    return Stored(stored, turned.queries, code.code_size)


def turboquant(task: Task, n_bytes: int, features: int, bits: int) -> Stored:
    """turboquant-pro: principal components, rotated at random, with levels of single numbers and the norm."""
    from turboquant_pro import PCAMatryoshka

    pca = PCAMatryoshka(input_dim=task.train.shape[1], output_dim=features)
    pca.fit(task.train)
    pipeline = pca.with_quantizer(bits=bits)
    found = pipeline.compress_batch(task.documents)
    return Stored(np.asarray(pipeline.decompress_batch(found), np.float32), task.queries, found[0].size_bytes)


def _components(task: Task, features: int) -> Task:
    encode = rivals.pca(Pairs(task.train, task.train), 0)
    return Task(*(np.ascontiguousarray(encode(rows, "left", features)) for rows in task))


def _divisible(task: Task, n_bytes: int) -> int:
    """Return the number of features that divides into equal parts."""
    n: int = task.train.shape[1]
    return -(-n // n_bytes) * n_bytes


def _padded(rows: Floats, n: int) -> Floats:
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, n - rows.shape[1]))), dtype=np.float32)


def settings(name: str, n_bytes: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield numbers of features and bits that fill the bytes, including norms and factors."""
    beside = {"rabitq": (8, 20), "turboquant": (4, 4)}[name]  # bytes of norms and factors: one bit, several bits
    for bits in BITS if name == "rabitq" else BITS[1:]:
        free = n_bytes - beside[bits > 1]
        features = min(most, 8 * free // bits // 8 * 8)
        if features >= 8:
            yield features, bits


def chosen(name: str, task: Task, held_out: Task, n_bytes: int) -> tuple[Stored, Stored, dict[str, Any]]:
    """Return the settings with the best score on held-out pairs, by inner product and by cosine."""
    fit = {"rabitq": rabitq, "turboquant": turboquant}[name]
    tried = []
    for features, bits in settings(name, n_bytes, task.train.shape[1]):
        stored = fit(held_out, n_bytes, features, bits)
        if stored.bytes <= n_bytes:
            both = (held_out.scores(each.documents, each.queries)["ndcg@10"] for each in (stored, stored.by_cosine()))
            tried.append([(score, features, bits) for score in both])
    product, cosine = (max(column)[1:] for column in zip(*tried, strict=True))
    stored = fit(task, n_bytes, *product)
    again = stored if cosine == product else fit(task, n_bytes, *cosine)
    about = {"features": product[0], "bits": product[1]}
    return stored, again, {**about, "features by cosine": cosine[0], "bits by cosine": cosine[1]}


def tasks(parts: Split, seed: int, name: str) -> tuple[Task, Task, float]:
    """Return test and held-out pairs as vectors or as our codes, and the seconds to compute the codes."""
    began = time.perf_counter()
    inner = sets.held_out(parts.fit, seed)
    encode = _encoder(parts, seed, name)
    seconds = time.perf_counter() - began

    def task(fit: Pairs, test: Pairs) -> Task:
        return Task(*map(encode, (fit.right, test.left, np.concatenate([test.right, fit.right]))))

    return task(parts.fit, parts.test), task(inner.fit, inner.test), seconds


def _encoder(parts: Split, seed: int, kind: str) -> Callable[[Floats], Floats]:
    if kind == "vectors":
        return lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if kind == "codes":
        model = ours.fitted(parts.fit, seed)
    else:
        model = fit_vectors(parts.fit.right, neighbours=10, seed=seed, progress=False)
    return lambda rows: np.asarray(model.encode(rows), np.float32)


ROWS: dict[str, tuple[str, str]] = {
    "full vectors": ("vectors", "exact"),
    "our full codes": ("codes", "exact"),
    "ours": ("codes", "ours"),
    "pq": ("vectors", "pq"),
    "rabitq": ("vectors", "rabitq"),
    "turboquant": ("vectors", "turboquant"),
    "opq": ("vectors", "opq"),
    "ours without pairs": ("unlabelled", "ours"),
    "pq on our codes": ("codes", "pq"),
    "rabitq on our codes": ("codes", "rabitq"),
    "turboquant on our codes": ("codes", "turboquant"),
    "opq on our codes": ("codes", "opq"),
}
"""Vectors and quantiser of each row, by name."""
PLAIN: dict[str, Quantiser] = {"exact": exact, "ours": bit_allocation, "pq": product, "opq": optimised_product}


def rows() -> list[str]:
    """The names of all rows: a method and its bytes."""
    return [f"{name} @ {n}" for name, (_, how) in ROWS.items() for n in (BYTES if how != "exact" else (0,))]


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    parts = sets.split(sets.load_pairs(given.data, given.set, given.model), given.seed, test=given.test)
    made: dict[str, tuple[Task, Task, float]] = {}

    def measure(row: str) -> dict[str, Any]:
        kind, how = ROWS[row.rpartition(" @ ")[0]]
        n_bytes = int(row.rpartition(" @ ")[2])
        task, held_out, seconds = made.get(kind) or made.setdefault(kind, tasks(parts, given.seed, kind))
        began, cpu = time.perf_counter(), time.process_time()
        about: dict[str, Any] = {}
        if how in PLAIN:
            stored = again = PLAIN[how](task, n_bytes)
        else:
            stored, again, about = chosen(how, task, held_out, n_bytes)
        taken = {"build_seconds": time.perf_counter() - began, "build_cpu_seconds": time.process_time() - cpu}
        scores = {
            key: {str(n_bytes): task.scores(each.documents, each.queries)}
            for key, each in ((BY_PRODUCT, stored), (BY_COSINE, again.by_cosine()))
        }
        return {**scores, "bytes": stored.bytes, "fit_seconds": seconds, **taken, **about}

    protocol = {
        "set": given.set,
        "model": given.model,
        "fitted": parts.fit.count,
        "test": parts.test.count,
        "documents": parts.fit.count + parts.test.count,
    }
    job = {"set": given.set, "model": given.model, "seed": given.seed}
    methods = given.methods.split(",") if given.methods else rows()
    measured(given.json, protocol, job, methods, measure, sets.texts(given.data, given.set))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--set", default="debian")
    made.add_argument("--model", default="minilm")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--test", type=int, default=sets.TEST)
    made.add_argument("--methods", help="names of rows, separated by commas (default: all)")
    return made


if __name__ == "__main__":
    main()
