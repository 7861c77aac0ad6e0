"""Generator of the tables in docs/explorer.md, from the results alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.common.pages import made_by, renewed, table
from benchmarks.service.load import CLIENTS, LENGTHS


def tables(result: dict[str, Any] | None, fuzz: dict[str, Any] | None) -> str:
    """Everything between the markers."""
    parts = ["not run." if result is None else _load(result)]
    if fuzz is not None:
        parts.append(_fuzz(fuzz["runs"]))
    return "\n\n".join(parts)


def _load(result: dict[str, Any]) -> str:
    protocol, over = result["protocol"], result["overload"]
    names = list(dict.fromkeys(name.rpartition(", ")[0] for name in result["rows"]))
    lines = [
        [f"{name}, {clients}", *(f"{row[key]:,.0f}" for key in ("requests_per_second", "p50_ms", "p99_ms"))]
        for name in names
        for clients in CLIENTS
        for row in [result["rows"][f"{name}, {clients}"]]
    ]
    alone = [[str(dim), *(f"{result['alone'][str(dim)][key]:,.0f}" for key in ("p50_ms", "p99_ms"))] for dim in LENGTHS]
    memory = over["memory_mb"]
    refused = {status: count for status, count in over["statuses"].items() if status != "200"}
    return "\n\n".join(
        [
            f"{protocol['items']:,} items of {protocol['features']} features (float32), {protocol['top']} results per "
            f"search, {protocol['cores']} cores shared by server and clients. Mixed lengths: each request has its own "
            "length, log-uniform from 1 to all.",
            table(["load, clients", "searches/s", "p50, ms", "p99, ms"], lines),
            "One client, by length:",
            table(["features", "p50, ms", "p99, ms"], alone),
            f"Twice the sustainable rate ({over['sustainable_per_second']:,.0f}/s) for {over['seconds']:,.0f} seconds: "
            f"{over['sent_per_second']:,.0f} requests/s sent, {over['requests_per_second']:,.0f}/s answered, p50 "
            f"{over['p50_ms']:,.0f} ms, p99 {over['p99_ms']:,.0f} ms. Other answers: "
            + (", ".join(f"{count:,} x {status}" for status, count in refused.items()) or "none")
            + f". Answers outside the schema: {over['unannounced']}. Memory was {memory['first']:,.0f} MB at the "
            f"start and {memory['lowest']:,.0f} to {memory['highest']:,.0f} MB in the last three quarters. The first "
            f"answers afterwards took {', '.join(f'{ms:,.0f}' for ms in over['first_answers_after_ms'])} ms.",
            made_by([result]),
        ]
    )


def _fuzz(runs: dict[str, Any]) -> str:
    def added(name: str) -> str:
        total: Counter[str] = Counter()
        for one in runs.values():
            total.update(one[name])
        words = ", ".join(f"{count:,} x {status}" for status, count in sorted(total.items()))
        return f"{total.total():,} ({words})"

    return (
        f"Fuzzing with requests generated from the OpenAPI schema: {added('requests')}. Fuzzing with uploads of "
        f"mutated pictures: {added('pictures')}. Every answer was one that the schema describes."
    )


def page(text: str, result: dict[str, Any] | None, fuzz: dict[str, Any] | None) -> str:
    """The page with its tables renewed."""
    return renewed(text, "tables: written by python -m benchmarks service page", tables(result, fuzz))
