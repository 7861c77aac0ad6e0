"""Goals of the study of vectors, compared with the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import NamedTuple

from benchmarks.common.pages import NOT_RUN
from benchmarks.vectors.found import Found
from benchmarks.vectors.sets import SEEDS
from benchmarks.vectors.storage import BYTES, RANKINGS

OURS = ("linear", "neural")
LEVEL = 0.005
"""Difference from PCA that counts as none, without labels."""
GAIN, SHORT = 0.05, 32
"""Gain over PCA that matters, and the maximum number of features at which it is required."""
ALONE = 2.0
"""Load before a timed run below which nothing else ran."""
SETS = {"debian": "Debian", "wordnet": "WordNet", "cisi": "CISI", "dbpedia": "DBpedia"}
SHARE_AT_16 = 0.62 / 0.837
"""Share of the full vector that the goal of Debian at 16 features corresponds to."""
MODELS = {"minilm": "MiniLM", "wordllama": "WordLlama"}
RIVALS = ("pq", "opq", "rabitq", "turboquant")
"""Quantisers of others, by the names of their rows."""


class Goal(NamedTuple):
    """A sentence, whether it is true (None: not shown yet), and the figures behind it."""

    words: str
    met: bool | None
    figures: str = ""

    @property
    def line(self) -> str:
        """Return the goal as a line of the page."""
        unknown = "open" if self.figures else NOT_RUN
        verdict = unknown if self.met is None else "yes" if self.met else "**missed**"
        return f"{self.words}: {verdict}{f' ({self.figures})' if self.figures else ''}."


def goals(found: Found) -> list[Goal]:
    """Every goal, in the order of the study."""
    return [
        *_paired(found, "debian"),
        *_paired(found, "wordnet"),
        *_own_prefix(found),
        *_unlabelled(found),
        *_storage(found),
        _upgrade(found),
        *_spaces(found),
        *_cost(found),
    ]


def label(job: str) -> str:
    """Set and model of a job in words.

    >>> label("paired-debian-minilm")
    'Debian, MiniLM'
    """
    _, name, model = job.split("-")
    return f"{SETS.get(name, name)}, {MODELS[model]}"


class Compared(NamedTuple):
    """The better of our solvers at a length, and the full vector, over the splits that have both."""

    ours: float
    full: float
    solver: str
    splits: int

    @property
    def words(self) -> str:
        """Return our score, and the number of splits if some are missing."""
        return f"{self.ours:.3f}, {self.solver}{few(self.splits)}"


def few(splits: int) -> str:
    """Say how many splits there are, if some are missing."""
    return "" if splits == len(SEEDS) else f", {splits} of {len(SEEDS)} splits"


def compared(found: Found, job: str, length: int, full: int) -> Compared | None:
    """Ours at a length beside the full vector."""
    every = []
    for solver in OURS:
        pairs = found.beside(job, ((solver, length), ("prefix", full)))
        if pairs:
            every.append(Compared(mean(a for a, _ in pairs), mean(b for _, b in pairs), solver, len(pairs)))
    return max(every, key=lambda one: one.ours) if every else None


def _paired(found: Found, name: str) -> Iterator[Goal]:
    job = f"paired-{name}-minilm"
    wanted = [(64, 1.0, "not below the full vector"), (32, 0.95, "at least 95 % of the full vector")]
    if name != "debian":
        wanted.append((16, SHARE_AT_16, f"at least {100 * SHARE_AT_16:.0f} % of the full vector, as on Debian"))
    for length, share, words in wanted:
        one = compared(found, job, length, 384)
        told = f"{label(job)}, {length} of 384 features {words}"
        if one is None:
            yield Goal(told, None)
        else:
            figures = f"{one.words}; the full vector {one.full:.3f}, of which it is {100 * one.ours / one.full:.1f} %"
            yield Goal(told, one.ours >= share * one.full, figures)
    if name == "debian":
        one = compared(found, job, 16, 384)
        met = None if one is None else one.ours >= 0.62
        yield Goal(f"{label(job)}, 16 features at least .62", met, "" if one is None else one.words)


def _own_prefix(found: Found) -> Iterator[Goal]:
    for job in found.jobs("paired-"):
        one = compared(found, job, 64, 256) if job.endswith("wordllama") else None
        if one is not None:
            figures = f"{one.words}, against {one.full:.3f}"
            yield Goal(f"{label(job)}, our 64 at least its own 256", one.ours >= one.full, figures)


def unlabelled_gaps(found: Found, method: str) -> dict[str, dict[int, float]]:
    """Ours minus PCA by set and length, over the splits that have both."""
    gaps: dict[str, dict[int, float]] = {}
    for job in found.jobs("unlabelled-"):
        for length in found.lengths(job):
            both = found.beside(job, ((method, length), ("pca", length)))
            if both:
                gaps.setdefault(job, {})[length] = mean(ours - pca for ours, pca in both)
    return gaps


def _unlabelled(found: Found) -> Iterator[Goal]:
    for method in ("neighbours", "second"):
        gaps = unlabelled_gaps(found, method)
        told = f"Without labels ({method}), within {LEVEL:g} of PCA at every length on every set"
        if not gaps:
            yield Goal(told, None)
            continue
        lowest = min((gap, job, length) for job, of in gaps.items() for length, gap in of.items())
        figures = f"the lowest of {len(gaps)} sets: {lowest[0]:+.3f} on {label(lowest[1])} at {lowest[2]}"
        if all(abs(gap) < 0.0005 for of in gaps.values() for gap in of.values()):
            figures = f"ours is PCA itself on the {len(gaps)} sets that were measured, by a rule set afterwards"
        yield Goal(told, lowest[0] >= -LEVEL, figures)
        ahead = [label(job) for job, of in gaps.items() if all(g >= GAIN for d, g in of.items() if d <= SHORT)]
        nothing = all(gap < GAIN for of in gaps.values() for d, gap in of.items() if d <= SHORT)
        yield Goal(
            f"Without labels ({method}), at least {GAIN:g} above PCA at {SHORT} features and fewer on three sets, or "
            "the plain word that nothing found does that",
            len(ahead) >= 3 or nothing,  # `tables` then says the plain word
            "on none: the plain word, below" if nothing else f"on {', '.join(ahead) or 'none'}",
        )


def _storage(found: Found) -> Iterator[Goal]:
    for n_bytes in BYTES:
        same = [f"{rival} on our codes" for rival in RIVALS]
        for by, ranking in RANKINGS.items():
            words = f"{n_bytes} bytes per vector, ranked by {ranking}, first in nDCG@10"
            yield _first(found, n_bytes, RIVALS, words, by)
            yield _first(found, n_bytes, same, f"{words} also if the others quantise our codes", by)
        built = [found.rows("storage", f"{method} @ {n_bytes}") for method in ("ours", "opq")]
        words = f"{n_bytes} bytes per vector, built in at most a tenth of OPQ's time"
        if not all(built):
            yield Goal(words, None)
            continue
        times = [mean(row["build_cpu_seconds"] for row in rows) for rows in built]
        figures = f"{times[0]:.1f} against {times[1]:.1f} CPU seconds{few(min(map(len, built)))}"
        yield Goal(words, times[0] <= times[1] / 10, figures)


def _first(found: Found, n_bytes: int, rivals: Sequence[str], words: str, by: str) -> Goal:
    """Compare our bytes with those of the best rival; open while ours is ahead and some rivals are missing."""
    values = {name: found.values("storage", f"{name} @ {n_bytes}", n_bytes, by=by) for name in ("ours", *rivals)}
    scores = {name: mean(some) if some else None for name, some in values.items()}
    ours = scores.pop("ours")
    told = {rival: value for rival, value in scores.items() if value is not None}
    if ours is None or not told:
        return Goal(words, None)
    name, value = max(told.items(), key=lambda one: one[1])
    left = [rival for rival in rivals if rival not in told]
    besides = f"; not run: {', '.join(left)}" if left else ""
    met = False if ours <= value else None if left else True
    splits = few(min(len(values[name]) for name in ("ours", *told)))
    return Goal(words, met, f"{ours:.3f} against {value:.3f} of {name}{besides}{splits}")


def _upgrade(found: Found) -> Goal:
    words = "MiniLM queries on WordLlama documents from 5,000 pairs, at least .65"
    length = max(found.lengths("upgrade", "old"), default=0)
    scores = [(s, m) for m in ("two-spaces", "neural", "into") if (s := found.score("upgrade", m, length)) is not None]
    if not scores:
        return Goal(words, None)
    value, name = max(scores)
    others = {rival: found.score("upgrade", rival, length) for rival in ("cca", "ridge", "old")}
    figures = f"{value:.3f}, {name}; " + ", ".join(f"{n} {v:.3f}" for n, v in others.items() if v is not None)
    return Goal(words, value >= 0.65, figures)


def _spaces(found: Found) -> Iterator[Goal]:
    for solver, of in (("linear", "linear maps"), ("neural", "neural heads")):
        rows = found.rows("spaces", f"circle, {solver}")
        words = f"Known singular functions of two spaces, alignment .99 and values within 1 % ({of} of random units)"
        if rows:
            aligned, off = min(row["worst_alignment"] for row in rows), max(row["worst_value"] for row in rows)
            figures = f"alignment {aligned:.4f}, values within {100 * off:.2f} %, the worst of {len(rows)} seeds"
            yield Goal(words, aligned >= 0.99 and off <= 0.01, figures)
        else:
            yield Goal(words, None)
    rows = found.rows("spaces", "gaussian")
    words = "Linear correlations equal cca-zoo's to 1e-6, and come sorted"
    if rows:
        difference = max(row["cca_zoo_difference"] for row in rows)
        ordered = all(sorted(row["values"], reverse=True) == row["values"] for row in rows)
        yield Goal(words, difference <= 1e-6 and ordered, f"the largest difference is {difference:.0e}")
    else:
        yield Goal(words, None)
    chosen = "neural-chosen" if found.rows("emoji", "neural-chosen") else "neural"  # deep CCA's settings are chosen too
    for name, job, method in (
        ("English-French", "translated-french", "neural"),
        ("Emoji pictures and names", "emoji", chosen),
    ):
        words = f"{name}, neural above cca-zoo's deep CCA at {SHORT} features"
        both = found.beside(job, ((method, SHORT), ("deep-cca", SHORT)))
        if both:
            ours, deep = (mean(pair[side] for pair in both) for side in (0, 1))
            figures = f"nDCG@10 {ours:.3f} against {deep:.3f}, {len(both)} of {len(SEEDS)} splits"
            settled = len(both) == len(SEEDS)  # one split says little where standard deviations are as large as the gap
            yield Goal(words, ours > deep if settled else None, figures)
        else:
            yield Goal(words, None)


def _by_the_clock(met: bool, by_cpu_seconds: bool) -> bool | None:
    """Tell whether a goal is met by the clock; None if only CPU seconds meet it, on a busy machine."""
    return True if met else None if by_cpu_seconds else False


def _cost(found: Found) -> Iterator[Goal]:
    words = "A million pairs of 384 numbers, linear, in at most 2 minutes on 2 cores"
    rows = found.rows("cost", "linear")
    if rows:
        row = rows[0]
        figures = (
            f"the clock showed {row['seconds']:.0f} s with {row['threads']} of {row['cores']} cores at a load of "
            f"{row['load']:.0f}; {row['cpu_seconds']:.0f} CPU seconds"
        )
        yield Goal(words, _by_the_clock(row["seconds"] <= 120, row["cpu_seconds"] <= 120), figures)
    else:
        yield Goal(words, None)
    words = "Encoding at least 500,000 vectors per second, 64 of 384 features, on 2 cores"
    rows = found.rows("cost", "encode")
    if rows:
        rate, busy = rows[0]["per_second"], rows[0]["per_cpu_second"]
        figures = f"the clock showed {rate:,.0f} at a load of {rows[0]['load']:.0f}; {busy:,.0f} per CPU second"
        yield Goal(words, _by_the_clock(rate >= 500_000, busy >= 500_000), figures)
    else:
        yield Goal(words, None)
    words = "10 million vectors of 768 float16 numbers from disk in less than 2 GB of memory"
    rows = found.rows("cost-disk", "disk")
    if rows:
        figures = (
            f"{rows[0]['peak_memory_mb']:,.0f} MB; {100 * rows[0]['share_of_disk']:.0f} % of the speed of the disk, "
            f"{100 * rows[0]['share_of_products']:.0f} % of that of the matrix products"
        )
        yield Goal(words, rows[0]["peak_memory_mb"] * 2**20 < 2e9, figures)
    else:
        yield Goal(words, None)
    for words, method, most in (
        ("The neural head of a million pairs in minutes on the CPU", "neural", 600),
        ("The neural head of a million pairs in seconds on an H200", "neural, GPU", 60),
    ):
        rows = found.rows("cost", method)
        if not rows:
            yield Goal(words, None)
            continue
        row = rows[0]
        alone = row.get("load_before", row["load"]) < ALONE
        beside = "alone" if alone else f"beside other jobs at a load of {row['load']:.0f}"
        figures = f"{row['head_seconds']:.0f} s by the clock, {row['steps']:,} steps, {beside} on {row['cores']} cores"
        yield Goal(words, row["head_seconds"] < most, figures)
