"""The part of the page about codes of a few bytes: quantisers beside each other, and why ours is ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import mean

from benchmarks.common.pages import NOT_RUN, emphasise, figure, table
from benchmarks.vectors.found import Found
from benchmarks.vectors.sets import SEEDS
from benchmarks.vectors.storage import BYTES, RANKINGS

NAMES = {
    "ours": "**ours**, codes from pairs",
    "ours without pairs": "**ours**, codes of documents alone",
    "pq on our codes": "PQ on our codes from pairs",
    "opq on our codes": "OPQ on our codes from pairs",
    "rabitq on our codes": "RaBitQ on our codes from pairs",
    "turboquant on our codes": "turboquant-pro on our codes from pairs",
    "pq": "PQ, faiss",
    "opq": "OPQ, faiss",
    "rabitq": "RaBitQ, faiss",
    "turboquant": "turboquant-pro",
}


def words(found: Found) -> Iterator[str]:
    """The table of quantisers, and what their rows show."""
    yield "## A few bytes per vector"
    results = found.splits("storage")
    if not results:
        yield NOT_RUN
        return
    protocol = results[0]["protocol"]
    yield (
        f"{protocol['test']:,} queries search for their partner among {protocol['documents']:,} documents of Debian "
        "(MiniLM); queries are not quantised. Decoded vectors are ranked by their inner product with the query, and by "
        "their cosine. For each ranking, RaBitQ and turboquant-pro choose features and bits on held-out pairs. CPU "
        "seconds: training of the quantiser, with the choice of such settings, and encoding of the documents; the time "
        "for our codes from pairs is additional, see above. "
        "The rivals quantise the vectors and use no pairs, unless their row says that they quantise our codes. "
        "Our codes of documents alone use none either."
    )
    there = {row.partition(" @ ")[0] for row in found.methods("storage")}
    shown = {method: name for method, name in NAMES.items() if method in there}
    full = [found.score("storage", f"{name} @ 0", 0) for name in ("full vectors", "our full codes")]
    yield _scores(found, shown, "nDCG@10", "ndcg@10")
    if None not in full:
        yield f"Not quantised: the vectors {full[0]:.3f}, our codes from pairs {full[1]:.3f}."
    yield from _by_cosine(found, shown)
    yield from _lead(found)
    yield (
        "Recall: the ten nearest by full vectors of the same kind, which are our codes from pairs where these are "
        "quantised."
    )
    yield _scores(found, shown, "recall", "recall of nearest")
    yield _seconds(found, shown)
    counts = {name.replace("**", ""): _counts(found, method) for method, name in shown.items()}
    few = [f"{name} {' / '.join(map(str, each))}" for name, each in counts.items() if set(each) != {len(SEEDS)}]
    if few:
        yield f"Splits at {' / '.join(map(str, BYTES))} bytes, where they are not {len(SEEDS)}: {'; '.join(few)}."
    yield found.made_by("storage")


def _scores(found: Found, shown: dict[str, str], title: str, metric: str) -> str:
    """The table of a score, by both rankings."""
    head = [title, *(f"{RANKINGS[by]}, {n} B" for by in RANKINGS for n in BYTES)]
    rows = [
        [
            name,
            *(
                figure(values) if (values := found.values("storage", f"{method} @ {n}", n, metric, by)) else NOT_RUN
                for by in RANKINGS
                for n in BYTES
            ),
        ]
        for method, name in shown.items()
    ]
    return table(head, emphasise(rows))


def _seconds(found: Found, shown: dict[str, str]) -> str:
    """The table of CPU seconds of a build."""
    rows = []
    for method, name in shown.items():
        taken = [[row["build_cpu_seconds"] for row in found.rows("storage", f"{method} @ {n}")] for n in BYTES]
        rows.append([name, *(f"{mean(some):.1f}" if some else NOT_RUN for some in taken)])
    return table(["CPU seconds", *(f"{n} B" for n in BYTES)], rows)


def _by_cosine(found: Found, shown: Iterable[str]) -> Iterator[str]:
    """Say it if all quantisers find more by cosine, at every number of bytes."""
    scores = [
        [found.score("storage", f"{method} @ {n}", n, by=by) for by in RANKINGS] for method in shown for n in BYTES
    ]
    gains = [cosine - product for product, cosine in scores if product is not None and cosine is not None]
    if gains and min(gains) > 0:
        yield f"By cosine, every quantiser finds more: by {min(gains):.3f} to {max(gains):.3f} nDCG@10."


def _lead(found: Found) -> Iterator[str]:
    """Divide our lead over OPQ into that of the codes and that of the quantiser, at all numbers of bytes."""
    for by, ranking in RANKINGS.items():
        codes, quantiser, unpaired = (
            _gains(found, better, worse, by)
            for better, worse in (
                ("opq on our codes", "opq"),
                ("ours", "opq on our codes"),
                ("ours without pairs", "opq"),
            )
        )
        if codes and quantiser and unpaired:
            yield (
                f"By {ranking}, our lead over OPQ at {' / '.join(map(str, BYTES))} bytes has two parts. OPQ gains "
                f"{codes} nDCG@10 if it quantises our codes instead of the vectors, and ours gains another {quantiser} "
                f"on the same codes. Without any pairs, ours gains {unpaired} over OPQ."
            )


def _gains(found: Found, better: str, worse: str, by: str) -> str:
    """Return the mean gain in nDCG@10 at each number of bytes; empty unless some split has both everywhere."""
    splits = [found.beside("storage", ((f"{better} @ {n}", n), (f"{worse} @ {n}", n)), by) for n in BYTES]
    return " / ".join(f"{mean(a - b for a, b in rows):+.3f}" for rows in splits) if all(splits) else ""


def _counts(found: Found, method: str) -> list[int]:
    """Return the number of splits of a quantiser at each number of bytes."""
    return [len(found.rows("storage", f"{method} @ {n}")) for n in BYTES]
