"""Interface of the back ends of `CodeIndex`, and the types they share.

`CodeIndex` validates arguments; a back end stores and ranks codes. It receives float32 matrices without NaN,
plain `str` or `int` ids without repetition, and stages of increasing length. A back end raises `EigenmapError` for
problems that only it can see: an id that already exists, a damaged file, a lost database connection.

    flat       eigenmap.search.flat           exact, in memory or in a directory of column blocks
    faiss      eigenmap.search.approximate    the same store, and a faiss index on a prefix for the first stage
    postgres   eigenmap.search.postgres       PostgreSQL with pgvector
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from eigenmap.search.filters import Condition

Floats: TypeAlias = NDArray[np.float32]
RowNumbers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
"""Selection of rows."""
Id: TypeAlias = str | int
Value: TypeAlias = str | int | float | bool | None
Metadata: TypeAlias = Mapping[str, Value]

Mode: TypeAlias = Literal["add", "update", "upsert"]
"""Whether ids must be new, must exist, or either."""

RankingRule: TypeAlias = Literal["relevance", "cosine"]
"""Ranking of compact codes at full length: expected cosine times reliability, or cosine of the stored values."""

METRICS = ("cosine", "inner")
RANKINGS = get_args(RankingRule)
PRECISIONS = ("float32", "float16", "int8", "bits", "signs")
METHODS = ("hnsw", "ivf", "sq8")


@dataclass(frozen=True)
class Approximate:
    """Approximate first stage of a search: an index on the first `dim` features.

    Its best `shortlist` items (never fewer than requested) are then compared exactly. `effort` is the number of
    candidates visited per query (ef of HNSW; for IVF, lists).
    """

    method: str = "hnsw"
    dim: int = 32
    shortlist: int = 200
    effort: int = 64


@dataclass(frozen=True)
class IndexSpec:
    """Description of an index, fixed when it is created and stored with it."""

    n_components: int
    metric: str = "cosine"
    fingerprint: str | None = None
    precision: str = "float32"
    bytes_per_item: int | None = None
    approximate: Approximate | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` accepts."""
        return asdict(self)

    def can_replace(self, other: IndexSpec) -> bool:
        """Tell whether searches of the other index can continue with this one: same model, length, metric and kind."""
        same = (self.fingerprint, self.n_components, self.metric) == (
            other.fingerprint,
            other.n_components,
            other.metric,
        )
        return same and (self.approximate is None) == (other.approximate is None)

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> IndexSpec:
        """Restore a description from `as_json`; raise `TypeError` or `ValueError` if it is malformed."""
        approximate = entries.get("approximate")
        about = cls(**{**entries, "approximate": None if approximate is None else Approximate(**approximate)})
        if not about.well_formed():
            raise ValueError("these entries do not describe an index")
        return about

    def well_formed(self) -> bool:
        """Tell whether every entry has a valid type and value."""
        return (
            isinstance(self.n_components, int)
            and self.n_components >= 1
            and self.metric in METRICS
            and isinstance(self.fingerprint, str | None)
            and self.precision in PRECISIONS
            and isinstance(self.bytes_per_item, int | None)
            and (self.approximate is None or self.approximate.method in METHODS)
        )


class Stage(NamedTuple):
    """One stage of a funnel: compare the first `dim` features and keep the best `keep` items."""

    dim: int
    keep: int


class Hits(NamedTuple):
    """Results, best first: one list of ids per query, and (n_queries, found) float32 scores."""

    ids: list[list[Id]]
    scores: Floats


class ItemBatch(NamedTuple):
    """A batch of items: ids, codes (n, n_components), and metadata of each (possibly empty)."""

    ids: list[Id]
    codes: Floats
    metadata: list[Metadata]


class Readable(Protocol):
    """Items that can be searched and read."""

    @property
    def about(self) -> IndexSpec:
        """Description of the index."""
        ...

    def __len__(self) -> int: ...

    def ids(self) -> list[Id]:
        """Return all ids in the order of addition."""
        ...

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Hits:
        """Rank the items that meet all conditions by the first stage, its best by the second, and so on.

        Queries have at least as many features as the last stage compares. Each stage cuts queries and codes at its
        `dim` and computes cosine similarities or inner products; items with equal scores come in the order of addition.
        With `exact`, the first stage compares every item; otherwise an approximate index may answer it. Either way,
        each query gets min(keep of the last stage, items that meet the conditions) results.
        """
        ...

    def take(self, ids: Sequence[Id]) -> ItemBatch:
        """Return these items in this order; raise if an id does not exist."""
        ...

    def sample(self, count: int, seed: int) -> ItemBatch:
        """Return up to `count` distinct random items, the same for the same seed and content."""
        ...

    def batches(self, rows: int) -> Iterator[ItemBatch]:
        """Yield all items in the order of addition, `rows` at a time."""
        ...


class Backend(Readable, Protocol):
    """Storage and ranking of codes.

    Every change is one transaction: once the call returns, the change is durable (on disk, in the database); if it
    raises or the process dies, nothing has changed. An updated item counts as added last. Any number of threads may
    call any method; a search sees one state, either before or after a change.
    """

    def write(self, mode: Mode, codes: Floats, ids: Sequence[Id], metadata: Sequence[Metadata] | None) -> None:
        """Add or replace items, all or none. Without `metadata`, added items have none and updated ones keep theirs."""
        ...

    def delete(self, ids: Sequence[Id]) -> None:
        """Remove items; if an id does not exist, raise and remove none."""
        ...

    def close(self) -> None:
        """Release files and connections; may be called again."""
        ...


@runtime_checkable
class KeepsStates(Protocol):
    """A back end that can provide a snapshot of its items."""

    @property
    def generation(self) -> object:
        """An object that changes identity when another index replaces this one."""
        ...

    def snapshot(self) -> Readable:
        """Return the items in their current state, unaffected by later changes."""
        ...


def still(backend: Backend) -> Readable:
    """Return one state of the items for several related reads; a database offers only the present one."""
    return backend.snapshot() if isinstance(backend, KeepsStates) else backend


@runtime_checkable
class KnowsItems(Protocol):
    """A back end that can read metadata without the codes, which take longer."""

    def known(self, ids: Sequence[Id]) -> dict[Id, Metadata]:
        """Return the metadata of those ids that exist."""
        ...


@runtime_checkable
class KeepsNotes(Protocol):
    """A back end that can store small JSON objects with the index, such as measurements."""

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Store a note; failure is not an error."""
        ...

    def read_note(self, name: str, required: bool = False) -> dict[str, Any] | None:
        """Return the note of this name, or None; a damaged one is None or, if `required`, an error."""
        ...


@runtime_checkable
class KeepsChecksums(Protocol):
    """A back end that can verify everything it has stored."""

    def verify(self) -> list[str]:
        """Return one line per part; raise at the first damaged one."""
        ...


@runtime_checkable
class RanksTwoWays(Protocol):
    """A back end with compact codes, which can be ranked in two ways."""

    @property
    def ranking(self) -> RankingRule:
        """Current ranking."""
        ...

    def rank_by(self, ranking: RankingRule) -> None:
        """Use this ranking from now on."""
        ...

    def snapshot(self, ranking: RankingRule | None = None) -> Readable:
        """Return the items in their current state with this ranking (None: that of the back end)."""
        ...
