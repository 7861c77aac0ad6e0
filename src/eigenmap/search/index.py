"""CodeIndex: search among ordered codes, at a length chosen for each query.

A search cuts queries and codes at `dim`, normalises what is left (cosine) and takes the largest inner products. A
funnel first ranks everything by very few features, then the best of them by more, with any number of stages:

    index.search(queries, top=10, dim=64)
    index.search(queries, top=10, dim=64, shortlist_dim=16, shortlist=200)
    index.search(queries, funnel=[(8, 2000), (32, 200), (256, 10)], where={"label": "cat"})

One class stands in front of three back ends (`eigenmap.search.backend`); in exact mode they give the same results.

Any number of threads may search an index while others change it. Each search sees one state, that before a change or
that after it, never a part; changes take turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.search import checks
from eigenmap.search.backend import (
    RANKINGS,
    Approximate,
    Backend,
    Floats,
    Id,
    IndexSpec,
    ItemBatch,
    KeepsChecksums,
    KeepsNotes,
    KeepsStates,
    RankingRule,
    RanksTwoWays,
    Readable,
    Stage,
    still,
)
from eigenmap.search.backend_choice import Where, create_backend, new_index_spec, open_backend
from eigenmap.search.filters import conditions

if TYPE_CHECKING:
    from eigenmap.search.advisor import Advice

MEMORY_BYTES = 256 * 2**20

FEWEST_TO_ADVISE = 1000
"""Comparing so few at full length takes no time, so that there is nothing to choose."""


class Results(NamedTuple):
    """What a search found, the best first."""

    ids: list[list[Id]]
    """One list per query."""
    scores: Floats
    """(n_queries, found) cosines or inner products, float32."""
    recall: float | None = 1.0
    """Share of the exact results of the last stage's length that such a search finds: 1 if it is exact; else what
    `CodeIndex.recall` measured with these settings, or None if it was not asked."""
    dim: int | None = None
    """How many features the scores compare."""


class CodeIndex:
    """Codes with their ids, searched by any prefix.

    Threads may share an index: any number may search while others change it, and each search sees one state; writers
    take turns. A forked process may go on with it as well, unless it is in a database. Pickling keeps the place of an
    index (its directory, or the address of the database as it was given, password included) and how it is opened; an
    index in memory cannot be pickled.

    Equal scores come in the order in which the items were added (where more items tie than fit, which of them
    are returned is up to faiss).

    Args:
        n_components: features a code has.
        metric: "cosine" or "inner".
        backend: "flat" compares everything; "faiss" has an approximate index on a prefix; "postgres" is a table.
        where: None for memory, a new directory for an index on disk, or `postgresql://...`.
        table: name of the table, for postgres.
        precision: what a stored feature is: "float32", "float16", "int8", "bits" (a bit budget spread over features)
            or "signs".
        bytes_per_item: size of a stored code, for "bits" and "signs".
        approximate: the approximate index of "faiss" and "postgres".
        fingerprint: the model that made the codes.
        memory_bytes: bounds the copies a search makes; a prefix that fits in it is kept for the next search.

    >>> index = CodeIndex(2)
    >>> index.add([[1.0, 0.0], [0.6, 0.8]], ["east", "north-east"])
    >>> index.search([[0.0, 2.0]], top=1).ids
    [['north-east']]

    """

    def __init__(
        self,
        n_components: int,
        metric: str = "cosine",
        *,
        backend: str = "flat",
        where: Where | None = None,
        table: str = "items",
        precision: str = "float32",
        bytes_per_item: int | None = None,
        approximate: Approximate | None = None,
        fingerprint: str | None = None,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        about = new_index_spec(n_components, metric, fingerprint, precision, bytes_per_item, approximate)
        if about.approximate is None and backend == "faiss":
            # IVF: made in seconds where HNSW takes minutes, and level with it where the refinement decides.
            about = replace(about, approximate=Approximate("ivf", dim=min(64, about.n_components)))
        self._use(create_backend(backend, about, where, table, whole_number(memory_bytes, "memory_bytes")))
        self._lies(where, table, memory_bytes)

    @classmethod
    def open(
        cls,
        where: Where,
        *,
        table: str = "items",
        fingerprint: str | None = None,
        memory_bytes: int = MEMORY_BYTES,
    ) -> CodeIndex:
        """Open what is there: a directory, or `postgresql://...` and a table.

        Codes stay where they are, so that any number of processes share them; a change is there for good when the
        call that makes it returns. With `fingerprint`, an index of another model is refused.
        """
        index = cls.__new__(cls)
        index._use(open_backend(where, table, whole_number(memory_bytes, "memory_bytes")))
        index._lies(where, table, memory_bytes)
        if fingerprint is not None:
            index.require_model(fingerprint)
        return index

    load = open

    def require_model(self, fingerprint: str) -> None:
        """Raise if the codes are of another model: codes of two models cannot be compared."""
        if self.fingerprint != fingerprint:
            made_by = "no known model" if self.fingerprint is None else f"the model {self.fingerprint[:12]}"
            raise EigenmapError(
                f"the index holds codes of {made_by}, not of the model {fingerprint[:12]}; "
                "index the items again with this model, or use the other"
            )

    def _use(self, backend: Backend) -> None:
        self.backend = backend
        # Replaced by every change, so that what is measured meanwhile, on the items before it, goes with the old one.
        self._measured: dict[tuple[Stage, ...], float] = {}
        self._advice: Advice | None = None
        self._generation = backend.generation if isinstance(backend, KeepsStates) else None

    def _still(self) -> Readable:
        """One state of the items; what was measured on another index that was in this place is forgotten."""
        items = still(self.backend)
        generation = self.backend.generation if isinstance(self.backend, KeepsStates) else None
        if generation is not self._generation:
            self._generation, self._measured, self._advice = generation, {}, None
        return items

    def _lies(self, where: Where | None, table: str, memory_bytes: int) -> None:
        self._place: tuple[str, str, int] | None = None
        if where is not None:
            in_directory = isinstance(self.backend, KeepsStates)
            self._place = (str(Path(where).absolute()) if in_directory else str(where), table, memory_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._place is None:
            raise EigenmapError(
                "an index in memory cannot be pickled, since its items are nowhere else; save it, and open the folder "
                "where it is needed"
            )
        ranking = self.backend.ranking if isinstance(self.backend, RanksTwoWays) else None
        return _opened_again, (*self._place, self.fingerprint, ranking)

    @property
    def about(self) -> IndexSpec:
        """Everything that was decided when the index was made."""
        return self.backend.about

    @property
    def n_components(self) -> int:
        """The number of features of a code."""
        return self.backend.about.n_components

    @property
    def metric(self) -> str:
        """What scores are: "cosine" or "inner"."""
        return self.backend.about.metric

    @property
    def fingerprint(self) -> str | None:
        """The model that made the codes."""
        return self.backend.about.fingerprint

    @property
    def ids(self) -> list[Id]:
        """The ids of all items, in the order in which they were added."""
        return self.backend.ids()

    def __len__(self) -> int:
        return len(self.backend)

    def __enter__(self) -> CodeIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files and connections."""
        self.backend.close()

    def add(self, codes: Any, ids: Iterable[Id], metadata: Any = None) -> None:
        """Add (n, n_components) codes, numpy or torch of any float type, with one new id each: all str or all int.

        `metadata`: a mapping per item, or one mapping of columns. If anything is wrong nothing is added.
        """
        self._write("add", codes, ids, metadata)

    def update(self, codes: Any, ids: Iterable[Id], metadata: Any = None) -> None:
        """Replace the codes of items that are there, and their metadata if any is given."""
        self._write("update", codes, ids, metadata)

    def upsert(self, codes: Any, ids: Iterable[Id], metadata: Any = None) -> None:
        """Add items, or replace those that are there."""
        self._write("upsert", codes, ids, metadata)

    def _write(self, mode: Literal["add", "update", "upsert"], codes: Any, ids: Iterable[Id], metadata: Any) -> None:
        rows = checks.matrix(codes, "codes")
        if rows.shape[1] != self.n_components:
            raise EigenmapError(
                f"codes have {rows.shape[1]} features, but this index holds codes of {self.n_components}"
            )
        names = checks.names(ids)
        if len(names) != len(rows):
            raise EigenmapError(f"there are {len(rows)} codes but {len(names)} ids; give one id per code")
        known = checks.metadata(metadata, len(names))
        if self.metric == "inner":
            checks.products(rows, "codes")
        if names:
            self.backend.write(mode, rows, names, known)
            self._measured = {}

    def delete(self, ids: Iterable[Id]) -> None:
        """Remove items. If one of them is not there none is removed."""
        names = checks.names(ids)
        if names:
            self.backend.delete(names)
            self._measured = {}

    def search(
        self,
        queries: Any,
        top: int | None = None,
        dim: int | Literal["auto"] | None = None,
        shortlist_dim: int | None = None,
        shortlist: int | None = None,
        *,
        funnel: Sequence[tuple[int, int]] | None = None,
        where: Mapping[str, Any] | None = None,
        exact: bool = False,
    ) -> Results:
        """Find the `top` (default 10) best items of each query, comparing the first `dim` features (default all).

        Queries are one code or one per row, of full length or already cut at the longest length compared. With
        `shortlist_dim` and `shortlist`, everything is ranked by the first `shortlist_dim` features and only the best
        `shortlist` items by `dim`. `funnel` names all stages, (features, items kept), and its last number is `top`.
        `where` is a filter on metadata (`eigenmap.search.filters`). `exact` makes every back end compare all items
        in the first stage. `dim="auto"` follows what `advise` found best; where it was not asked, or the number of
        items has doubled or halved since, every item is compared at full length. Fewer than `top` are returned if there
        are no more.
        """
        items = self._still()
        if dim == "auto":
            if shortlist_dim is not None or shortlist is not None or funnel is not None:
                raise EigenmapError('dim="auto" chooses all stages; leave shortlist_dim, shortlist and funnel out')
            stages, exact, measured = self._advised(top, len(items))
        else:
            stages = self.stages(top, dim, shortlist_dim, shortlist, funnel)
            measured = self._known_recall(stages, exact)
        rows = self._cut_queries(queries, stages[-1].dim)
        found = items.search(rows, stages, conditions(where), exact)
        if not found.scores.size and not len(items):  # asked last: a database counts by reading everything
            raise EigenmapError("the index is empty; add codes before searching")
        return Results(found.ids, found.scores, measured, stages[-1].dim)

    def rank_by(self, ranking: RankingRule) -> None:
        """How an index with a budget of bits ranks at full length, from now on; others always rank by their metric.

        "relevance", which it does until told otherwise, is the expected cosine times the reliability of the item's
        code: more relevant items. "cosine" is that of what is stored: more of the nearest neighbours by full codes.
        """
        if ranking not in RANKINGS:
            raise EigenmapError(f"ranking must be one of {', '.join(RANKINGS)}, not {ranking!r}")
        if isinstance(self.backend, RanksTwoWays):
            self.backend.rank_by(ranking)
            self._measured = {}

    def advise(self, recall: float = 0.99, **options: Any) -> Advice:
        """Measure lengths and funnels on the items (`eigenmap.search.advisor.advise`); `dim="auto"` then follows it.

        What was found is stored with the index, if it can be written.
        """
        from eigenmap.search.advisor import advise

        advice = self._advice = advise(self, recall, **options)
        if isinstance(self.backend, KeepsNotes):
            self.backend.write_note("advice", advice.as_json())
        return advice

    @property
    def advice(self) -> Advice | None:
        """What `advise` found, by this object or by another, if the number of items has not doubled or halved since."""
        return self._advice_for(len(self._still()))

    def _advice_for(self, count: int) -> Advice | None:
        advice = self._advice
        if advice is None and isinstance(self.backend, KeepsNotes):
            from eigenmap.search.advisor import stored_advice

            advice = self._advice = stored_advice(self.backend.read_note("advice"), self.n_components)
        return advice if advice is not None and 0.5 < count / advice.items < 2 else None

    def _advised(self, top: int | None, count: int) -> tuple[list[Stage], bool, float | None]:
        """The setting that was found best, the share of the full-length results it kept, for `top` results."""
        top = 10 if top is None else whole_number(top, "top")
        advice = self._advice_for(count) if count >= FEWEST_TO_ADVISE else None
        if advice is None:
            return [Stage(self.n_components, top)], True, 1.0
        chosen = advice.chosen
        more = max(1.0, top / advice.top)  # longer lists need as many times the candidates
        stages = [Stage(dim, math.ceil(keep * more)) for dim, keep in chosen.stages[:-1]]
        return [*stages, Stage(chosen.dim, top)], chosen.exact, chosen.recall

    def recall(
        self,
        top: int | None = None,
        dim: int | None = None,
        shortlist_dim: int | None = None,
        shortlist: int | None = None,
        *,
        funnel: Sequence[tuple[int, int]] | None = None,
        queries: int = 100,
        seed: int = 0,
    ) -> float:
        """Share of the exact results at `dim` that such a search finds, measured on stored items as queries.

        Each query is left out of its own results. Later searches with these settings carry the figure.
        """
        stages = self.stages(top, dim, shortlist_dim, shortlist, funnel)
        items = self._still()
        measured = self._measured
        sample = items.sample(whole_number(queries, "queries"), seed)
        wider = [Stage(stage.dim, stage.keep + 1) for stage in stages]
        found = items.search(sample.codes, wider, [], False)
        truth = items.search(sample.codes, wider[-1:], [], True)
        shares = []
        for own, got, right in zip(sample.ids, found.ids, truth.ids, strict=True):
            wanted = {name for name in right if name != own}
            shares.append(len(wanted & set(got)) / max(1, len(wanted)))
        share = measured[tuple(stages)] = float(np.mean(shares))
        return share

    def _known_recall(self, stages: Sequence[Stage], exact: bool) -> float | None:
        if len(stages) == 1 and (exact or self.about.approximate is None):
            return 1.0
        return self._measured.get(tuple(stages))

    def codes(self, ids: Iterable[Id]) -> Floats:
        """The stored codes of these items, decoded, in this order."""
        return self.backend.take(checks.names(ids)).codes

    def metadata(self, ids: Iterable[Id]) -> list[dict[str, Any]]:
        """What is known of these items, in this order."""
        return [dict(item) for item in self.backend.take(checks.names(ids)).metadata]

    def batches(self, rows: int = 16_384) -> Iterator[ItemBatch]:
        """All items as they are now, in the order of addition, `rows` at a time: ids, decoded codes, metadata."""
        return self.backend.batches(whole_number(rows, "rows"))

    def save(self, path: Where, overwrite: bool = False, model_dir: Where | None = None) -> None:
        """Write the index as a directory, whole or not at all; an existing index only with `overwrite`.

        The model in `model_dir`, if given (the folder of a run, say), is copied inside as `model/`.
        """
        from eigenmap.search.saving import save_index

        if not len(self):
            raise EigenmapError("the index is empty; add codes before saving")
        save_index(self.backend, path, overwrite=overwrite, model_dir=model_dir)

    def verify(self) -> list[str]:
        """Read every byte of an index on disk and compare checksums: one line per part.

        Raises `EigenmapError` for the first part that is damaged, with its file and, in a large file, the place.
        """
        if not isinstance(self.backend, KeepsChecksums):
            raise EigenmapError("this index is in a database, which checks what it stores itself")
        return self.backend.verify()

    def stages(
        self,
        top: int | None,
        dim: int | None,
        shortlist_dim: int | None,
        shortlist: int | None,
        funnel: Sequence[tuple[int, int]] | None,
    ) -> list[Stage]:
        """What a search with these arguments would do, stage by stage; an error if it cannot be done."""
        if top is not None:
            top = whole_number(top, "top")
        if funnel is not None:
            if dim is not None or shortlist_dim is not None or shortlist is not None:
                raise EigenmapError("funnel names all stages; leave dim, shortlist_dim and shortlist out")
            return checks.funnel(funnel, top, self.n_components)
        top = 10 if top is None else top
        dim = self.n_components if dim is None else whole_number(dim, "dim", 1, self.n_components)
        if shortlist_dim is None and shortlist is None:
            return [Stage(dim, top)]
        if shortlist_dim is None or shortlist is None:
            raise EigenmapError("shortlist_dim and shortlist go together; give both or neither")
        shortlist_dim = whole_number(shortlist_dim, "shortlist_dim", 1, dim)
        return [Stage(shortlist_dim, whole_number(shortlist, "shortlist", top)), Stage(dim, top)]

    def _cut_queries(self, queries: Any, dim: int) -> Floats:
        rows = checks.matrix(queries, "queries", one_allowed=True)
        if rows.shape[1] not in (self.n_components, dim):
            either = "" if dim == self.n_components else f", or already cut at dim = {dim}"
            raise EigenmapError(
                f"queries have {rows.shape[1]} features, but this index holds codes of {self.n_components}: "
                f"give queries of {self.n_components}{either}"
            )
        rows = np.ascontiguousarray(rows[:, :dim])
        if self.metric == "inner":
            checks.products(rows, "queries")
        return rows


def _opened_again(
    where: str, table: str, memory_bytes: int, fingerprint: str | None, ranking: RankingRule | None
) -> CodeIndex:
    """The index that was pickled."""
    index = CodeIndex.open(where, table=table, fingerprint=fingerprint, memory_bytes=memory_bytes)
    if ranking is not None:
        index.rank_by(ranking)
    return index
