"""Search options: `--dim`, `--shortlist`, `--funnel`, `--rank-by`, `--where`."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from eigenmap.cli.console import note
from eigenmap.cli.options import HOW, WHAT, option
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import MOST_DIGITS, shortened

if TYPE_CHECKING:
    from eigenmap.search import CodeIndex, Results

_DIGITS = rf"\d{{1,{MOST_DIGITS}}}"


class Ranking(str, Enum):
    """Ranking at full length of an index made with --bytes-per-item."""

    relevance = "relevance"
    cosine = "cosine"


SearchDimOption = Annotated[
    str | None,
    option(
        "--dim -d N|auto",
        "Number of features to compare; auto uses the advice of `eigenmap advise` [dim](default: all)[/dim].",
    ),
]
ShortlistDimOption = Annotated[
    int | None,
    option("--shortlist-dim N", "Rank everything by this many features first, and only the best by --dim.", HOW),
]
ShortlistOption = Annotated[int | None, option("--shortlist N", "Number of items kept from the shortlist.", HOW)]
FunnelOption = Annotated[
    str | None,
    option("--funnel N:KEEP,...", "All stages as features:items kept, for example 8:2000,32:200,256:10.", HOW),
]
RankOption = Annotated[
    Ranking | None,
    option(
        "--rank-by",
        "Ranking at full length with --bytes-per-item: relevance takes the reliability of codes into account, "
        "cosine finds more of what full codes would, and of single right answers [dim](default: relevance; other "
        "indexes rank by cosine)[/dim].",
        HOW,
    ),
]
WhereOption = Annotated[
    list[str] | None,
    option(
        "--where CONDITION",
        "Only items that meet this condition: label=cat, year>=2020, camera!=A. May be repeated.",
        WHAT,
    ),
]


def parse_dim(dim: str | None) -> int | Literal["auto"] | None:
    """Parse a number of features, "auto", or None for all."""
    if dim is None or dim == "auto":
        return dim  # type: ignore[return-value]
    if not re.fullmatch(rf"[+-]?{_DIGITS}", dim):
        raise EigenmapError(f"dim must be a whole number or auto, not {shortened(dim)}")
    return int(dim)


def parse_funnel(funnel: str | None) -> list[tuple[int, int]] | None:
    """Parse the stages of a funnel.

    >>> parse_funnel("8:2000, 256:10")
    [(8, 2000), (256, 10)]
    """
    if funnel is None:
        return None
    stages = [re.fullmatch(rf"\s*({_DIGITS}):({_DIGITS})\s*", stage) for stage in funnel.split(",")]
    if None in stages:
        raise EigenmapError(
            f"write a funnel as features:items kept, such as 8:2000,32:200,256:10, not {shortened(funnel)}"
        )
    return [(int(stage[1]), int(stage[2])) for stage in stages if stage is not None]


class SearchOptions:
    """Validated search options."""

    def __init__(self, top: int | None, dim: str | None, shortlist_dim: int | None, shortlist: int | None) -> None:
        self.top = top
        self.dim = parse_dim(dim)
        self.shortlist_dim = shortlist_dim
        self.shortlist = shortlist
        self.funnel: list[tuple[int, int]] | None = None
        self.where: dict[str, Any] | None = None
        self.ranking: Ranking | None = None

    def check(self, index: CodeIndex) -> None:
        """Raise an error if the index does not support these options."""
        if self.ranking is Ranking.relevance and not _has_reliability(index):
            raise EigenmapError("--rank-by relevance needs an index made with --bytes-per-item")
        if self.dim != "auto":
            index.stages(self.top, self.dim, self.shortlist_dim, self.shortlist, self.funnel)

    def search(self, index: CodeIndex, codes: Any, quiet: bool = False) -> Results:
        """Search, measuring the recall of a funnel on the index's own items."""
        if self.ranking is not None:
            index.rank_by(self.ranking.value)
        staged = self.shortlist is not None or self.funnel is not None
        if self.dim == "auto" and not staged:
            _ask_for_advice(index, quiet)
        elif self.dim != "auto" and staged:
            index.recall(self.top, self.dim, self.shortlist_dim, self.shortlist, funnel=self.funnel)
        return index.search(
            codes, self.top, self.dim, self.shortlist_dim, self.shortlist, funnel=self.funnel, where=self.where
        )

    def similarity(self, index: CodeIndex, dim: int | None) -> str:
        """Describe the scores of a comparison of `dim` features."""
        whole = dim == index.n_components
        if not _has_reliability(index) or not whole:
            return "cosine of the first dim features"
        times = "" if self.ranking is Ranking.cosine else ", times reliability"
        return f"cosine of the first dim features, estimated{times}"


def _ask_for_advice(index: CodeIndex, quiet: bool) -> None:
    """Measure which length to use, unless that was done for the current number of items."""
    from eigenmap.search.index import FEWEST_TO_ADVISE

    if len(index) >= FEWEST_TO_ADVISE and index.advice is None:
        if not quiet:
            note("Measuring which length to search with, as `eigenmap advise` does; later searches use the result.")
        index.advise()


def _has_reliability(index: CodeIndex) -> bool:
    """Tell whether items are weighted by the reliability of their codes; sign codes all have the same norm."""
    return index.about.metric == "cosine" and index.about.precision == "bits"
