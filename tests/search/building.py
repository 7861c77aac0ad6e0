"""An index built from a stream of items, as `eigenmap index` builds one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from eigenmap.search.backend import IndexSpec, ItemBatch
from eigenmap.search.directory import Directory
from eigenmap.search.saving import Place, building, joined


def build_index(
    about: IndexSpec,
    batches: Iterable[ItemBatch],
    path: Place,
    *,
    overwrite: bool = False,
    model_dir: Place | None = None,
    finish: Callable[[Directory], object] = lambda made: None,
) -> int:
    """Build an index, and let `finish` add to its directory; return the number of items."""
    with building(about, path, overwrite=overwrite, model_dir=model_dir) as made:
        for batch in joined(batches):
            made.add(batch)
        finish(made.directory)
    return made.items
