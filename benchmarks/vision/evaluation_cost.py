"""Cost of measuring retrieval exactly, compared with the product of queries and gallery that every exact ranking needs.

    python -m benchmarks.vision.evaluation_cost [--device cuda] [--galleries 50000 200000 800000] [--json FILE]

Codes are random and carry some information on their classes. They are in host memory, like those of a large collection,
and `retrieval` sends them to the device block by block. "Sorted whole" is the usual alternative of a few lines: all
similarities at once, sorted, then scored; it has the same mAP. The limit is the product alone, with codes already on
the device, in the same float32. Memory is the peak of the memory allocated on a GPU, including codes on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.common import harness
from benchmarks.common.pages import NONE, NOT_RUN, made_by, table
from benchmarks.vision.speed import seconds
from eigenmap.evaluation.retrieval import lengths, retrieval

CLASSES = 100
Labelled = tuple[Tensor, Tensor, Tensor, Tensor]
"""Queries, gallery, and the labels of each."""


@dataclass(frozen=True)
class Shape:
    """Sizes to measure."""

    queries: int = 5_000
    features: int = 2_048
    top: int = 1_000


def codes(count: int, features: int, seed: int) -> tuple[Tensor, Tensor]:
    """Codes around the centres of their classes, and the classes."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, features, generator=torch.Generator().manual_seed(0)) / 8
    labels = torch.randint(CLASSES, (count,), generator=generator)
    found = torch.empty(count, features)
    for start in range(0, count, 10_000):
        part = labels[start : start + 10_000]
        found[start : start + 10_000] = centres[part] + torch.randn(len(part), features, generator=generator)
    return found, labels


def by_blocks(data: Labelled, dims: list[int], top: int, device: torch.device) -> float:
    """The mAP over found@top of the last length, by `retrieval`."""
    rows = retrieval(*data, dims, top=(top,), device=device)
    return rows[-1][f"map_over_found@{top}"]


def sorted_whole(data: Labelled, top: int, device: torch.device) -> float:
    """Compute mAP at full length by sorting all similarities at once."""
    queries, gallery, query_labels, labels = (part.to(device) for part in data)
    similarity = normalize(queries, dim=1) @ normalize(gallery, dim=1).T
    order = similarity.argsort(dim=1, descending=True, stable=True)[:, :top]
    hits = labels[order] == query_labels[:, None]
    found = hits.double().cumsum(1)
    precision = found / torch.arange(1, hits.shape[1] + 1, device=device)
    return float(((precision * hits).sum(1) / found[:, -1].clamp(min=1)).mean())


def measure(shape: Shape, galleries: list[int], device: torch.device) -> Iterator[dict[str, Any]]:
    """Yield one row per size of the gallery; all lengths and the rival are measured only at the first."""
    queries, query_labels = codes(shape.queries, shape.features, seed=1)
    for count in galleries:
        gallery, labels = codes(count, shape.features, seed=2)
        data = queries, gallery, query_labels, labels
        row: dict[str, Any] = {"gallery": count}
        row["ours"] = timed(partial(by_blocks, data, [shape.features], shape.top, device), device)
        if count == galleries[0]:
            row["all_lengths"] = timed(partial(by_blocks, data, lengths(shape.features), shape.top, device), device)
            row["sorted_whole"] = timed(partial(sorted_whole, data, shape.top, device), device)
        row["product"] = {"seconds": product_alone(queries, gallery, device)}
        yield row


def timed(work: Callable[[], float], device: torch.device) -> dict[str, Any]:
    """Return seconds, mAP and (on a GPU) megabytes of one call, after an uncounted one."""
    found = work()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    taken = seconds(lambda step: work(), device, repeat=1, warmup=0)
    peak = torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
    return {"seconds": taken, "map": found, "peak_mb": peak}


def product_alone(queries: Tensor, gallery: Tensor, device: torch.device, block: int = 65_536) -> float:
    """Return the seconds of all inner products, with codes on the device."""
    queries = queries.to(device)
    parts = [part.to(device) for part in gallery.split(block)]
    return seconds(lambda step: [(queries @ part.T)[0, 0] for part in parts], device, repeat=1, warmup=1)


def rows_of(result: dict[str, Any]) -> list[list[str]]:
    """Cells of a table: ways of measuring, by size of the gallery."""
    titles = {
        "ours": "`retrieval`, full length",
        "all_lengths": f"`retrieval`, all {len(lengths(result['shape']['features']))} lengths",
        "sorted_whole": "sorted whole",
        "product": "the product alone",
    }
    return [
        [
            f"{title}, {row['gallery']:,}",
            f"{row[name]['seconds']:.2f}",
            f"{row[name]['peak_mb']:,.0f}" if row[name].get("peak_mb") else NONE,
            f"{row[name]['map']:.4f}" if "map" in row[name] else NONE,
        ]
        for row in result["rows"]
        for name, title in titles.items()
        if name in row
    ]


HEAD = ["way, gallery", "seconds", "peak MB on the GPU", "mAP"]


def section(results: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the section of docs/benchmarks.md on measuring retrieval."""
    found = [result for name, result in results.items() if name.startswith("evaluation-cost")]
    yield "## Measuring retrieval"
    for result in found:
        shape = result["shape"]
        yield (
            f"{shape['queries']:,} queries, {shape['features']:,} features, float32, mAP over found@{shape['top']:,}, "
            "exact; random codes in host memory. `retrieval` works in blocks; the usual few lines sort all "
            "similarities at once. The matrix product alone is the limit."
        )
        yield table(HEAD, rows_of(result))
        yield made_by([result])
    if not any("NVIDIA" in result["device"] for result in found):
        yield f"On a GPU: {NOT_RUN}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--galleries", type=int, nargs="+", default=[50_000, 200_000, 800_000])
    parser.add_argument("--queries", type=int, default=Shape.queries)
    parser.add_argument("--features", type=int, default=Shape.features)
    parser.add_argument("--top", type=int, default=Shape.top)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    shape = Shape(given.queries, given.features, given.top)
    rows = list(measure(shape, given.galleries, torch.device(given.device)))
    result = {"benchmark": "evaluation cost", "shape": asdict(shape), **harness.environment(), "rows": rows}
    print(table(HEAD, rows_of(result)))
    if given.json:
        harness.write(given.json, result)


if __name__ == "__main__":
    main()
