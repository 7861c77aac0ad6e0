"""Variants of the neural head that were tried, on held-out pairs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.common.pages import emphasise, table
from benchmarks.vectors.found import Found, Row
from benchmarks.vectors.goals import SETS, goals
from benchmarks.vectors.storage import BYTES
from benchmarks.vectors.study import PAIRED
from benchmarks.vectors.upgrade import HEADS
from benchmarks.vectors.variants import VARIANTS

LENGTHS = (16, 32, 64)


def words(found: Found) -> Iterator[str]:
    """A table of the variants, if they were run."""
    results = found.splits("variants")
    if not results or not results[0]["rows"]:
        return
    protocol = results[0]["protocol"]
    rows = sorted(results[0]["rows"], key=lambda row: -row["quality"])
    yield "## Variants of the neural head"
    yield (
        "nDCG@10 on the pairs that a fit holds out, of the pairs of split 0 outside the test. The mean is over the "
        f"lengths 8, 16, 32 ... and both sets; {len(rows)} of {len(VARIANTS)} variants were measured. "
        f"{_used(found, rows[0])} A head that finds less than the linear codes is not kept, and its row then shows "
        "those (marked *)."
    )
    head = ["", "mean", *(f"{SETS.get(name, name)}, {d}" for name in protocol["sets"] for d in LENGTHS)]
    cells = [
        [
            row["method"],
            f"{row['quality']:.4f}",
            *(_cell(row["sets"][name], d) for name in protocol["sets"] for d in LENGTHS),
        ]
        for row in rows
    ]
    yield table(head, emphasise(cells))
    yield found.made_by("variants")


def _used(found: Found, best: Row) -> str:
    """Say which settings the codes from pairs have."""
    codes = [row for name, model in PAIRED for row in found.rows(f"paired-{name}-{model}", "neural")]
    said = f"The best is {best['method']}: `{best['settings']}`."
    if all(row.get("settings") == best["settings"] for row in codes):
        return f"{said} The codes from pairs above use it."
    old = {str(row.get("settings")): None for row in codes if row.get("settings") != best["settings"]}
    return f"{said} Not all codes from pairs above were run again with it: some still use `{'`, `'.join(old)}`."


def tried(found: Found) -> Iterator[str]:
    """What was tried for the goals that are missed."""
    missed = [goal.words for goal in goals(found) if not goal.met]
    lines = [line for starts, line in attempts(found).items() if any(words.startswith(starts) for words in missed)]
    if lines:
        yield "## What was tried for the goals that are missed"
        yield "\n".join(f"- {line}" for line in lines)


def attempts(found: Found) -> dict[tuple[str, ...], str]:
    """Return what was tried, by the beginnings of the goals."""
    rows = [row for result in found.splits("variants") for row in result["rows"]]
    return {
        ("Debian", "WordNet"): f"Codes from pairs: {len(rows)} of {len(VARIANTS)} variants of the neural head, "
        "compared on held-out pairs alone (below).",
        ("MiniLM queries",): f"A new model on old vectors: {len(HEADS)} settings of the neural heads, and the kinds of "
        "pairs, both chosen on held-out pairs.",
        tuple(
            f"{n} bytes" for n in BYTES
        ): "Few bytes: nothing. Other quantisers were given our codes, and all were ranked by cosine too; ours was not "
        "changed after either.",
        ("Emoji",): "Emoji: pairs that share a name are now held out together, since a head that had memorised names "
        "was chosen otherwise. Then settings chosen on held-out pairs, as those of deep CCA are.",
        ("The neural head of a million pairs in seconds",): "The head on a GPU was timed beside other jobs on the same "
        "card, never alone.",
    }


def _cell(one: dict[str, object], length: int) -> str:
    scores = one["scores"]
    assert isinstance(scores, dict)
    told = scores.get(str(length))
    return "" if told is None else f"{told['ndcg@10']:.3f}{'' if one['kept'] else ' *'}"
