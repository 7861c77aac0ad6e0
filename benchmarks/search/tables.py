"""Generator of the tables in docs/search-benchmarks.md, from the results alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common.pages import NONE, NOT_RUN, emphasise, made_by, renewed, table
from benchmarks.search.versions import FILE as VERSIONS
from benchmarks.search.ways import NAMES

SETS = {
    "cifar10": "CIFAR-10",
    "coco": "COCO, several labels per image",
    "tiny": "Tiny-ImageNet-100",
    "catalogue": "the embedded catalogue",
}
PHOTOS = {
    "laptop-cifar10": "CIFAR-10, `laptop`",
    "lite-cifar10": "CIFAR-10, EfficientNet-Lite0",
    "lite-coco": "COCO, EfficientNet-Lite0",
    "lite-tiny": "Tiny-ImageNet-100, EfficientNet-Lite0",
}
"""Sets of `benchmarks.search.photos`."""
TIMED = ("cifar10", "coco")
"""Sets measured for speed: the catalogue is too small, and Tiny-ImageNet-100 has the size of CIFAR-10."""
SIZES = {"real": "its own codes", "1000000": "1 million like them"}
BYTES = ("4", "8", "16", "32", "64")
Result = dict[str, Any]


def tables(results: Path) -> str:
    """Everything between the markers."""
    found = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(results.glob("search-*.json"))}
    return "\n\n".join([*_speeds(found), *_quality(found), *_rankings(found), *_large(found), *_versions(results)])


def _speeds(found: dict[str, Result]) -> Iterator[str]:
    yield "## Speed and recall"
    yield (
        "The tables show queries per second in batches of 100 and one at a time, on one thread and on all. `x exact` "
        "is the speed relative to the exact search at full length (faiss, one matrix), in batches on all threads. That "
        "search was measured just before and after, in the same process. Recall@10 is relative to the exact search at "
        "full length, on 1,000 queries that were not used to choose settings. Settings were chosen on stored items, as "
        "the least effort with recall 0.99. Bytes per item include the codes and the approximate index, if there is "
        "one. Memory is what building it took."
    )
    for name, title in SETS.items():
        for size, words in SIZES.items():
            result = found.get(f"search-{name}-{size}")
            if result is None:
                if name in TIMED:
                    yield f"**{title}, {words}**: {NOT_RUN}."
                continue
            rows = result["rows"]
            items = next(iter(rows.values()))["items"]
            yield f"**{title}, {words}** ({items:,} items of {result['protocol']['features']} features)"
            yield table(_SPEED_HEAD, [_speed_row(way, rows.get(way)) for way in NAMES])
            yield made_by(list(rows.values()))


_SPEED_HEAD = [
    *("search", "setting", "recall@10", "x exact", "batch, all", "batch, 1 thread", "single, all", "single, 1 thread"),
    *("bytes/item", "build, s", "memory, MB"),
]


def _speed_row(way: str, row: Result | None) -> list[str]:
    if row is None:
        return [way, NOT_RUN, *[NONE] * (len(_SPEED_HEAD) - 2)]
    speeds = row["speeds"]
    counts = sorted({int(name.split()[1]) for name in speeds})
    most = counts[-1]
    batch = speeds[f"batch, {most} threads"]
    columns = [speeds[f"{mode}, {count} threads"] for mode in ("batch", "single") for count in (most, 1)]
    return [
        way,
        row["setting"],
        f"{row['recall@10']:.3f}",
        f"{batch['queries_per_second'] / batch['exact']:.1f}",
        *(f"{column['queries_per_second']:,.0f}" for column in columns),
        f"{row['bytes_per_item']:,.0f}",
        f"{row['build_seconds']:,.0f}",
        f"{row['memory_bytes'] / 1e6:,.0f}",
    ]


def _quality(found: dict[str, Result]) -> Iterator[str]:
    yield "## Retrieval quality at equal bytes"
    yield (
        "The tables show mAP over the relevant items found in the top 1,000 and in the top 100 (`map_over_found@1000`, "
        "`@100`). Stored items are compressed to the given number of bytes, queries are not. An item is relevant if it "
        "shares a label. Quantised vectors are ranked by inner product, as in faiss and as in our index at full "
        "length; prefixes and sign bits by cosine. PQ is the product quantiser of faiss on the full vector. PCA + PQ "
        "keeps four axes per byte. OPQ learns a rotation first. Two rows explain the lead of the bit budget: ours "
        "without the scale by reliability, and PQ with it."
    )
    for name, title in SETS.items():
        result = found.get(f"search-{name}-quality")
        if result is None:
            yield f"**{title}**: {NOT_RUN}."
            continue
        rows, protocol = result["rows"], result["protocol"]
        methods = list(dict.fromkeys(row["method"] for row in rows.values() if "method" in row))
        for top in (1000, 100):
            metric = f"map_over_found@{top}"
            full = rows["full length, float32"][metric]
            yield (
                f"**{title}, top {top:,}**: {protocol['queries']:,} queries among {protocol['gallery']:,} items, codes "
                f"weighted by mu^{protocol.get('t') or 't'}; full length, float32: {full:.4f}."
            )
            lines = []
            for method in methods:
                cells = [rows.get(f"{method}, {n} bytes") for n in BYTES]
                lines.append([method, *(NOT_RUN if c is None else f"{c[metric]:.4f}" for c in cells)])
            yield table(["stored as", *(f"{n} bytes" for n in BYTES)], emphasise(lines))
        yield made_by(list(rows.values()))


def _rankings(found: dict[str, Result]) -> Iterator[str]:
    yield "## Two rankings of the same bytes"
    yield (
        "Compact codes (`bits`) are ranked by relevance and by cosine. mAP is over the relevant items found in the top "
        "1,000; recall@10 is relative to the exact search by the full codes. The gain is that of cosine over "
        "relevance, with its standard error over the queries. Codes of `laptop` are from a model trained on the images "
        "of the gallery on a CPU; those of EfficientNet-Lite0, a pretrained network, are made by `fit vectors` with "
        "mirrored images as second views. Those of the catalogue are of a later model than in the tables above."
    )
    measured = {name: found[file] for name in SETS | PHOTOS if (file := f"search-{name}-rankings") in found}
    lines = []
    for name, title in (SETS | PHOTOS).items():
        if name not in measured:
            lines.append([title, NOT_RUN, *[NONE] * 6])
            continue
        rows, full = measured[name]["rows"].values(), measured[name]["protocol"]["full"]
        cells = [cell for metric, digits in _RANKED.items() for cell in (f"{full[metric]:.{digits}f}", NONE)]
        lines.append([title, "float32", *cells])
        for row in rows:
            cells = [cell for metric, digits in _RANKED.items() for cell in _both(row[metric], digits)]
            lines.append([title, str(row["bytes"]), *cells])
    head = [part for metric in ("mAP", *list(_RANKED)[1:]) for part in (f"{metric}, relevance / cosine", "gain")]
    yield table(["codes", "bytes", *head], lines)
    yield made_by([row for result in measured.values() for row in result["rows"].values()])


_RANKED = {"map_over_found@1000": 4, "precision@10": 3, "recall@10": 3}
"""Metrics of both rankings, with their digits."""


def _both(of: Result, digits: int) -> tuple[str, str]:
    """Return both rankings, and what cosine gains."""
    gain = f"{of['gain']:+.{digits}f} ± {of['error']:.{digits}f}"
    return f"{of['relevance']:.{digits}f} / {of['cosine']:.{digits}f}", gain


def _large(found: dict[str, Result]) -> Iterator[str]:
    yield "## Ten million items on disk"
    yield (
        "Items are stored as float16 in column blocks; 20 queries run in one batch. Cold: the files were dropped from "
        "the system's cache first, and bytes are those read from the disk (`/proc/self/io`). Peak is memory without "
        "mapped files."
    )
    wanted = [(name, result) for name, result in found.items() if name.endswith("-large")]
    if not wanted:
        yield f"{NOT_RUN}."
    for name, result in wanted:
        for row in result["rows"].values():
            yield (
                f"**{SETS.get(name.split('-')[1], name)}, {row['items']:,} like them**: "
                f"{row['disk_bytes'] / 1e9:.1f} GB on disk, opened in {1000 * row['open_seconds']:.0f} ms, memory "
                f"given {row['memory_bytes'] / 2**20:.0f} MiB. The first addition of one item by a process took "
                f"{1000 * row['first_addition']['seconds']:.0f} ms and "
                f"{row['first_addition']['peak_extra_bytes'] / 1e6:.0f} MB."
            )
            yield table(
                ["search", "cold, s", "warm, s", "read cold, MB", "peak, MB"],
                [
                    [
                        search,
                        f"{one['cold_seconds']:.2f}",
                        f"{one['warm_seconds']:.2f}",
                        f"{one['cold_bytes_read'] / 1e6:,.0f}",
                        f"{one['peak_extra_bytes'] / 1e6:,.0f}",
                    ]
                    for search, one in row["searches"].items()
                ],
            )
            yield made_by([row])


def page(text: str, results: Path) -> str:
    """The page with its tables renewed."""
    return renewed(text, "tables: written by python -m benchmarks search page", tables(results))


def _versions(results: Path) -> Iterator[str]:
    file = results / f"{VERSIONS}.json"
    if not file.is_file():
        return
    result = json.loads(file.read_text(encoding="utf-8"))
    about = result["protocol"]
    yield "## Before and after snapshots and checksums"
    yield (
        f"{about['items']:,} items of {about['features']} features in an index on disk. The versions of commit "
        f"{about['old']} and {result['commit']} ran in turn for {about['rounds']} rounds; the fastest of each counts "
        f"({result['device']}). Differences of a few percent are noise."
    )
    yield table(
        ["search", "before, ms", "after, ms", "speed"],
        [
            [search, f"{1e3 * row['before']:.2f}", f"{1e3 * row['after']:.2f}", f"{row['ratio']:.2f} x"]
            for search, row in result["rows"].items()
        ],
    )
