"""Results that are lists of rows: existing rows are kept, and each new row is written at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.common import harness

Row = dict[str, Any]


def measured(
    file: Path,
    protocol: dict[str, Any],
    job: dict[str, Any],
    methods: Iterable[str],
    measure: Callable[[str], Row],
    **facts: Any,
) -> list[Row]:
    """One row per method, written to the file as soon as it is measured."""
    rows = {row["method"]: row for row in harness.stored_rows(file, protocol)}
    for name in methods:
        if name in rows:
            continue
        began = time.perf_counter()
        row = {"method": name, **measure(name)}
        about = harness.environment()
        rows[name] = {**row, "commit": about["commit"], "device": about["device"]}
        print(f"{file.stem} {name}: {_short(row)} ({time.perf_counter() - began:.0f} s)", flush=True)
        result = {**about, **facts, "protocol": protocol, "job": job, "rows": list(rows.values())}
        harness.write(file, result)
    return list(rows.values())


def _short(row: Row) -> str:
    """Return the main figures of a row."""
    scores = row.get("scores", {})
    cells = [f"{name} {value['ndcg@10']:.3f}" for name, value in scores.items() if "ndcg@10" in value]
    return ", ".join(cells) or ", ".join(f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, float))
