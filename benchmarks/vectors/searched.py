"""Variants of the neural head that were tried, on held-out pairs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.common.pages import emphasise, made_by, table
from benchmarks.vectors.found import Found

LENGTHS = (8, 16, 32, 64, 128)


def words(found: Found) -> Iterator[str]:
    """A table of the variants, if they were run."""
    results = found.splits("variants")
    if not results:
        return
    protocol = results[0]["protocol"]
    yield "## Variants of the neural head"
    yield (
        f"nDCG@10 on held-out pairs of Debian (MiniLM), {protocol['pairs']:,} pairs in all, {protocol['steps']} steps. "
        "A head that finds less than the linear codes is not kept, and its row then shows those."
    )
    rows = [
        [
            f"{row['method']}{'' if row['kept'] else ' (not kept)'}",
            *(f"{row['scores'][str(d)]['ndcg@10']:.3f}" for d in LENGTHS),
        ]
        for row in results[0]["rows"]
    ]
    yield table(["", *map(str, LENGTHS)], emphasise(rows))
    yield made_by(results)
