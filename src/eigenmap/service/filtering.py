"""Limits on filters from untrusted clients, checked before a search is queued."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from eigenmap.search.filters import conditions
from eigenmap.service.scheduling import Limits
from eigenmap.service.uploads import Refused


def check_filter(where: Mapping[str, Any] | None, limits: Limits) -> None:
    """Raise if a filter is invalid or exceeds the limits of the service."""
    if not where:
        return
    _require(len(where), limits.filter_conditions, "conditions")
    values = list(islice(_values(where), limits.filter_values + 1))
    _require(len(values), limits.filter_values, "values")
    texts = [text for text in (*where, *values) if isinstance(text, str)]
    _require(sum(map(len, texts)), limits.filter_characters, "characters")
    _require(len(conditions(where)), limits.filter_conditions, "conditions")


def _values(where: Mapping[str, Any]) -> Iterator[Any]:
    for asked in where.values():
        for value in asked.values() if isinstance(asked, Mapping) else [asked]:
            yield from value if isinstance(value, list) else [value]


def _require(found: int, most: int, what: str) -> None:
    if found > most:
        raise Refused(422, f"a filter may have at most {most:,} {what}")
