"""CodeIndex: search among ordered codes, at a length chosen per query.

A search cuts queries and codes at `dim`, normalises them (cosine) and returns the largest inner products. A funnel
first ranks everything by very few features, then the best by more, in any number of stages:

    index.search(queries, top=10, dim=64)
    index.search(queries, top=10, dim=64, shortlist_dim=16, shortlist=200)
    index.search(queries, funnel=[(8, 2000), (32, 200), (256, 10)], where={"label": "cat"})

One class covers three back ends (`eigenmap.search.backend`), which give the same results in exact mode.

Any number of threads may search an index while others change it. Each search sees one state, either before or after a
change; changes take turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.redaction import redacted
from eigenmap.core.words import count
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
    KnowsItems,
    RankingRule,
    RanksTwoWays,
    Readable,
    Stage,
    still,
)
from eigenmap.search.backend_choice import Where, create_backend, new_index_spec, open_backend
from eigenmap.search.filters import conditions
from eigenmap.search.stages import measure_recall, search_stages

if TYPE_CHECKING:
    from eigenmap.search.advisor import Advice

MEMORY_BYTES = 256 * 2**20
MOST_COMPONENTS = 2**20
"""Length used to check the other settings while the length of the codes is unknown."""

FEWEST_TO_ADVISE = 1000
"""Number of items below which full-length search is instant and advice is ignored."""


class Results(NamedTuple):
    """Search results, best first."""

    ids: list[list[Id]]
    """One list of ids per query."""
    scores: Floats
    """(n_queries, found) cosines or inner products, float32."""
    recall: float | None = 1.0
    """Share of the exact results at the last stage's length that such a search finds: 1 if it is exact, otherwise the
    value measured by `CodeIndex.recall` with these settings, or None if it was not measured."""
    dim: int | None = None
    """Number of features that were compared."""


class CodeIndex:
    """Codes with their ids, searched by any prefix.

    Threads may share an index: any number may search while others change it, and each search sees one state; writers
    take turns. A forked process may continue to use it, unless it is in a database. Pickling stores the location of an
    index (its directory, or the database address as given, password included) and its options; an index in memory
    cannot be pickled.

    Items with equal scores are returned in the order of addition (if more items tie than fit, faiss decides which are
    returned). Scores are sums in float32, which may differ in the last digit for equal codes stored in different rows.

    Args:
        n_components: length of a code; None for that of the first codes.
        metric: "cosine" or "inner".
        backend: "flat" compares everything; "faiss" has an approximate index on a prefix; "postgres" is a table.
        where: None for memory, a new directory for an index on disk, or `postgresql://...`.
        table: name of the table for postgres.
        precision: storage format of a feature: "float32", "float16", "int8", "bits" (bits allocated over the features)
            or "signs".
        bytes_per_item: size of a stored code for "bits" and "signs".
        approximate: the approximate index of "faiss" and "postgres".
        fingerprint: the model that made the codes.
        memory_bytes: limit on the copies that a search makes; a prefix that fits is kept for the next search.

    >>> index = CodeIndex(2)
    >>> index.add([[1.0, 0.0], [0.6, 0.8]], ["east", "north-east"])
    >>> index.search([[0.0, 2.0]], top=1).ids
    [['north-east']]

    """

    def __init__(
        self,
        n_components: int | None = None,
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
        memory_bytes = whole_number(memory_bytes, "memory_bytes")

        def make(length: int) -> None:
            about = new_index_spec(length, metric, fingerprint, precision, bytes_per_item, approximate)
            if about.approximate is None and backend == "faiss":
                # IVF takes seconds to build, HNSW minutes, and after refinement both are equally accurate.
                about = replace(about, approximate=Approximate("ivf", dim=min(64, about.n_components)))
            self._use(create_backend(backend, about, where, table, memory_bytes))
            self._set_place(where, table, memory_bytes)

        self._first_codes = threading.Lock()
        self._make: Callable[[int], None] | None = make
        if n_components is None:
            new_index_spec(MOST_COMPONENTS, metric, fingerprint, precision, bytes_per_item, approximate)
            self._set_place(None, table, memory_bytes)
        else:
            self._begin(n_components)

    def _begin(self, n_components: int) -> None:
        """Create the back end, once."""
        with self._first_codes:
            if self._make is not None:
                self._make(n_components)
                self._make = None

    def __getattr__(self, name: str) -> Any:
        if name == "backend" and self.__dict__.get("_make") is not None:
            raise EigenmapError("the index is empty; add codes first, which determine its length")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        if self._make is not None:
            return "CodeIndex(empty, length of the first codes)"
        about = self.about
        facts = [f"n_components={about.n_components}", f"metric={about.metric!r}"]
        facts += [] if about.precision == "float32" else [f"precision={about.precision!r}"]
        if self._place is not None:
            facts.append(redacted(f"where={self._place[0]!r}"))
        if isinstance(self.backend, KeepsStates):  # a database would count by reading everything
            facts.insert(0, count(len(self), "item"))
        return f"CodeIndex({', '.join(facts)})"

    @classmethod
    def open(
        cls,
        where: Where,
        *,
        table: str = "items",
        fingerprint: str | None = None,
        memory_bytes: int = MEMORY_BYTES,
    ) -> CodeIndex:
        """Open an existing index: a directory, or `postgresql://...` and a table.

        Codes are not copied, so any number of processes can share them; a change is durable when its call returns.
        With `fingerprint`, an index of another model is refused.
        """
        index = cls.__new__(cls)
        index._make = None
        index._use(open_backend(where, table, whole_number(memory_bytes, "memory_bytes")))
        index._set_place(where, table, memory_bytes)
        if fingerprint is not None:
            index.require_model(fingerprint)
        return index

    load = open

    def require_model(self, fingerprint: str) -> None:
        """Raise if the codes were made by another model, since codes of two models cannot be compared."""
        if self.fingerprint != fingerprint:
            made_by = "no known model" if self.fingerprint is None else f"the model {self.fingerprint[:12]}"
            raise EigenmapError(
                f"the index contains codes of {made_by}, not of the model {fingerprint[:12]}; "
                "index the items again with this model, or use the other one"
            )

    def _use(self, backend: Backend) -> None:
        self.backend = backend
        # Replaced by every change, so that measurements made meanwhile on the previous items are discarded.
        self._measured: dict[tuple[Stage, ...], float] = {}
        self._advice: Advice | None = None
        self._generation = backend.generation if isinstance(backend, KeepsStates) else None

    def _still(self) -> Readable:
        """Return one state of the items, discarding measurements on an index that this one replaced."""
        items = still(self.backend)
        generation = self.backend.generation if isinstance(self.backend, KeepsStates) else None
        if generation is not self._generation:
            self._generation, self._measured, self._advice = generation, {}, None
        return items

    def _set_place(self, where: Where | None, table: str, memory_bytes: int) -> None:
        self._place: tuple[str, str, int] | None = None
        if where is not None:
            in_directory = isinstance(self.backend, KeepsStates)
            self._place = (str(Path(where).absolute()) if in_directory else str(where), table, memory_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._place is None:
            raise EigenmapError(
                "an index in memory cannot be pickled, because its items exist nowhere else; save it, and open the "
                "saved folder instead"
            )
        ranking = self.backend.ranking if isinstance(self.backend, RanksTwoWays) else None
        return _opened_again, (*self._place, self.fingerprint, ranking)

    @property
    def about(self) -> IndexSpec:
        """Description of the index, fixed when it was created."""
        return self.backend.about

    @property
    def n_components(self) -> int:
        """Length of a code."""
        return self.backend.about.n_components

    @property
    def metric(self) -> str:
        """Kind of scores: "cosine" or "inner"."""
        return self.backend.about.metric

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the model that made the codes."""
        return self.backend.about.fingerprint

    @property
    def ids(self) -> list[Id]:
        """Ids of all items in the order of addition."""
        return [] if self._make is not None else self.backend.ids()

    def __len__(self) -> int:
        return 0 if self._make is not None else len(self.backend)

    def __enter__(self) -> CodeIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release files and connections."""
        if self._make is None:
            self.backend.close()

    def add(self, codes: Any, ids: Iterable[Id], metadata: Any = None) -> None:
        """Add (n, n_components) codes, NumPy or torch of any float type, with one new id each: all str or all int.

        `metadata` is one mapping per item, or one mapping of columns. On any error nothing is added.
        """
        self._write("add", codes, ids, metadata)

    def update(self, codes: Any, ids: Iterable[Id], metadata: Any = None) -> None:
        """Replace the codes of existing items, and their metadata if given."""
        self._write("update", codes, ids, metadata)

    def upsert(self, codes: Any, ids: Iterable[Id], metadata: Any = None) -> None:
        """Add items, or replace existing ones."""
        self._write("upsert", codes, ids, metadata)

    def _write(self, mode: Literal["add", "update", "upsert"], codes: Any, ids: Iterable[Id], metadata: Any) -> None:
        rows = checks.matrix(codes, "codes")
        if self._make is None or mode == "update":
            self._require_length(rows)
        names = checks.names(ids)
        if len(names) != len(rows):
            raise EigenmapError(f"there are {len(rows)} codes but {len(names)} ids; give one id per code")
        known = checks.metadata(metadata, len(names))
        if not names:
            return
        if self._make is not None:  # only valid codes determine the length
            self._begin(rows.shape[1])
            self._require_length(rows)  # another thread may have been first
        if self.metric == "inner":
            checks.products(rows, "codes")
        self.backend.write(mode, rows, names, known)
        self._measured = {}

    def _require_length(self, rows: Floats) -> None:
        if rows.shape[1] != self.n_components:
            raise EigenmapError(
                f"codes have {rows.shape[1]} features, but this index contains codes of {self.n_components}"
            )

    def delete(self, ids: Iterable[Id]) -> None:
        """Remove items. If one of them does not exist, none is removed."""
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
        """Find the `top` (default 10) best items for each query, comparing the first `dim` features (default all).

        Queries are one code, or one per row, at full length or already cut at the longest length compared. With
        `shortlist_dim` and `shortlist`, everything is ranked by the first `shortlist_dim` features and only the best
        `shortlist` items by `dim`. `funnel` lists all stages, (features, items kept); its last number is `top`. `where`
        is a metadata filter (`eigenmap.search.filters`). `exact` makes every back end compare all items in the first
        stage. `dim="auto"` follows the last `advise`; if there is none, or the number of items has doubled or halved
        since, every item is compared at full length. If fewer than `top` items match, all of them are returned.
        """
        items = self._still()
        if dim == "auto":
            if shortlist_dim is not None or shortlist is not None or funnel is not None:
                raise EigenmapError('dim="auto" chooses all stages; leave shortlist_dim, shortlist and funnel out')
            stages, exact, measured = self._advised(top, len(items))
        else:
            stages = self.stages(top, dim, shortlist_dim, shortlist, funnel)
            measured = self._known_recall(stages, exact)
        rows = checks.queries(queries, stages[-1].dim, self.about)
        found = items.search(rows, stages, conditions(where), exact)
        if not found.scores.size and not len(items):  # counted last: a database counts by reading everything
            raise EigenmapError("the index is empty; add codes before searching")
        return Results(found.ids, found.scores, measured, stages[-1].dim)

    def rank_by(self, ranking: RankingRule) -> None:
        """Set how compact codes are ranked at full length; other indexes always rank by their metric.

        "relevance", the default, is the expected cosine times the reliability of the item's code. "cosine" is the
        cosine of the stored values. It finds more neighbours of the full codes, and more of the right answers where
        each query has only one.
        """
        if ranking not in RANKINGS:
            raise EigenmapError(f"ranking must be one of {', '.join(RANKINGS)}, not {ranking!r}")
        if isinstance(self.backend, RanksTwoWays):
            self.backend.rank_by(ranking)
            self._measured = {}

    def advise(self, recall: float = 0.99, **options: Any) -> Advice:
        """Measure lengths and funnels on the items (`eigenmap.search.advisor.advise`) for `dim="auto"`.

        The advice is stored with the index, if it is writable.
        """
        from eigenmap.search.advisor import advise

        advice = self._advice = advise(self, recall, **options)
        if isinstance(self.backend, KeepsNotes):
            self.backend.write_note("advice", advice.as_json())
        return advice

    @property
    def advice(self) -> Advice | None:
        """The last advice, or None if the number of items has doubled or halved since."""
        return self._advice_for(len(self._still()))

    def _advice_for(self, count: int) -> Advice | None:
        advice = self._advice
        if advice is None and isinstance(self.backend, KeepsNotes):
            from eigenmap.search.advisor import stored_advice

            advice = self._advice = stored_advice(self.backend.read_note("advice"), self.n_components)
        return advice if advice is not None and 0.5 < count / advice.items < 2 else None

    def _advised(self, top: int | None, count: int) -> tuple[list[Stage], bool, float | None]:
        """Return the recommended stages for `top` results, whether they are exact, and their measured recall."""
        top = 10 if top is None else whole_number(top, "top")
        advice = self._advice_for(count) if count >= FEWEST_TO_ADVISE else None
        if advice is None:
            return [Stage(self.n_components, top)], True, 1.0
        return advice.stages_for(top), advice.chosen.exact, advice.chosen.recall

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
        """Return the share of the exact results at `dim` that such a search finds, with stored items as queries.

        Each query is excluded from its own results. Later searches with these settings report this recall.
        """
        stages = self.stages(top, dim, shortlist_dim, shortlist, funnel)
        self._still()  # discards what was measured on an index that this one replaced
        measured = self._measured  # taken before the items: any change from here on discards it
        items = still(self.backend)
        share = measured[tuple(stages)] = measure_recall(items, stages, whole_number(queries, "queries"), seed)
        return share

    def _known_recall(self, stages: Sequence[Stage], exact: bool) -> float | None:
        if len(stages) == 1 and (exact or self.about.approximate is None):
            return 1.0
        return self._measured.get(tuple(stages))

    def codes(self, ids: Iterable[Id]) -> Floats:
        """Return the stored codes of these items, decoded, in this order.

        If codes are compared by cosine, those too small or too large for their precision are stored scaled.
        """
        return self.backend.take(checks.names(ids)).codes

    def metadata(self, ids: Iterable[Id]) -> list[dict[str, Any]]:
        """Return the metadata of these items, in this order."""
        names = checks.names(ids)
        if not isinstance(self.backend, KnowsItems):
            return [dict(item) for item in self.backend.take(names).metadata]
        known = self.backend.known(names)
        if len(known) < len(names):
            checks.refuse_unknown(next(name for name in names if name not in known))
        return [dict(known[name]) for name in names]

    def batches(self, rows: int = 16_384) -> Iterator[ItemBatch]:
        """Yield all current items in the order of addition, `rows` at a time: ids, decoded codes, metadata."""
        return self.backend.batches(whole_number(rows, "rows"))

    def save(self, path: Where, overwrite: bool = False, model_dir: Where | None = None) -> None:
        """Write the index as a directory, atomically; an existing index is replaced only with `overwrite`.

        The model in `model_dir`, if given (for example the folder of a run), is copied inside as `model/`.
        """
        from eigenmap.search.saving import save_index

        if not len(self):
            raise EigenmapError("the index is empty; add codes before saving")
        save_index(self.backend, path, overwrite=overwrite, model_dir=model_dir)

    def verify(self) -> list[str]:
        """Read every byte of an index on disk and compare checksums; return one line per part.

        Raises `EigenmapError` at the first damaged part, with its file and, in a large file, the position.
        """
        if not isinstance(self.backend, KeepsChecksums):
            raise EigenmapError("this index is in a database, which verifies its own storage")
        return self.backend.verify()

    def stages(
        self,
        top: int | None,
        dim: int | None,
        shortlist_dim: int | None,
        shortlist: int | None,
        funnel: Sequence[tuple[int, int]] | None,
    ) -> list[Stage]:
        """Return the stages of a search with these arguments; raise if they are invalid."""
        return search_stages(self.n_components, top, dim, shortlist_dim, shortlist, funnel)


def _opened_again(
    where: str, table: str, memory_bytes: int, fingerprint: str | None, ranking: RankingRule | None
) -> CodeIndex:
    """Open an index that was pickled."""
    index = CodeIndex.open(where, table=table, fingerprint=fingerprint, memory_bytes=memory_bytes)
    if ranking is not None:
        index.rank_by(ranking)
    return index
