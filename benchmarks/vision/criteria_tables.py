"""The section of docs/transfer.md on criteria without labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from scipy.stats import spearmanr

from benchmarks.common.pages import made_by, table
from benchmarks.vision.criteria import LENGTHS

SHOWN = (8, 16, 64, LENGTHS[-1])
"""Lengths of the table; the last is the full length."""
Row = Mapping[str, Any]


def load(results: Path) -> dict[str, dict[str, Any]]:
    """Results by the set that the network was trained on."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("criteria-*.json"))]
    return {run["trained_on"]: run for run in found}


def rows_at(run: Mapping[str, Any], length: int) -> list[Row]:
    """One row per code: at this length, or at its full length if it is shorter."""
    at: dict[str, Row] = {}
    for row in run["rows"]:
        if row["dim"] <= length:
            at[row["code"]] = row
    return list(at.values())


def correlation(rows: Sequence[Row], criterion: str, searched: str) -> float:
    """Rank correlation of a criterion with mAP over codes."""
    return float(spearmanr([row["criteria"][criterion] for row in rows], [row["map"][searched] for row in rows])[0])


def loss(rows: Sequence[Row], criterion: str, searched: str) -> float:
    """Share of the best code's mAP that is lost by the code that a criterion picks."""
    best = max(row["map"][searched] for row in rows)
    return 1 - float(max(rows, key=lambda row: row["criteria"][criterion])["map"][searched]) / best


def parts(results: Path) -> Iterator[str]:
    """The section; empty if nothing was measured."""
    runs = load(results)
    if not runs:
        return
    first = next(iter(runs.values()))
    codes = len(rows_at(first, LENGTHS[-1]))
    yield "## Criteria without labels"
    yield (
        f"Could a criterion on held-out images have chosen the code? {codes} codes of each network are compared: PCA, "
        "either output aligned with several ridges and exponents, staged codes with other heads and lifts. Samples: "
        f"{first['protocol']}. The table has the rank correlation of each criterion with mAP over the codes, by "
        "length: on the set that the network was trained on / on the other sets, averaged over networks. Then comes "
        "the share of the best code's mAP that is lost by choosing with it at full length."
    )
    criteria = list(first["rows"][0]["criteria"])
    head = ["criterion", *(f"{d}" for d in SHOWN[:-1]), "full", "lost, seen", "lost, unseen"]
    yield table(head, [_row(runs, criterion) for criterion in criteria])
    yield (
        "At full length, seen and unseen sets contradict each other. On what training saw, those codes are good on "
        "which two views agree about their neighbours; on everything else, those by which two views find each other. "
        "Held-out images of the training set cannot tell which will be searched, so a rule that serves both has to be "
        "a compromise: the staged code."
    )
    yield made_by([{**run, "job": {"seed": 3}} for run in runs.values()])


def _row(runs: Mapping[str, Mapping[str, Any]], criterion: str) -> list[str]:
    def averages(measure: Callable[[Sequence[Row], str, str], float], length: int) -> list[float]:
        """On sets seen in training, and on others."""
        return [
            mean(
                measure(rows_at(run, length), criterion, searched)
                for name, run in runs.items()
                for searched in run["rows"][0]["map"]
                if (searched == name) == seen
            )
            for seen in (True, False)
        ]

    correlations = (averages(correlation, length) for length in SHOWN)
    return [
        criterion,
        *(f"{seen:+.2f} / {unseen:+.2f}" for seen, unseen in correlations),
        *(f"{value:.1%}" for value in averages(loss, LENGTHS[-1])),
    ]
