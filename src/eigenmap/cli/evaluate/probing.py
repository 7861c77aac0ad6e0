"""Options shared by `eigenmap evaluate classes` and `evaluate nodes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Annotated, Any

from eigenmap.cli.console import number_table, print_result
from eigenmap.cli.options import HOW, option
from eigenmap.core.errors import EigenmapError


class CodesOf(str, Enum):
    """Representation to probe."""

    codes = "codes"
    encoder = "encoder"


LabelSharesOption = Annotated[
    list[float] | None,
    option("--labels PERCENT...", "Percentages of the training labels to use [dim](default: 1 10 100)[/dim].", HOW),
]
CodesOfOption = Annotated[
    CodesOf,
    option(
        "--of",
        "Ordered codes, or the raw encoder output, which has no order and is used at full length.",
        HOW,
        shown=True,
    ),
]


def shares_of(percents: Sequence[float] | None) -> list[float]:
    """Return percentages of labels as shares; 1, 10 and 100 % by default."""
    for percent in percents or ():
        if not 0 < percent <= 100:
            raise EigenmapError(f"--labels takes percentages above 0 and up to 100, not {percent:g}.")
    return [percent / 100 for percent in percents or (1, 10, 100)]


def check_uncut(of: CodesOf, dims: Sequence[int] | None) -> None:
    """Refuse to cut encoder outputs, which have no order."""
    if of is CodesOf.encoder and dims:
        raise EigenmapError("The encoder output has no order and cannot be cut: leave --dims out.")


def show_by_share(
    rows: Sequence[Any], tested: str, columns: Sequence[str], cells: Callable[[Any], Sequence[str]]
) -> None:
    """Print one table per share of the labels, with one line per length."""
    for share in dict.fromkeys(row["share"] for row in rows):
        some = [row for row in rows if row["share"] == share]
        title = f"{100 * share:g} % of the training labels ({some[0]['labels']:,}), {tested}"
        print_result(number_table(title, ["features", *columns], ([str(row["dim"]), *cells(row)] for row in some)))
