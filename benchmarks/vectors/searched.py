"""What was tried for the goals and did not help, or helped: chosen on held-out pairs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.vectors.found import Found


def words(found: Found) -> Iterator[str]:
    """Nothing yet."""
    yield from ()
