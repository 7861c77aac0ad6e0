"""Advice on length and funnel, measured on the items of an index.

Stored items serve as queries, each excluded from its own results. The reference is exact search at full length; recall
is the share of its `top` results that a setting finds. Settings are chosen on one half of the queries, and the reported
recall is measured on the other half.

    advice = advise(index, recall=0.99)
    advice.chosen.stages                    # for index.search(funnel=...)
    index.search(queries, dim="auto")       # uses it
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction
from eigenmap.evaluation.retrieval import lengths
from eigenmap.search.backend import Id, Readable, Stage, still
from eigenmap.search.rivals import PrefixRow, compare_prefixes
from eigenmap.search.stages import others

if TYPE_CHECKING:
    from eigenmap.search.index import CodeIndex


SHORTLISTS = (20, 50, 100, 200, 500, 1000, 2000)
_SHORTEST = 4
_SPARE = 0.3
"""Share of the permitted loss that is reserved for chance when a setting is chosen on half of the queries."""


@dataclass(frozen=True)
class AdviceRow:
    """One way to search with its `recall` relative to full length and its queries per second in one batch."""

    name: str
    stages: tuple[Stage, ...]
    exact: bool
    recall: float
    queries_per_second: float

    @property
    def dim(self) -> int:
        """Number of features that determine the final ranking."""
        return self.stages[-1].dim


@dataclass(frozen=True)
class Advice:
    """Measurements and the recommended setting."""

    items: int
    top: int
    queries: int
    wanted_recall: float
    bytes_per_item: int
    rows: list[AdviceRow]
    prefixes: list[PrefixRow]
    chosen: AdviceRow
    remarks: list[str] = field(default_factory=list)

    @property
    def full(self) -> AdviceRow:
        """The exact search at full length."""
        return self.rows[0]

    def at(self, items: float) -> dict[str, float]:
        """Return bytes and queries per second of the chosen setting, extrapolated to this many items.

        An approximate index visits about as many items whatever their number, so no growth is assumed for it.
        """
        growth = 1.0 if not self.chosen.exact else items / self.items
        return {
            "items": items,
            "stored_bytes": items * self.bytes_per_item,
            "first_stage_bytes": items * self.bytes_per_item * self.chosen.stages[0].dim / self.full.dim,
            "queries_per_second": self.chosen.queries_per_second / growth,
            "queries_per_second_full_length": self.full.queries_per_second * self.items / items,
        }

    def stages_for(self, top: int) -> list[Stage]:
        """Return the stages of the chosen setting for `top` results; longer lists need more candidates."""
        more = max(1.0, top / self.top)
        stages = [Stage(dim, math.ceil(keep * more)) for dim, keep in self.chosen.stages[:-1]]
        return [*stages, Stage(self.chosen.dim, top)]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Advice:
        """Restore advice from the values of `as_json`."""
        rows = [_row(entry) for entry in entries["rows"]]
        prefixes = [PrefixRow(**entry) for entry in entries["prefixes"]]
        return cls(**{**entries, "rows": rows, "prefixes": prefixes, "chosen": _row(entries["chosen"])})


def stored_advice(note: dict[str, Any] | None, n_components: int) -> Advice | None:
    """Return the advice in a note, or None if there is no valid one."""
    try:
        advice = None if note is None else Advice.from_json(note)
        if advice is None or advice.items < 1 or advice.top < 1:
            return None
        dims = [dim for dim, keep in advice.chosen.stages if 1 <= dim <= n_components and keep >= 1]
        return advice if dims and len(dims) == len(advice.chosen.stages) and dims == sorted(dims) else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _row(entry: dict[str, Any]) -> AdviceRow:
    return AdviceRow(**{**entry, "stages": tuple(Stage(*stage) for stage in entry["stages"])})


def advise(
    index: CodeIndex,
    recall: float = 0.99,
    *,
    bytes_per_item: int | None = None,
    top: int = 10,
    queries: int = 200,
    seed: int = 0,
    say: LogFunction = lambda line: None,
) -> Advice:
    """Measure lengths and funnels on the current items of `index`, and choose the fastest that keeps `recall`.

    With `bytes_per_item`, only settings that store at most that many bytes per item are considered.
    """
    top = whole_number(top, "top")
    if not 0 < recall <= 1:
        raise EigenmapError(f"recall must be above 0 and at most 1, not {recall!r}")
    items = still(index.backend)
    count = len(items)
    if count < top + 2:
        raise EigenmapError(f"the index has too few items, {count}, for advice on {top} results; it needs {top + 2}")
    stored, dims = _bytes_of(index), _dims(index.n_components)
    least = stored * min([*dims, index.n_components]) / index.n_components
    if bytes_per_item is not None and bytes_per_item < least:
        raise EigenmapError(
            f"no prefix of these codes ({stored} bytes for {index.n_components} features) fits into {bytes_per_item} "
            "bytes; create the index with bytes_per_item instead"
        )
    measure = Measure(items, top, whole_number(queries, "queries", 2), seed)
    say("exact search at full length")
    rows = [measure.row("exact, full length", [Stage(index.n_components, top)], exact=True)]
    for dim in dims:
        say(f"exact search at {dim} features")
        rows.append(measure.row(f"exact, {dim} features", [Stage(dim, top)], exact=True))
    say("looking for funnels")
    for stages in measure.funnels(recall):
        say(f"funnel {funnel_text(stages)}")
        rows.append(measure.row("funnel", stages, exact=True))
    if index.about.approximate is not None:
        for stages in measure.approximate(recall):
            say(f"approximate {funnel_text(stages)}")
            rows.append(measure.row("approximate index", stages, exact=False))
    say("comparing with PCA and random features")
    prefixes = compare_prefixes(items, top, min(queries, 200), seed)
    size = stored / index.n_components
    allowed = rows if bytes_per_item is None else [r for r in rows if size * r.dim <= bytes_per_item]
    good = [row for row in allowed if measure.tried_recall[row] >= with_margin(recall)]
    chosen = (
        max(good, key=lambda r: r.queries_per_second) if good else max(allowed, key=measure.tried_recall.__getitem__)
    )
    remarks = _remarks(prefixes, chosen, recall, bool(good))
    return Advice(count, top, len(measure.judged), recall, stored, rows, prefixes, chosen, remarks)


def _dims(n_components: int) -> list[int]:
    return [dim for dim in lengths(n_components, _SHORTEST) if dim < n_components]


def _bytes_of(index: CodeIndex) -> int:
    width = {"float32": 4, "float16": 2, "int8": 1}.get(index.about.precision)
    return index.about.bytes_per_item or index.n_components * (width or 4)


def funnel_text(stages: Sequence[Stage]) -> str:
    """Format a funnel.

    >>> funnel_text([Stage(16, 200), Stage(256, 10)])
    '16:200 > 256:10'
    """
    return " > ".join(f"{dim}:{keep}" for dim, keep in stages)


def with_margin(recall: float) -> float:
    """Return the recall that half of the queries must have, so that the other half is likely to have `recall`."""
    return recall + _SPARE * (1 - recall)


class Measure:
    """Queries with their true results, for measuring settings."""

    def __init__(self, backend: Readable, top: int, queries: int, seed: int) -> None:
        sample = backend.sample(queries, seed)
        self.backend = backend
        self.top = top
        self.k = backend.about.n_components
        self.queries = sample.codes
        self.own = sample.ids
        half = len(self.own) // 2
        self.tried, self.judged = np.arange(half), np.arange(half, len(self.own))
        self.truth = self._search([Stage(self.k, top)], exact=True)
        self.tried_recall: dict[AdviceRow, float] = {}
        """Recall of each row on the other half of the queries, by which one is chosen."""

    def _search(self, stages: Sequence[Stage], exact: bool) -> list[list[Id]]:
        """Return the results of every query, excluding the query itself."""
        wider = [Stage(stage.dim, stage.keep + 1) for stage in stages]
        found = self.backend.search(self.queries, wider, [], exact).ids
        return [others(ids, own, stages[-1].keep) for own, ids in zip(self.own, found, strict=True)]

    def recall(self, found: Sequence[Sequence[Id]], which: np.ndarray[Any, Any]) -> float:
        """Return the share of true results found, for the selected queries."""
        return float(np.mean([len(set(self.truth[i]) & set(found[i])) / len(self.truth[i]) for i in which]))

    def row(self, name: str, stages: Sequence[Stage], exact: bool) -> AdviceRow:
        """Measure one setting; a first search warms up the second, which is timed."""
        found = self._search(stages, exact)
        began = time.perf_counter()
        self.backend.search(self.queries, stages, [], exact)
        seconds = max(time.perf_counter() - began, 1e-9)
        row = AdviceRow(name, tuple(stages), exact, self.recall(found, self.judged), len(self.queries) / seconds)
        self.tried_recall[row] = self.recall(found, self.tried)
        return row

    def needed(self, dim: int, recall: float, exact: bool) -> int | None:
        """Return the number of items to keep of a ranking by `dim` features for `recall`; None if none is enough."""
        longest = min(SHORTLISTS[-1], max(self.top, len(self.backend) - 1))
        found = self._search([Stage(dim, longest)], exact)
        wanted = with_margin(recall)
        for keep in [s for s in SHORTLISTS if self.top <= s < longest] + [longest]:
            if self.recall([ids[:keep] for ids in found], self.tried) >= wanted:
                return keep
        return None

    def funnels(self, recall: float) -> list[list[Stage]]:
        """Return one funnel per length to full length, and two-step ones if the second step saves most."""
        needed = {dim: keep for dim in _dims(self.k) if (keep := self.needed(dim, recall, True)) is not None}
        last = Stage(self.k, self.top)
        found = [[Stage(dim, keep), last] for dim, keep in needed.items()]
        for dim, keep in needed.items():
            second = next((d for d in needed if d >= 2 * dim and 4 * needed[d] <= keep), None)
            if second is not None:
                found.append([Stage(dim, keep), Stage(second, needed[second]), last])
        return found

    def approximate(self, recall: float) -> list[list[Stage]]:
        """Return searches with the approximate first stage and as many candidates as the recall requires."""
        how = self.backend.about.approximate
        assert how is not None
        keep = self.needed(how.dim, recall, False)
        last = Stage(self.k, self.top)
        keeps = {how.shortlist} if keep is None else {keep, max(keep, how.shortlist)}
        return [[Stage(how.dim, max(k, self.top)), last] for k in sorted(keeps)]


def _remarks(prefixes: Sequence[PrefixRow], chosen: AdviceRow, recall: float, reached: bool) -> list[str]:
    remarks = []
    if chosen.recall < recall and reached:
        remarks.append(f"it was chosen on other queries; on those of this report its recall is below {recall:g}")
    elif chosen.recall < recall:
        remarks.append(f"no permitted setting reaches a recall of {recall:g}; this one comes closest")
    level = [row.dim for row in prefixes if row.pca >= row.prefix - 0.005]
    if level:
        remarks.append(f"at {_listed(level)} features, PCA of these codes is as good as cutting them, or better")
    plain = [row.dim for row in prefixes if row.random >= row.prefix - 0.005]
    if plain:
        remarks.append(
            f"at {_listed(plain)} features, random features are as good as the first ones: order does not matter there"
        )
    return remarks


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
