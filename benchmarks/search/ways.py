"""Ways to search, ours and the alternatives, behind one small interface.

Each is built from float32 codes (cosine). Its free settings are chosen by `tune` on stored items and their true
neighbours: the least effort that finds 99 % of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.codes import unit
from eigenmap.search import Approximate, CodeIndex
from eigenmap.search.advisor import Measure
from eigenmap.search.backend import RankingRule

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

TOP = 10
WANTED = 0.99
PLENTY = 8 * 2**30
"""Memory for copies in our index: as much as a library that keeps all vectors in memory uses."""
EFFORTS = (16, 32, 64, 128, 256, 512, 1024)


class Way(Protocol):
    """One way to search."""

    bytes_per_item: float
    setting: str

    def build(self, codes: Floats, say: Callable[[str], object]) -> None: ...

    def tune(self, queries: Floats, truth: Ids) -> None: ...

    def search(self, queries: Floats) -> Ids: ...


def recall(found: Ids, truth: Ids) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, truth, strict=True)]))


class Ours:
    """CodeIndex in memory; with `auto`, stages are chosen as by the advisor, among all or only those of one kind."""

    def __init__(
        self, dim: int | None = None, auto: str | None = None, ranking: RankingRule = "relevance", **options: Any
    ) -> None:
        self.dim, self.auto, self.ranking, self.options = dim, auto, ranking, options
        self.arguments: dict[str, Any] = {} if dim is None else {"dim": dim}
        self.setting = "all features" if dim is None else f"{dim} features"
        self.bytes_per_item = 0.0

    def build(self, codes: Floats, say: Callable[[str], object]) -> None:
        k = codes.shape[1]
        self.index = CodeIndex(k, memory_bytes=PLENTY, **self.options)
        self.index.rank_by(self.ranking)
        for start in range(0, len(codes), 100_000):
            self.index.add(codes[start : start + 100_000], range(start, min(start + 100_000, len(codes))))
        precision = {"float32": 4.0, "float16": 2.0, "int8": 1.0}.get(self.index.about.precision)
        length = self.dim or k
        self.bytes_per_item = float(self.index.about.bytes_per_item or length * (precision or 4.0))
        if (how := self.index.about.approximate) is not None:
            self.index.search(codes[:1])  # makes the approximate index
            self.bytes_per_item += _size_of(self.index.backend, len(codes))  # beside the codes
            self.setting = f"{how.method} on {how.dim}, all compared"

    def tune(self, queries: Floats, truth: Ids) -> None:
        if self.auto is None:
            return
        measure = Measure(self.index.backend, TOP, len(queries), seed=0)
        settings = [(stages, True) for stages in measure.funnels(WANTED)] if self.auto != "approximate" else []
        if self.index.about.approximate is not None:
            settings += [(stages, False) for stages in measure.approximate(WANTED)]
        rows = [measure.row("", stages, exact) for stages, exact in settings]
        good = [row for row in rows if row.recall >= WANTED] or [max(rows, key=lambda row: row.recall)]
        best = max(good, key=lambda row: row.queries_per_second)
        self.arguments = {"funnel": list(best.stages), "exact": best.exact}
        self.setting = ("" if best.exact else "approximate ") + " > ".join(f"{d}:{s}" for d, s in best.stages)

    def search(self, queries: Floats) -> Ids:
        found = self.index.search(queries, **({"top": TOP} | self.arguments))
        return np.array(found.ids, np.int64)


def _size_of(backend: Any, items: int) -> float:
    """Bytes per item of the approximate index, as faiss would write it."""
    import faiss

    return len(faiss.serialize_index(backend.prefix_index())) / items


class Faiss:
    """A faiss index on the full vectors, given by its factory string; `knob` is the parameter that sets its effort."""

    def __init__(self, factory: str, knob: str | None = None) -> None:
        self.factory, self.knob = factory, knob
        self.setting, self.bytes_per_item = factory, 0.0

    def build(self, codes: Floats, say: Callable[[str], object]) -> None:
        import faiss

        lists = max(1, min(1024, len(codes) // 39))  # faiss warns below 39 points per list
        self.factory = self.setting = self.factory.format(lists=lists)
        self.index = faiss.index_factory(codes.shape[1], self.factory, faiss.METRIC_INNER_PRODUCT)
        rows = unit(codes)
        self.index.train(rows[np.random.default_rng(0).permutation(len(rows))[:100_000]])
        for start in range(0, len(rows), 100_000):
            self.index.add(rows[start : start + 100_000])
            say(f"{start + 100_000:,}")
        self.bytes_per_item = len(faiss.serialize_index(self.index)) / len(codes)

    def tune(self, queries: Floats, truth: Ids) -> None:
        import faiss

        if self.knob is None:
            return
        for effort in EFFORTS:
            faiss.ParameterSpace().set_index_parameter(self.index, self.knob, effort)
            self.setting = f"{self.factory}, {self.knob} = {effort}"
            if recall(self.search(queries), truth) >= WANTED:
                break

    def search(self, queries: Floats) -> Ids:
        found: Ids = self.index.search(unit(queries), TOP)[1]
        return found


class Principal:
    """PCA to a length, compared exactly."""

    def __init__(self, dim: int) -> None:
        self.dim, self.setting, self.bytes_per_item = dim, f"{dim} axes", 4.0 * dim

    def build(self, codes: Floats, say: Callable[[str], object]) -> None:
        sample = codes[np.random.default_rng(0).permutation(len(codes))[:100_000]].astype(np.float64)
        self.mean = sample.mean(axis=0).astype(np.float32)
        axes = np.linalg.eigh(np.cov(sample.T))[1][:, ::-1]
        self.axes = axes[:, : self.dim].astype(np.float32)
        self.rows = unit((codes - self.mean) @ self.axes)

    def tune(self, queries: Floats, truth: Ids) -> None:
        """Nothing to choose."""

    def search(self, queries: Floats) -> Ids:
        import faiss

        cut = np.ascontiguousarray(unit((queries - self.mean) @ self.axes))
        found: Ids = faiss.knn(cut, self.rows, TOP, metric=faiss.METRIC_INNER_PRODUCT)[1]
        return found


class Usearch:
    """HNSW of usearch on the full vectors as half floats."""

    def __init__(self) -> None:
        self.setting, self.bytes_per_item = "HNSW, float16", 0.0

    def build(self, codes: Floats, say: Callable[[str], object]) -> None:
        from usearch.index import Index

        self.index = Index(ndim=codes.shape[1], metric="cos", dtype="f16", connectivity=16, expansion_add=80)
        for start in range(0, len(codes), 100_000):
            part = codes[start : start + 100_000]
            self.index.add(np.arange(start, start + len(part)), part)
            say(f"{start + len(part):,}")
        self.bytes_per_item = self.index.serialized_length / len(codes)

    def tune(self, queries: Floats, truth: Ids) -> None:
        for effort in EFFORTS:
            self.index.expansion_search = effort
            self.setting = f"HNSW, float16, expansion {effort}"
            if recall(self.search(queries), truth) >= WANTED:
                break

    def search(self, queries: Floats) -> Ids:
        found = self.index.search(queries, TOP)
        return np.asarray(found.keys, np.int64).reshape(len(queries), TOP)


class Postgres:
    """PostgreSQL with pgvector: HNSW on a prefix and rerank in the same statement, over one connection."""

    prefix = 32

    def __init__(self, url: str) -> None:
        self.url, self.setting, self.bytes_per_item = url, f"hnsw on {self.prefix}", 0.0

    def build(self, codes: Floats, say: Callable[[str], object]) -> None:
        from benchmarks.scale.postgres import TABLE, load_codes, sizes

        load_codes(self.url, codes, "float16", self.prefix)
        self.bytes_per_item = sizes(self.url)["bytes_per_item"]
        self.index = CodeIndex.open(self.url, table=TABLE)
        self.stages = [(self.prefix, 100), (codes.shape[1], TOP)]

    def tune(self, queries: Floats, truth: Ids) -> None:
        for shortlist in (50, 100, 200, 400, 800):
            self.stages[0] = (self.prefix, shortlist)
            self.setting = " > ".join(f"{dim}:{keep}" for dim, keep in self.stages)
            if recall(self.search(queries), truth) >= WANTED:
                break

    def search(self, queries: Floats) -> Ids:
        return np.array(self.index.search(queries, funnel=self.stages).ids, np.int64)


def ways(postgres: str | None = None) -> dict[str, Callable[[], Way]]:
    """Every way by its name, ours first."""
    found: dict[str, Callable[[], Way]] = {
        "exact, full length": Ours,
        "exact, prefix 16": lambda: Ours(dim=16),
        "exact, prefix 64": lambda: Ours(dim=64),
        "funnel": lambda: Ours(auto="funnel"),
        "HNSW on prefix + refine": lambda: Ours(
            auto="approximate", backend="faiss", approximate=Approximate("hnsw", 64, 200, 64)
        ),
        "IVF on prefix + refine": lambda: Ours(
            auto="approximate", backend="faiss", approximate=Approximate("ivf", 64, 200, 64)
        ),
        "default (dim = auto)": lambda: Ours(auto="default", backend="faiss"),
        "int8": lambda: Ours(precision="int8"),
        "bit budget, 16 bytes": lambda: Ours(precision="bits", bytes_per_item=16),
        "bit budget, 64 bytes": lambda: Ours(precision="bits", bytes_per_item=64),
        "bit budget by cosine, 16 bytes": lambda: Ours(precision="bits", bytes_per_item=16, ranking="cosine"),
        "bit budget by cosine, 64 bytes": lambda: Ours(precision="bits", bytes_per_item=64, ranking="cosine"),
        "faiss HNSW, full vector": lambda: Faiss("HNSW16", "efSearch"),
        "faiss IVF-PQ, 16 bytes": lambda: Faiss("IVF{lists},PQ16", "nprobe"),
        "faiss IVF-PQ, 64 bytes": lambda: Faiss("IVF{lists},PQ64", "nprobe"),
        "faiss SQ8, full vector": lambda: Faiss("SQ8"),
        "PCA to 16": lambda: Principal(16),
        "PCA to 64": lambda: Principal(64),
        "usearch HNSW, full vector": Usearch,
    }
    if postgres is not None:
        found |= {name: lambda: Postgres(postgres) for name in DATABASE}
    return found


DATABASE: Sequence[str] = ("pgvector HNSW prefix + rerank",)
"""Ways that need a database."""
NAMES: Sequence[str] = (*ways(), *DATABASE)
