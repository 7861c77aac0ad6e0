"""Numbers and values in sentences."""

from __future__ import annotations

from reprlib import Repr

_brief = Repr()
_brief.maxstring = _brief.maxother = 100


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things in words.

    >>> count(1, "image"), count(2000, "image"), count(0, "class", "classes")
    ('1 image', '2,000 images', '0 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shortened(value: object) -> str:
    """Return a value as code, for an error message; the middle of a long one is left out, and what is nested deeply.

    >>> shortened("label"), len(shortened("x" * 1000)), shortened(list(range(100)))
    ("'label'", 100, '[0, 1, 2, 3, 4, 5, ...]')
    """
    return _brief.repr(value)
