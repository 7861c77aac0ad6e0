"""What a back end of `CodeIndex` has to do, and the words that it and `CodeIndex` share.

`CodeIndex` checks what a caller passes; a back end stores codes and ranks them. It receives float32 matrices without
NaN, plain `str` or `int` ids without repetition, and stages whose lengths rise. A back end raises `EigenmapError` for
what only it can know: an id that is there already, a file that is damaged, a database that has gone away.

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
"""Which of all rows count."""
Id: TypeAlias = str | int
Value: TypeAlias = str | int | float | bool | None
Metadata: TypeAlias = Mapping[str, Value]

Mode: TypeAlias = Literal["add", "update", "upsert"]
"""All ids new; all ids there already; either."""

RankingRule: TypeAlias = Literal["relevance", "cosine"]
"""How a budget of bits ranks at full length: by expected cosine times reliability, or by cosines of what is stored."""

METRICS = ("cosine", "inner")
RANKINGS = get_args(RankingRule)
PRECISIONS = ("float32", "float16", "int8", "bits", "signs")
METHODS = ("hnsw", "ivf", "sq8")


@dataclass(frozen=True)
class Approximate:
    """How the first stage of a search may be answered approximately: an index on the first `dim` features.

    Its best `shortlist` items (never fewer than asked for) are then compared exactly. `effort` is how many
    candidates a query visits (ef of HNSW; for IVF, lists).
    """

    method: str = "hnsw"
    dim: int = 32
    shortlist: int = 200
    effort: int = 64


@dataclass(frozen=True)
class IndexSpec:
    """What an index is, decided when it is made and stored with it."""

    n_components: int
    metric: str = "cosine"
    fingerprint: str | None = None
    precision: str = "float32"
    bytes_per_item: int | None = None
    approximate: Approximate | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values, from which `from_json` makes the same again."""
        return asdict(self)

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> IndexSpec:
        """The inverse of `as_json`; `TypeError` or `ValueError` where the entries make no sense."""
        approximate = entries.get("approximate")
        about = cls(**{**entries, "approximate": None if approximate is None else Approximate(**approximate)})
        if not about.well_formed():
            raise ValueError("these entries describe no index")
        return about

    def well_formed(self) -> bool:
        """Whether every entry has a type and value that an index can have."""
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
    """One stage of a funnel: compare the first `dim` features, and keep the best `keep` items."""

    dim: int
    keep: int


class Hits(NamedTuple):
    """Results, the best first: one list of ids per query, and (n_queries, found) scores, float32."""

    ids: list[list[Id]]
    scores: Floats


class ItemBatch(NamedTuple):
    """Some items: ids, their codes (n, n_components), and what is known of each (empty if nothing)."""

    ids: list[Id]
    codes: Floats
    metadata: list[Metadata]


class Readable(Protocol):
    """Items that can be ranked and read."""

    @property
    def about(self) -> IndexSpec:
        """What the index is."""
        ...

    def __len__(self) -> int: ...

    def ids(self) -> list[Id]:
        """All ids, in the order in which they were added."""
        ...

    def search(self, queries: Floats, stages: Sequence[Stage], where: Sequence[Condition], exact: bool) -> Hits:
        """Rank the items that meet all conditions by the first stage, its best by the second, and so on.

        Queries have at least as many features as the last stage compares. Each stage cuts queries and codes at its
        `dim` and takes cosines of what is left, or inner products; equal scores come in the order of addition. With
        `exact` the first stage compares every item; without it, an approximate index may answer it. There are
        min(keep of the last stage, items that meet the conditions) results per query either way.
        """
        ...

    def take(self, ids: Sequence[Id]) -> ItemBatch:
        """These items, in this order; an id that is not there is an error."""
        ...

    def sample(self, count: int, seed: int) -> ItemBatch:
        """Up to `count` distinct items at random, the same for the same seed and content."""
        ...

    def batches(self, rows: int) -> Iterator[ItemBatch]:
        """All items in the order of addition, `rows` at a time."""
        ...


class Backend(Readable, Protocol):
    """Where the codes are, and who ranks them.

    Every change is one transaction: when the call returns it is there for good (on disk, in the database), and when
    it raises or the process dies, nothing of it is. An updated item counts as added last. Any number of threads may
    call any method; a search sees one state, that before a change or that after it.
    """

    def write(self, mode: Mode, codes: Floats, ids: Sequence[Id], metadata: Sequence[Metadata] | None) -> None:
        """Add or replace items, all or none. `metadata` None: added items have none, updated ones keep theirs."""
        ...

    def delete(self, ids: Sequence[Id]) -> None:
        """Remove items; an id that is not there is an error, and then none is removed."""
        ...

    def close(self) -> None:
        """Let go of files and connections; harmless if called again."""
        ...


@runtime_checkable
class KeepsStates(Protocol):
    """A back end that can hold on to its items as they are now."""

    @property
    def generation(self) -> object:
        """What is another object when another index has taken the place of this one."""
        ...

    def snapshot(self) -> Readable:
        """The items in one state, which no change reaches."""
        ...


def still(backend: Backend) -> Readable:
    """One state of the items, for several reads that belong together; a database has only the present one."""
    return backend.snapshot() if isinstance(backend, KeepsStates) else backend


@runtime_checkable
class KeepsNotes(Protocol):
    """A back end that can also keep small JSON objects with the index, such as what was measured about it."""

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Keep a note; no harm if that fails."""
        ...

    def read_note(self, name: str, required: bool = False) -> dict[str, Any] | None:
        """What `write_note` kept under this name, or None; if it is damaged, None or, where `required`, an error."""
        ...


@runtime_checkable
class KeepsChecksums(Protocol):
    """A back end that can compare all it has stored with checksums."""

    def verify(self) -> list[str]:
        """One line per part; an error for the first that is damaged."""
        ...


@runtime_checkable
class RanksTwoWays(Protocol):
    """A back end that has a budget of bits, and so a choice."""

    @property
    def ranking(self) -> RankingRule:
        """How searches rank now."""
        ...

    def rank_by(self, ranking: RankingRule) -> None:
        """Rank this way from now on."""
        ...

    def snapshot(self, ranking: RankingRule | None = None) -> Readable:
        """The items in one state, ranked this way (None: as the back end ranks them)."""
        ...
