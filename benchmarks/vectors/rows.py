"""Results that are lists of rows: existing rows are kept, and each new row is written at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.common import harness
from benchmarks.common.errors import BenchmarkError

Row = dict[str, Any]
ORIGIN = ("date", "commit", "device", "torch")
"""Where and when a row was measured."""


def measured(
    file: Path,
    protocol: dict[str, Any],
    job: dict[str, Any],
    methods: Iterable[str],
    measure: Callable[[str], Row],
    texts: str | None = None,
    current: Callable[[Row], bool] = lambda row: True,
    **facts: Any,
) -> list[Row]:
    """One row per method, written to the file as soon as it is measured; all of them from the same texts.

    `texts` is a digest of the texts of the set, which change where a set is made of a distribution's lists of packages.
    Rows that are not `current` are measured again.
    """
    rows = {row["method"]: row for row in with_origin(harness.stored_rows(file, protocol), file)}
    known = {} if texts is None else {"texts": texts}
    require_same_texts([*rows.values(), known], file)
    for name in methods:
        if name in rows and current(rows[name]):
            continue
        began = time.perf_counter()
        row = {"method": name, **measure(name)}
        about = harness.environment()
        rows[name] = {**row, **{word: about[word] for word in ORIGIN}, **known}
        print(f"{file.stem} {name}: {_short(row)} ({time.perf_counter() - began:.0f} s)", flush=True)
        result = {**about, **facts, "protocol": protocol, "job": job, "rows": list(rows.values())}
        harness.write(file, result)
    return list(rows.values())


def require_same_texts(rows: Iterable[Row], file: Path) -> None:
    """Raise if rows of one result are of different texts, and so of different splits."""
    if len({row["texts"] for row in rows if "texts" in row}) > 1:
        raise BenchmarkError(
            f"The rows of {file.name} and the new ones are of different texts: move the file away, and measure all of "
            "its rows on the new texts."
        )


def with_origin(rows: Iterable[Row], file: Path) -> list[Row]:
    """Return rows of a file with their origin: that of the file, unless they name their own."""
    about = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return [{**{word: about[word] for word in ORIGIN if word in about}, **row} for row in rows]


def _short(row: Row) -> str:
    """Return the main figures of a row."""
    scores = row.get("scores", {})
    cells = [f"{name} {value['ndcg@10']:.3f}" for name, value in scores.items() if "ndcg@10" in value]
    return ", ".join(cells) or ", ".join(f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, float))
