"""Sections of docs/paper.md on tables 7 and 8 and the retrieval figure: codes by length."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from benchmarks.common.pages import NOT_RUN, figure, table
from benchmarks.common.plan import Stored
from benchmarks.paper import published, small_k
from benchmarks.vision import jobs as vision
from eigenmap.reproduce.tables_7_8 import LENGTHS

TABLES_7_8 = """\
## Tables 7 and 8: short codes, and SCL with PCA

Paper: mAP with ImageNet models on NUS-WIDE and COCO. Ours, from the [vision study](benchmarks.md): mAP over what was
found in the top 5,000 (COCO at 96 pixels) or 1,000. A network trained on the training images of a set searches that
set. Figures are mean ± sample standard deviation over the seeds. *our code* is the library's code of SCL's network."""

RETRIEVAL = """\
## Retrieval by code length

The paper shows only curves: codes up to 16 times shorter than those of SCL or of the form without stop-gradient. Ours:
CIFAR-10, COCO at 96 pixels and Tiny-ImageNet-100; raw projector outputs, prefixes of the ordered form, ten draws of
random features of the others; seed 0."""

CLAIM = """\
Against the form without stop-gradient the claim holds: {lengths} features of the ordered form reach the mAP of all
{full:,} features without it on {sets}. Against SCL it does not: random features of SCL are ahead of the ordered form
{where}."""

SEARCHED = {
    "CIFAR-10": ("cifar10", "map_over_found@1000"),
    "COCO 96": ("coco", "map_over_found@5000"),
    "Tiny-ImageNet-100": ("tiny", "map_over_found@1000"),
}


def results_of(data: str, method: str, rate: float, stored: Stored) -> list[dict[str, Any]]:
    """Finished runs of the vision study that are 50 epochs long, one per seed."""
    found = [stored.read(vision.Job(data, method, rate, 50, seed).name) for seed in (0, 1, 2)]
    return [result for result in found if result is not None and "retrieval" in result]


def curve(results: Sequence[dict[str, Any]], code: str, metric: str, dims: Sequence[int]) -> list[str]:
    """One cell per length: mean and spread over the runs."""
    cells = []
    for dim in dims:
        values = [
            row[metric]
            for result in results
            for row in result["retrieval"].get(code, [])
            if row["dim"] == dim and metric in row
        ]
        cells.append(figure(values) if values else NOT_RUN)
    return cells


def short_rows(data: str, metric: str, stored: Stored, dims: Sequence[int]) -> list[list[str]]:
    """Codes of the paper's ordered form and of SCL on one set."""
    ordered, scl = results_of(data, "paper", 0.6, stored), results_of(data, "scl", 0.75, stored)
    source = f"{scl[0]['chosen_source']} aligned" if scl and "chosen_source" in scl[0] else "projector aligned"
    return [
        ["the paper's, ordered", *curve(ordered, "projector own order", metric, dims)],
        ["SCL + PCA", *curve(scl, "projector PCA uncentred", metric, dims)],
        ["SCL + centred PCA of the encoder", *curve(scl, "encoder PCA centred", metric, dims)],
        ["SCL, random features", *curve(scl, "projector random features", metric, dims)],
        ["SCL, our code", *curve(scl, source, metric, dims)],
    ]


def tables_7_8(stored: Stored) -> str:
    head = ("code", *map(str, LENGTHS))
    parts = [TABLES_7_8]
    for name, rows in published.SHORT_CODES.items():
        parts += [f"Paper, {name}:", table(head, [[code, *values] for code, values in rows.items()])]
    for title in ("COCO 96", "Tiny-ImageNet-100"):
        data, metric = SEARCHED[title]
        parts += [f"Ours, {title}:", table(head, short_rows(data, metric, stored, LENGTHS))]
    return "\n\n".join(parts)


CODES = {
    "the paper's, ordered": ("paper", 0.6, "projector own order"),
    "the same without stop-gradient": ("paper-unordered", 0.3, "projector random features"),
    "SCL": ("scl", 0.75, "projector random features"),
}
"""Rows of the retrieval figure: method, rate and code in the vision study."""
DIMS = (4, 8, 16, 32, 64, 256, 2048)


def retrieval(stored: Stored) -> str:
    parts = [RETRIEVAL, claim(stored)]
    for title, (data, metric) in SEARCHED.items():
        for words, name in (("mAP over found", metric), ("precision", metric.replace("map_over_found", "precision"))):
            rows = [
                [row, *curve(results_of(data, method, rate, stored)[:1], code, name, DIMS)]
                for row, (method, rate, code) in CODES.items()
            ]
            top = int(metric.partition("@")[2])
            parts += [f"{title}, {words} in the top {top:,}:", table(("code", *map(str, DIMS)), rows)]
    few = stored.read(small_k.NAME.format(seed=0))
    if few is None:
        parts.append("The variant with 128 features and 8,192 hidden units is not run yet.")
    else:
        lengths = [int(row["dim"]) for row in max(few["retrieval"].values(), key=len)]
        rows = [
            [name, *([f"{row['map_over_found@1000']:.3f}" for row in scored] or ["collapsed"] * len(lengths))]
            for name, scored in few["retrieval"].items()
        ]
        parts += ["128 features, 8,192 hidden units, CIFAR-10:", table(("code", *map(str, lengths)), rows)]
    return "\n\n".join(part for part in parts if part)


def claim(stored: Stored) -> str:
    """Say whether short ordered codes are worth long codes of the others; empty while runs are missing."""
    shortest, lost, cells = {}, 0, 0
    for title, (data, metric) in SEARCHED.items():
        found = [results_of(data, method, rate, stored)[:1] for method, rate, _ in CODES.values()]
        if not all(found):
            return ""
        ordered, without, scl = (
            {row["dim"]: row[metric] for row in results[0]["retrieval"][code] if row["dim"] in DIMS}
            for results, (*_, code) in zip(found, CODES.values(), strict=True)
        )
        enough = [dim for dim in DIMS if ordered[dim] >= without[DIMS[-1]]]
        if not enough:
            return ""
        shortest[title] = enough[0]
        lost += sum(scl[dim] > ordered[dim] for dim in DIMS)
        cells += len(DIMS)
    where = "at every length on all of them" if lost == cells else f"in {lost} of {cells} cells"
    lengths, sets = (" / ".join(map(str, each)) for each in (shortest.values(), shortest))
    return textwrap.fill(CLAIM.format(lengths=lengths, sets=sets, full=DIMS[-1], where=where), 120)
