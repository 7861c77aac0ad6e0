"""`eigenmap index INDEX --delete ID`: remove items from an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from eigenmap.cli.options import option
from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count, shortened

DeleteOption = Annotated[
    list[str] | None,
    option("--delete ID", "Delete the item with this id from an index, given in place of RUN; may be repeated."),
]


def delete_items(place: Path, ids: Sequence[str], others: Sequence[object]) -> str:
    """Delete items and their thumbnails; return a sentence with their number. `others` are arguments to refuse."""
    from eigenmap.search import CodeIndex
    from eigenmap.service.thumbnails import forget

    if any(other is not None for other in others):
        raise EigenmapError(
            "--delete takes only the index, and is repeated: eigenmap index INDEX --delete ID --delete ID."
        )
    require_path(place)
    with CodeIndex.open(place) as index:
        names = list(dict.fromkeys(ids))
        whole = len(index) > 0 and isinstance(index.backend.sample(1, seed=0).ids[0], int)
        index.delete([_number(name) for name in names] if whole else names)
        left = len(index)
    forget(place, names)
    return f"{place}: {count(len(names), 'item')} deleted, {left:,} left."


def _number(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise EigenmapError(f"ids in this index are whole numbers, not {shortened(name)}.") from None
